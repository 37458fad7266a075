"""`htfl-sim tui --serve`: the app in a browser on this machine, through textual-serve."""

import errno
import secrets
import shlex
import sys
from hmac import compare_digest
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
    app = server(command(sys.argv[1:]), port, secrets.token_hex(24))
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


def knows(token: str, *given: str | None) -> bool:
    """Whether a request has the token, in its address or as the cookie that the first page sets."""
    return any(each is not None and compare_digest(each.encode(), token.encode()) for each in given)


def server(command: str, port: int, token: str) -> Any:
    """A server of textual-serve that binds to this machine alone, and answers only who knows the token.

    Raises ConfigError if it is not installed.
    """
    hs.machine.library("textual_serve.server", "serve")
    from aiohttp.web import HTTPForbidden, middleware
    from textual_serve.server import Server

    cookie = f"htfl-sim-{port}"  # a browser sends the cookies of all servers on this machine

    async def admit(request: Any, handler: Any) -> Any:
        typed = request.query.get("token")
        if not knows(token, typed, request.cookies.get(cookie)):
            raise HTTPForbidden(text="Open the address that `htfl-sim tui --serve` printed, with its token.")
        response = await handler(request)
        if not response.prepared:
            response.headers["Referrer-Policy"] = "no-referrer"  # the address has the token
            if knows(token, typed):
                response.set_cookie(cookie, token, httponly=True, samesite="Strict")
        return response

    class LocalServer(Server):
        """Refuses pages of other sites. The port in its links is the browser's own, which a tunnel may change."""

        async def _make_app(self) -> Any:
            app = await super()._make_app()
            app.middlewares.append(middleware(admit))
            return app

        def initialize_logging(self) -> None:
            """Requests are not printed."""

        async def on_startup(self, app: Any) -> None:
            output.say(
                f"The app is at http://localhost:{port}/?token={token} on this machine. Ctrl-C ends it."
            )

        async def handle_index(self, request: Any) -> Any:
            self.public_url = f"http://{request.host}"
            return await super().handle_index(request)

        async def handle_websocket(self, request: Any) -> Any:
            if not is_local(request.host, request.headers.get("Origin")):
                raise HTTPForbidden(text="Open the app from this machine or through a tunnel.")
            return await super().handle_websocket(request)

    return LocalServer(command, host=HOST, port=port, title="htfl-sim")
