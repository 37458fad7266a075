"""`htfl-sim tui --serve`: the app in a browser on this machine, through textual-serve."""

import errno
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import htfl_sim as hs
from tui.cli import output

HOST, PORT = "127.0.0.1", 8000
NAMES = ("localhost", "127.0.0.1")
"""The names under which a browser reaches this machine from itself, also through a tunnel."""
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "from tui.cli import main; sys.exit(main(sys.argv[1:]))"
)


def serve(port: int) -> None:
    """Answer browsers until Ctrl-C. Each page is an app of its own, with the options of this command line."""
    app = server(command(sys.argv[1:]), port)
    try:
        app.serve()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise hs.ConfigError(
            f"Port {port} is in use. Choose another one: `htfl-sim tui --serve --port {port + 1}`."
        ) from error


def command(arguments: list[str]) -> str:
    """The command line of one page's app: this same code with the same arguments."""
    return shlex.join([sys.executable, "-P", "-c", _BEGIN, str(Path(__file__).parents[2]), *arguments])


def is_local(host: str, origin: str | None) -> bool:
    """Whether a request comes from a page of this server, under a name of this machine.

    A browser lets the pages of any site open web sockets to this machine, and says which site it was.
    """
    return urlsplit(f"//{host}").hostname in NAMES and (origin is None or urlsplit(origin).netloc == host)


def server(command: str, port: int) -> Any:
    """A server of textual-serve that binds to this machine alone. Raises ConfigError if it is not installed."""
    hs.machine.library("textual_serve.server", "serve")
    from aiohttp.web import HTTPForbidden
    from textual_serve.server import Server

    class LocalServer(Server):
        """Refuses pages of other sites. The port in its links is the browser's own, which a tunnel may change."""

        def initialize_logging(self) -> None:
            """Requests are not printed."""

        async def on_startup(self, app: Any) -> None:
            output.say(f"The app is at http://localhost:{port} on this machine. Ctrl-C ends it.")

        async def handle_index(self, request: Any) -> Any:
            self.public_url = f"http://{request.host}"
            return await super().handle_index(request)

        async def handle_websocket(self, request: Any) -> Any:
            if not is_local(request.host, request.headers.get("Origin")):
                raise HTTPForbidden(text="Open the app from this machine or through a tunnel.")
            return await super().handle_websocket(request)

    return LocalServer(command, host=HOST, port=port, title="htfl-sim")
