"""The runs started here: the first on a thread of the app, later ones in their own processes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from htfl_sim import sessions
from htfl_sim.compatibility import MethodChoice
from htfl_sim.configuring import Choices
from htfl_sim.folders import name_of
from htfl_sim.steering import now
from simulator.base.documents import Event
from simulator.results.analysis.partners import SHADOW
from simulator.results.analysis.run import SessionData
from simulator.studies.summary import StudySummary
from tui.app.background import Background
from tui.app.compatibility import MethodChoices
from tui.app.dialogs.fork import BESIDE, ForkDialog, ForkWish, ResumeDialog, ResumeWish, ShadowDialog
from tui.app.dialogs.new_run import NewRun, NewRunDialog
from tui.app.host import Host
from tui.app.launch import LocalRun, ProcessRun, ThreadRun
from tui.app.launch_options import Beginning, LaunchOptions
from tui.app.messages import RunEnded, RunStarted


class LocalRuns:
    """The run on a thread of this process, if any, the processes started here, and the sessions made."""

    def __init__(
        self, host: Host, options: LaunchOptions, background: Background, choices: MethodChoices
    ) -> None:
        self._host, self._options, self._background, self._choices = host, options, background, choices
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
        """The session of the latest run."""
        return self.launch.folder.name if self.launch else ""

    @property
    def rounds(self) -> int:
        """The number of rounds of that session, if it was shown."""
        run = self._host.view.run
        return run.rounds if self.launch is not None and self.launch.folder == run.folder else 0

    def new_run(self, choices: Choices | None = None) -> None:
        """Show the form for a new run, filled in with `choices`."""
        options = self._options
        name = options.name or ""
        taken = (options.sessions / name).exists()
        plugins = [Path(each) for each in options.files.plugins]
        form = NewRunDialog(
            options.sessions, options.data, choices or Choices(), "" if taken else name, plugins
        )
        self._host.ask(form, self.begin)

    def begin(self, wish: NewRun) -> None:
        """Begin a new run and show it."""
        self.start(self._options.new(wish))
        self._host.change(
            run=SessionData(wish.folder),
            round=None,
            crosshair=None,
            client=None,
            pinned=frozenset(),
            filter="",
        )
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

    def fork(self) -> None:
        """Ask for the fork at the round shown, once it is known which methods can continue there."""
        run = self._host.view.run
        if run.document:
            self._choices.give(run.config, partial(self._show_fork, run.folder))
        else:
            self._say_unread()

    def _say_unread(self) -> None:
        """Say why there is no session to fork, as long as this is so."""
        name = self._host.view.run.name
        why = f"{name} is not open yet." if name else "No session is open. Press a to open one."
        self._host.say(
            why, holds=lambda: self._host.view.run.name == name and not self._host.view.run.document
        )

    def shadow(self) -> None:
        """Ask for a run of Standalone beside the session shown, once it is known which methods can run."""
        run = self._host.view.run
        if run.document:
            self._choices.give(run.config, partial(self._show_shadow, run.folder))
        else:
            self._say_unread()

    def _show_shadow(self, folder: Path, choices: list[MethodChoice]) -> None:
        view = self._host.view
        if not self._host.is_at(folder):
            return
        known = [(each.name, each.title) for each in choices if each.obstacle is None]
        dialog = ShadowDialog(view.run, view.shown, self._options.sessions, known, view.paired)
        self._host.ask(dialog, lambda wish: self._fork(view.run.folder, wish))

    def _show_fork(self, folder: Path, choices: list[MethodChoice]) -> None:
        view = self._host.view
        if not self._host.is_at(folder):
            return
        known = [(each.name, each.title) for each in choices if each.obstacle is None]
        dialog = ForkDialog(view.run, view.shown, self._options.sessions, known)
        self._host.ask(dialog, lambda wish: self._fork(view.run.folder, wish))

    def _fork(self, parent: Path, wish: ForkWish) -> None:
        def work() -> None:
            from htfl_sim.running import branch
            from simulator.engine.progress import Event as RoundEvent
            from simulator.engine.progress import RoundStarted

            def observe(event: RoundEvent) -> None:
                if isinstance(event, RoundStarted):
                    again = f"forking: recomputing round {event.round} of {wish.round}"
                    self._background.tell("fork", again)

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
        self._background.run("fork", forking, work, lambda _: self.forked(parent, wish))

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
        """Run a session from now on: on a thread, or in its own process if a thread runs one already.

        apart: in its own process in any case.
        """
        folder = beginning.folder
        if (begun := self._latest(folder)) is not None and begun.is_active:
            twice = f"{name_of(folder)} is already starting or running."
            self._host.say(twice, holds=lambda: begun.is_active)
            return
        self._failures.pop(folder, None)
        self._background.begin(_topic(folder), "starting…")
        if self.running or self._options.apart or apart:
            beside = f", beside {self.name}" if self.running else " and continues without this app"
            other = self._others[folder] = ProcessRun(folder, beginning.arguments, self._host.post_message)
            other.start()
            where = f"{name_of(folder)} runs in its own process{beside}."
            self._host.say(where, holds=lambda: other.is_active)
        else:
            self.launch = ThreadRun(folder, beginning.open, self._host.post_message)
            self.launch.start()

    def start_study(self, study: StudySummary) -> None:
        """Continue a study, in its own process."""
        folder = Path(study.path)
        if (before := self._others.get(folder)) is not None and before.is_active:
            twice = f"{study.name} is already starting or running."
            self._host.say(twice, holds=lambda: before.is_active)
            return
        self._background.begin(_topic(folder), f"starting {study.name}…")
        other = self._others[folder] = ProcessRun(folder, self._options.study(study), self._host.post_message)
        other.start()

    def _latest(self, folder: Path) -> LocalRun | None:
        """The active run of a session, if there is one, or the latest."""
        begun: list[LocalRun] = []
        if self.launch is not None and self.launch.folder == folder:
            begun.append(self.launch)
        if folder in self._others:
            begun.append(self._others[folder])
        return max(begun, key=lambda each: each.is_active, default=None)

    def started(self, message: RunStarted) -> None:
        """The session exists, and its files can be read."""
        self._background.end(_topic(message.folder))
        if self._host.view.run.folder == message.folder:
            self._host.files.follow(message.folder)

    def ended(self, message: RunEnded) -> None:
        """Show how the run has ended."""
        self._background.end(_topic(message.folder))
        name, over = name_of(message.folder), self._latest(message.folder)

        def holds() -> bool:
            """Whether the session was not started again."""
            return self._latest(message.folder) is over

        if message.failure is None:
            self._host.say(f"{name} is {message.state}.", holds=holds)
            return
        run = self._host.view.run
        self._host.say(f"{name} failed: {message.failure}", "error", holds)
        self._failures[message.folder] = {
            "event": "failed",
            "at": now(),
            "round": run.round,
            "message": message.failure,
        }
        if run.folder == message.folder:
            self._host.change(run=self.with_failure(run))

    def with_failure(self, run: SessionData) -> SessionData:
        """A run that failed here is 'failed', with the sentence in its log, until it is started again."""
        failure = self._failures.get(run.folder)
        return run if failure is None else replace(run, state="failed", events=(*run.events, failure))


def _topic(folder: Path) -> str:
    """The background topic of this session's start."""
    return f"run {folder}"
