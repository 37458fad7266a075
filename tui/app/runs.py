"""The runs started here: the first on a thread of the app, later ones in their own processes."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from htfl_sim import sessions, steering
from htfl_sim.catalog import MethodCard
from htfl_sim.configuring import Choices, Files
from htfl_sim.errors import DiskError, SessionUnreadable
from htfl_sim.folders import name_of
from htfl_sim.machine import Process
from simulator.base.documents import Event
from simulator.results.analysis.gain import SHADOW
from simulator.results.analysis.run import SessionData
from simulator.studies.board import StudySummary
from tui.app.dialogs.run_forms import (
    BESIDE,
    ForkDialog,
    ForkWish,
    NewRun,
    NewRunDialog,
    ResumeDialog,
    ResumeWish,
    ShadowDialog,
)
from tui.app.host import Host, Severity
from tui.common.errors import WATCHED, explain

if TYPE_CHECKING:
    from htfl_sim.running import Session
    from simulator.engine.progress import Event as RoundEvent
    from simulator.engine.progress import Observer

Opener = Callable[[], "Session"]
"""Makes or resumes a session. It is called on the run's own thread: the first one imports torch."""
LOOK_SECONDS = 0.2
"""How often to check whether the session exists, and whether the process has ended."""
_ERROR = "error: "
_STOPPED = {0, WATCHED, *(128 + each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))}
"""The exit codes of a run that finished, or stopped with a checkpoint."""


@dataclass(frozen=True)
class Beginning:
    """A run to start: on a thread by `open`, or in its own process with `arguments` of `htfl-sim`."""

    folder: Path
    open: Opener
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class LaunchOptions:
    """Options from the command line for every run started here: folders, and how sessions are opened."""

    sessions: Path
    data: Path
    workers: int | None = None
    device: str | None = None
    name: str | None = None
    """The name of the first new session, if it was given."""
    files: Files = field(default_factory=Files)
    """The users' files from the command line."""
    apart: bool = False
    """Whether every run is a process of its own, which continues when the app ends."""

    def new(self, wish: NewRun) -> Beginning:
        """Makes the session of a new run."""

        def create() -> "Session":
            from htfl_sim.running import begin

            return begin(wish.choices.read(), wish.folder, data_dir=self.data)

        plugins = Files(self.files.plugins).options()  # the other files are among the choices
        where = _options(data_dir=self.data, session=wish.folder.name, sessions_dir=wish.folder.parent)
        return Beginning(wish.folder, create, ("run", *wish.choices.typed(), *plugins, *where))

    def again(self, folder: Path, rounds: int | None = None, allow_inexact: bool = False) -> Beginning:
        """Resumes a session, with a new total number of rounds if it is given."""

        def resume() -> "Session":
            from htfl_sim.running import extend, reopen

            if rounds is not None:
                extend(folder, rounds)
            about = {"workers": self.workers, "device": self.device, "allow_inexact": allow_inexact}
            return reopen(folder, data_dir=self.data, **about)

        given = (*_options(rounds=rounds), *self._machine(), *["--allow-inexact"] * allow_inexact)
        return Beginning(folder, resume, ("resume", str(folder.absolute()), *given, *self.files.options()))

    def study(self, study: StudySummary) -> tuple[str, ...]:
        """The arguments of `htfl-sim` that continue a study."""
        home = _options(sessions_dir=Path(study.path).parent.absolute())
        command = "tune" if study.is_tuning else "sweep"
        return (command, study.name, *home, *self._machine(), *self.files.options())

    def _machine(self) -> Iterator[str]:
        return _options(workers=self.workers, device=self.device, data_dir=self.data)


def _options(**values: object) -> Iterator[str]:
    """Options of the command line. None is left out."""
    for name, value in values.items():
        if value is not None:
            yield from (f"--{name.replace('_', '-')}", str(value))


@dataclass
class RunStarted(Message):
    """A run started here owns its session now."""

    folder: Path


@dataclass
class RunEnded(Message):
    """A run started here is over: 'finished' or 'stopped'; failed, if there is a sentence with the reason."""

    folder: Path
    state: str
    failure: str | None = None


class LocalRun(threading.Thread):
    """A run started here. It is active until it reports its end, which may be before its thread ends."""

    def __init__(self, folder: Path, post: Callable[[Message], object]) -> None:
        super().__init__(name=f"run of {folder.name}", daemon=True)
        self.folder, self.state = folder, "stopped"
        """state: once it is over, 'finished' or 'stopped'."""
        self.error: Exception | None = None
        """The error that ended it, if any. It is never raised here."""
        self.failure: str | None = None
        self._post, self._has_ended = post, False

    @property
    def is_active(self) -> bool:
        return self.is_alive() and not self._has_ended

    def run(self) -> None:
        try:
            self._carry_out()
        except Exception as error:  # any error is shown, and the app continues
            self.error, self.failure = error, explain(error)[0]
        self._has_ended = True
        self._post(RunEnded(self.folder, self.state, self.failure))

    def _carry_out(self) -> None:
        """Run the session to its end or a stop, and say when it has begun."""
        raise NotImplementedError


