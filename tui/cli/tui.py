"""`htfl-sim tui`: open the terminal app on a new run, an existing session, or the list of sessions.

With --serve, the app is in a browser on this machine, through textual-serve.
"""

import errno
import secrets
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

import htfl_sim as hs
from htfl_sim.choices import HOW, WHERE, Choices, Device, Watch, Workers
from tui.cli import options, output
from tui.cli.options import Option, flag
from tui.common.errors import OutputClosed

if TYPE_CHECKING:
    from simulator.engine.progress import Event, Observer
    from tui.app.app import HtflApp
    from tui.app.runs import ThreadRun

HOST, PORT = "127.0.0.1", 8000
NAMES = ("localhost", "127.0.0.1")
"""The names under which a browser reaches this machine from itself, also through a tunnel."""
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "from tui.cli import main; sys.exit(main(sys.argv[1:]))"
)


SESSION = "Session to show, live or ended. With a preset or settings: name of the new session."
GLYPHS = "Glyphs of plots. Use block or ascii if the font lacks braille."
ALERT = "What the terminal does when a watcher notices something: bell, or a desktop notice too (OSC 9)."
SERVE = "Show the app in a browser on this machine."
SERVE_PORT = f"Port of --serve. Default: {PORT}."


def tui(
    setup: Choices,
    session: Annotated[str | None, Option(SESSION, metavar="NAME", panel=WHERE)] = None,
    *,
    places: options.Folders,
    device: Device = None,
    workers: Workers = None,
    watch: Watch = (),
    glyphs: Annotated[Literal["braille", "block", "ascii"], flag(GLYPHS, panel=HOW)] = "braille",
    alert: Annotated[Literal["off", "bell", "desktop"], flag(ALERT, panel=HOW)] = "off",
    serve: Annotated[bool, flag(SERVE, "--serve", panel=HOW)] = False,
    port: Annotated[int | None, Option(SERVE_PORT, "--port", least=1, metavar="N", panel=HOW)] = None,
) -> None:
    """Open the terminal app: watch a run, steer it, see earlier rounds, fork it, and compare.

    Without arguments it opens the list of sessions. A run started in the
    app trains in this process; q asks whether it continues without the app.
    In the app, ? lists every key.

    \b
    Examples
      htfl-sim tui
      htfl-sim tui --preset fedlora_htm5 --dataset fashion_mnist
      htfl-sim tui --session mu07
      htfl-sim tui --glyphs ascii
      htfl-sim tui --serve --port 8888
    """
    from platformdirs import user_state_path

    from htfl_sim.configuring import Files
    from tui.app import terminal
    from tui.app.app import HtflApp
    from tui.app.runs import LaunchOptions

    if port is not None and not serve:
        raise hs.ConfigError("--port is the port of --serve. Add --serve.")
    if serve and not terminal.is_web():
        serve_pages(port or PORT)
        return
    if not terminal.is_there():
        raise hs.ConfigError(
            "The app needs a terminal; without one, use `htfl-sim run`, `show` and `sessions`."
        )
    own = setup.files
    Files(own.plugins).load()
    choices = replace(setup, plugins=(), device=device, workers=workers, watch=watch)
    files = Files(*(tuple(str(Path(file).absolute()) for file in named) for _, named in own))
    folders = hs.folders.sessions_dir(places.sessions_dir), hs.folders.data_folder(places.data_dir)
    launch = LaunchOptions(*folders, workers, device, session, files, apart=terminal.is_web())
    how: dict[str, Any] = {"glyphs": terminal.able(glyphs), "alert": alert}
    app = HtflApp(launch, _start(choices, session, launch), **how, state=user_state_path("htfl-sim"))
    _carry_out(app)


