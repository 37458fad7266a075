"""`htfl-sim tui`: open the terminal app on a new run, an existing session, or the list of sessions."""

from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import htfl_sim as hs
from tui.cli import options, running
from tui.cli.options import HOW, WHERE
from tui.common.errors import OutputClosed

if TYPE_CHECKING:
    from htfl_sim.configuring import Choices
    from simulator.engine.progress import Event, Observer
    from tui.app.app import HtflApp
    from tui.app.launch import ThreadRun


class Glyphs(StrEnum):
    """The character sets of charts."""

    BRAILLE = "braille"
    BLOCK = "block"
    ASCII = "ascii"


class Alert(StrEnum):
    """What the terminal does when a watcher notices something."""

    OFF = "off"
    BELL = "bell"
    DESKTOP = "desktop"


@options.expanded
def tui(
    setup: options.Setup,
    session: Annotated[
        str | None,
        options.option(
            "Session to show, live or ended. With a preset or settings: name of the new session.",
            metavar="NAME",
            panel=WHERE,
        ),
    ] = None,
    *,
    places: options.Folders,
    device: options.DeviceOption = None,
    workers: options.Workers = None,
    watch: options.Watch = None,
    glyphs: Annotated[
        Glyphs, options.flag("Glyphs of plots. Use block or ascii if the font lacks braille.", panel=HOW)
    ] = Glyphs.BRAILLE,
    alert: Annotated[
        Alert,
        options.flag(
            "What the terminal does when a watcher notices something: bell, or a desktop notice too (OSC 9).",
            panel=HOW,
        ),
    ] = Alert.OFF,
    serve: Annotated[
        bool,
        options.flag("Show the app in a browser on this machine (docs/terminal.md).", "--serve", panel=HOW),
    ] = False,
    port: Annotated[
        int | None,
        options.option("Port of --serve. Default: 8000.", "--port", least=1, metavar="N", panel=HOW),
    ] = None,
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
    from htfl_sim.configuring import Files
    from tui.app import terminal
    from tui.app.app import HtflApp
    from tui.app.launch_options import LaunchOptions

    if port is not None and not serve:
        raise hs.ConfigError("--port is the port of --serve. Add --serve.")
    if serve and not terminal.is_web():
        from tui.cli import serving

        serving.serve(port or serving.PORT)
        return
    if not terminal.is_there():
        raise hs.ConfigError(
            "The app needs a terminal; without one, use `htfl-sim run`, `show` and `sessions`."
        )
    options.load_plugins(setup.plugin)
    choices = replace(setup.choices(options.Machine(device, workers)), watch=watch or ())
    own = (
        setup.plugin,
        running.model_files(setup.model),
        setup.metric,
        running.selection_files(setup.selection),
    )
    files = Files(*(tuple(str(file.absolute()) for file in named or ()) for named in own))
    launch_options = LaunchOptions(
        hs.folders.sessions_dir(places.sessions_dir),
        hs.catalog.data_folder(places.data_dir),
        workers,
        device,
        session,
        files,
        apart=terminal.is_web(),
    )
    app = HtflApp(
        launch_options,
        _start(choices, session, launch_options),
        glyphs=glyphs.value,
        alert=alert.value,
        state=_state_folder(),
    )
    _carry_out(app)


def _start(choices: "Choices", session: str | None, launch_options: Any) -> Any:
    """The session to show, the run to begin, or the form to fill in. None: the list of sessions."""
    from htfl_sim.configuring import Choices
    from tui.app.dialogs.new_run import NewRun, is_here, made_up

    says_run = choices != Choices(device=choices.device, workers=choices.workers)
    if session is not None and not says_run:
        return hs.folders.session_folder(session, launch_options.sessions)
    if not says_run:
        return None
    if launch_options.apart:  # a page that is opened again must not start a second run
        return choices
    folder = launch_options.sessions / (
        hs.folders.checked_name(session) if session else made_up(choices, launch_options.sessions)
    )
    if folder.exists():
        raise hs.ConfigError(
            f"{folder} exists already; show it with --session alone, or choose another name."
        )
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
    from tui.cli import output

    for name in sessions:
        output.say(
            f"{name} goes on in a process of its own. Look: htfl-sim tui --session {name}; end it: htfl-sim stop {name}"
        )


def _see_out(launch: "ThreadRun", keep: bool, ended_by: int | None, rounds: int) -> None:
    """Continue training with a line per round, or stop between two clients. Raises the run's error."""
    import signal

    from htfl_sim.interrupts import Signals
    from tui.cli import output
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


def _state_folder() -> Path:
    from platformdirs import user_state_path

    return user_state_path("htfl-sim")