class ThreadRun(LocalRun):
    """Opens a session, and runs it in this process."""

    def __init__(self, folder: Path, open: Opener, post: Callable[[Message], object]) -> None:
        super().__init__(folder, post)
        self.observe: Observer | None = None
        """Receives the run's events, if it is set."""
        self._open = open
        self._reason: str | None = None

    def stop(self, reason: str) -> None:
        """Stop the run between two clients, with a checkpoint."""
        self._reason = self._reason or reason

    def _carry_out(self) -> None:
        def tell(event: "RoundEvent") -> None:
            if self.observe is not None:
                self.observe(event)

        with self._open() as session:
            self._post(RunStarted(self.folder))
            self.state = session.run(tell, stop=lambda: self._reason).state


class ProcessRun(LocalRun):
    """Starts `htfl-sim` with these arguments, and waits for its end. It leaves no zombie."""

    def __init__(self, folder: Path, arguments: Sequence[str], post: Callable[[Message], object]) -> None:
        super().__init__(folder, post)
        self._arguments = arguments

    def _carry_out(self) -> None:
        process, began = Process("tui.cli", self._arguments), False
        while (code := process.wait(LOOK_SECONDS)) is None:
            with suppress(SessionUnreadable, DiskError):
                if not began and steering.owner_pid(self.folder) == process.pid:
                    began = True
                    self._post(RunStarted(self.folder))
        self.failure = None if code in _STOPPED else _failure(code, process.words())
        process.close()
        with suppress(SessionUnreadable, DiskError):  # it may have failed before it made a session
            self.state = sessions.state(self.folder)


def _failure(code: int, words: str) -> str:
    """The last error message of the process, or how it ended."""
    said = [line.removeprefix(_ERROR) for line in words.splitlines() if line.startswith(_ERROR)]
    if said:
        return said[-1]
    with suppress(ValueError):
        return f"its process was stopped by {signal.Signals(-code).name}."
    return f"its process ended with exit code {code}."