def _start(choices: Choices, session: str | None, launch_options: Any) -> Any:
    """The session to show, the run to begin, or the form to fill in. None: the list of sessions."""
    from tui.app.dialogs.run_forms import NewRun, is_here, made_up

    says_run = choices != Choices(device=choices.device, workers=choices.workers)
    if session is not None and not says_run:
        return hs.folders.session_folder(session, launch_options.sessions)
    if not says_run:
        return None
    if launch_options.apart:  # a page that is opened again must not start a second run
        return choices
    name = hs.folders.checked_name(session) if session else made_up(choices, launch_options.sessions)
    folder = launch_options.sessions / name
    if folder.exists():
        remedy = "show it with --session alone, or choose another name"
        raise hs.ConfigError(f"{folder} exists already; {remedy}.")
    return NewRun(choices, folder) if is_here(choices, launch_options.data) else choices


def _carry_out(app: "HtflApp") -> None:
    """Run the app, and then the run that it leaves behind."""
    from tui.app.app import KEEP
    from tui.app.terminal import Hangup

    def stop() -> None:
        if app.runs.launch is not None and app.runs.launch.is_alive():
            app.runs.launch.stop("SIGHUP")
            app.runs.launch.join()

    hangup = Hangup(stop)
    hangup.start()
    how = app.run()
    hangup.disarmed = how == KEEP
    _say_who_goes_on(app.runs.elsewhere)
    if app.runs.launch is not None:
        _see_out(app.runs.launch, how == KEEP, app.ended_by, app.runs.rounds)
    if app.ended_by:
        raise typer.Exit(128 + app.ended_by)
    if app.return_code:
        raise typer.Exit(app.return_code)


def _say_who_goes_on(sessions: list[str]) -> None:
    """Print what processes of the app still run, and how to open or stop them."""
    for name in sessions:
        output.say(
            f"{name} goes on in a process of its own. Look: htfl-sim tui --session {name}; end it: htfl-sim stop {name}"
        )


def _see_out(launch: "ThreadRun", keep: bool, ended_by: int | None, rounds: int) -> None:
    """Continue training with a line per round, or stop between two clients. Raises the run's error."""
    import signal

    from htfl_sim.shown import Signals
    from tui.cli.progress import Lines

    name = launch.folder.name
    if launch.is_active:
        if keep:
            launch.observe = _UntilHangup(Lines(rounds))
            output.say(f"{name} trains on; Ctrl-C stops it. Look again: htfl-sim tui --session {name}")
        else:
            launch.stop(signal.Signals(ended_by).name if ended_by else "stop")
            output.say(f"{name}: the clients at work finish and are kept, then a checkpoint is written.")
        with Signals() as signals:
            while launch.is_alive():
                launch.join(0.2)
                if signals.stop:
                    launch.stop(signals.stop)
                if signals.take_checkpoint():
                    with suppress(hs.HtflError):  # it has just ended
                        hs.steering.checkpoint(launch.folder, wait=False)
        if launch.error is None:
            with suppress(OSError):
                output.say(f"{name} has {launch.state}.")
        if signals.exit_code and launch.state == "stopped":
            raise typer.Exit(signals.exit_code)
    if launch.error is not None:
        raise launch.error


class _UntilHangup:
    """Passes events on while there is a terminal. Afterwards, the run continues without output."""

    def __init__(self, tell: "Observer") -> None:
        self._tell = tell

    def __call__(self, event: "Event") -> None:
        from tui.app import terminal

        try:
            self._tell(event)
        except (OSError, OutputClosed):
            terminal.silence()


def serve_pages(port: int) -> None:
    """Answer browsers until Ctrl-C. Each page is an app of its own, with the options of this command line."""
    app = local_server(page_command(sys.argv[1:]), port, secrets.token_hex(24))
    try:
        app.serve()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise hs.ConfigError(
            f"Port {port} is in use. Choose another one: `htfl-sim tui --serve --port {port + 1}`."
        ) from error


def page_command(arguments: list[str]) -> str:
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


def local_server(command: str, port: int, token: str) -> Any:
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