class LocalRuns:
    """The run on a thread of this process, if any, the processes started here, and the sessions made."""

    def __init__(self, host: Host, options: LaunchOptions) -> None:
        self._host, self._options = host, options
        self._failures: dict[Path, Event] = {}
        self.launch: ThreadRun | None = None
        """The latest run of this process."""
        self._others: dict[Path, ProcessRun] = {}

    @property
    def running(self) -> bool:
        return self.launch is not None and self.launch.is_active

    @property
    def elsewhere(self) -> list[str]:
        """The sessions that processes started here run."""
        return [name_of(folder) for folder, other in self._others.items() if other.is_active]

    @property
    def name(self) -> str:
        return self.launch.folder.name if self.launch else ""

    @property
    def rounds(self) -> int:
        """Those of that session, if it was shown."""
        run = self._host.view.run
        return run.rounds if self.launch is not None and self.launch.folder == run.folder else 0

    def new_run(self, choices: Choices | None = None) -> None:
        """Show the form for a new run, filled in with `choices`."""
        options = self._options
        name = options.name or ""
        free = "" if (options.sessions / name).exists() else name
        plugins = [Path(each) for each in options.files.plugins]
        form = NewRunDialog(options.sessions, options.data, choices or Choices(), free, plugins)
        self._host.ask(form, self.begin)

    def begin(self, wish: NewRun) -> None:
        """Begin a new run and show it."""
        self.start(self._options.new(wish))
        self._host.open_session(wish.folder, exists=False)
        self._host.show_panel("live")

    def resume(self, run: SessionData) -> None:
        """Ask how to resume a session that no process runs."""

        def chosen(wish: ResumeWish) -> None:
            self.start(self._options.again(run.folder, wish.rounds, wish.allow_inexact))

        self._host.ask(ResumeDialog(run), chosen)

    def resume_as_they_are(self, folders: Sequence[Path]) -> None:
        """Resume sessions that no process runs, to their last rounds."""
        for folder in folders:
            self.start(self._options.again(folder))

    def fork(self, beside: bool = False) -> None:
        """Ask for a fork at the round shown. beside: for a run of another method beside the session."""
        run = self._host.view.run

        def show(choices: list[MethodCard]) -> None:
            view = self._host.view
            if self._host.is_at(run.folder):
                known = [(each.name, each.title) for each in choices if each.obstacle is None]
                about = view.run, view.shown, self._options.sessions, known
                dialog = ShadowDialog(*about, view.paired) if beside else ForkDialog(*about)
                self._host.ask(dialog, partial(self._fork, run.folder))

        if run.document:
            self._host.methods.give(run.config, show)
        else:
            self._host.say_unread()

    def _fork(self, parent: Path, wish: ForkWish) -> None:
        def work() -> None:
            from htfl_sim.running import branch
            from simulator.engine.progress import RoundStarted

            def observe(event: "RoundEvent") -> None:
                if isinstance(event, RoundStarted):
                    again = f"forking: recomputing round {event.round} of {wish.round}"
                    self._host.background.tell("fork", again)

            branch(
                parent,
                wish.folder,
                wish.round,
                data_dir=self._options.data,
                method=wish.method,
                assignments=wish.settings,
                workers=self._options.workers,
                device=self._options.device,
                observe=observe,
            )
            if wish.then == BESIDE:
                sessions.tag(wish.folder, add=[SHADOW])

        what = f" to {wish.method}" if wish.method else ""
        forking = f"forking {wish.folder.name}{what} after round {wish.round}…"
        self._host.background.run("fork", forking, work, lambda _: self.forked(parent, wish))

    def forked(self, parent: Path, wish: ForkWish) -> None:
        """Continue after a fork is made, but keep what the user has opened meanwhile."""
        if wish.then == BESIDE:
            self._host.files.pair(wish.folder)
            self.start(self._options.again(wish.folder), apart=True)
            return
        self._host.say(f"Created fork {wish.folder.name}.")
        if wish.then != "stay" and self._host.is_at(parent):
            self._host.open_session(wish.folder)
        if wish.then == "run":
            self.start(self._options.again(wish.folder))

    def start(self, beginning: Beginning, apart: bool = False) -> None:
        """Run a session from now on: on a thread, or in its own process if a thread runs one already, or if `apart`."""
        folder = beginning.folder
        if self._is_begun(folder, "starting…"):
            return
        self._failures.pop(folder, None)
        if self.running or self._options.apart or apart:
            beside = f", beside {self.name}" if self.running else " and continues without this app"
            other = self._start_process(folder, beginning.arguments)
            where = f"{name_of(folder)} runs in its own process{beside}."
            self._host.say(where, holds=lambda: other.is_active)
        else:
            self.launch = ThreadRun(folder, beginning.open, self._host.post_message)
            self.launch.start()

    def start_study(self, study: StudySummary) -> None:
        """Continue a study, in its own process."""
        folder = Path(study.path)
        if not self._is_begun(folder, f"starting {study.name}…"):
            self._start_process(folder, self._options.study(study))

    def _is_begun(self, folder: Path, doing: str) -> bool:
        """Whether a run of a session or study is active, which a notice says. If not, it shows `doing`."""
        if (begun := self._latest(folder)) is not None and begun.is_active:
            twice = f"{name_of(folder)} is already starting or running."
            self._host.say(twice, holds=lambda: begun.is_active)
            return True
        self._host.background.begin(f"run {folder}", doing)
        return False

    def _start_process(self, folder: Path, arguments: Sequence[str]) -> ProcessRun:
        other = self._others[folder] = ProcessRun(folder, arguments, self._host.post_message)
        other.start()
        return other

    def _latest(self, folder: Path) -> LocalRun | None:
        """The active run of a session, if there is one, or the latest."""
        begun = [each for each in (self.launch, self._others.get(folder)) if each and each.folder == folder]
        return max(begun, key=lambda each: each.is_active, default=None)

    def started(self, message: RunStarted) -> None:
        """The session exists, and its files can be read."""
        self._host.background.begin(f"run {message.folder}", "")
        if self._host.view.run.folder == message.folder:
            self._host.files.follow(message.folder)

    def ended(self, message: RunEnded) -> None:
        folder, failure, run = message.folder, message.failure, self._host.view.run
        self._host.background.begin(f"run {folder}", "")
        over = self._latest(folder)
        said = f"is {message.state}." if failure is None else f"failed: {failure}"
        kind: Severity = "information" if failure is None else "error"
        self._host.say(
            f"{name_of(folder)} {said}", kind, lambda: self._latest(folder) is over
        )  # not started again
        if failure is None:
            return
        self._failures[folder] = {
            "event": "failed", "at": steering.now(), "round": run.round, "message": failure,
        }  # fmt: skip
        if run.folder == folder:
            self._host.change(run=self.with_failure(run))

    def with_failure(self, run: SessionData) -> SessionData:
        """A run that failed here is 'failed', with the sentence in its log, until it is started again."""
        failure = self._failures.get(run.folder)
        return run if failure is None else replace(run, state="failed", events=(*run.events, failure))
