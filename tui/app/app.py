"""The terminal app: the frame, and what its keys ask of the run shown, through the session's mailbox like anybody."""

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Command
from simulator.analysis.run import Run
from tui.app import terminal
from tui.app.charts.glyphs import Glyphs
from tui.app.compatibility import MethodChoice
from tui.app.dialogs.choose import Choose, confirm
from tui.app.dialogs.fork import ForkDialog, ForkWish
from tui.app.dialogs.new_run import NewRun, NewRunDialog
from tui.app.dialogs.resume import ResumeDialog, ResumeWish
from tui.app.dialogs.switch import SwitchDialog, SwitchWish
from tui.app.dialogs.tour import Tour
from tui.app.frame import Frame
from tui.app.keys import WHILE_REPLAYING
from tui.app.launch import Launch, Opener
from tui.app.launch_options import LaunchOptions
from tui.app.messages import Answered, NewRunWanted, RunEnded, RunStarted
from tui.app.status import WAITING
from tui.common.errors import explain
from tui.common.settings import Choices

KEEP, STOP, LEAVE = "keep", "stop", "leave"
"""What the app hands back when it ends: the run of this process goes on, is to stop, or there is none."""


class HtflApp(Frame):
    """`htfl-sim tui`. `start` is the session to show, the run to begin, or what to fill the new-run form with."""

    def __init__(
        self,
        places: LaunchOptions,
        start: Path | NewRun | Choices | None = None,
        *,
        glyphs: Glyphs = "braille",
        tour: bool = False,
        **frame: Any,
    ) -> None:
        super().__init__(places.sessions, glyphs=glyphs, **frame)
        self.options = places
        self.launch: Launch | None = None
        self.ended_by: int | None = None
        """The signal that ended the app, if one did."""
        self._start = start
        self._tour = tour
        self._asked: dict[str, Command] = {}
        self._doing: dict[str, str] = {}
        self._failures: dict[Path, dict[str, Any]] = {}
        self._choices_of: dict[str, list[MethodChoice]] = {}

    def on_mount(self) -> None:
        if not self.is_headless:
            terminal.on_signals(self._leave_by)
        match self._start:
            case Path() as folder:
                self.open_session(folder)
            case NewRun() as wish:
                self._begin(wish)
            case Choices() as choices:
                self.call_after_refresh(self.action_new_run, choices)
            case None:
                self.call_after_refresh(self.action_show_panel, "sessions")
        if self._tour:
            self.call_after_refresh(self.push_screen, Tour())

    @property
    def running_here(self) -> bool:
        return self.launch is not None and self.launch.is_alive()

    @property
    def rounds_here(self) -> int:
        """How many rounds the run of this process is to have, as far as it was shown."""
        shown = self.launch is not None and self.launch.folder == self.view.run.folder
        return self.view.run.rounds if shown else 0

    @property
    def waiting(self) -> list[str]:
        kinds = [command.kind for command in (*self.view.run.pending, *self._asked.values())]
        return [*dict.fromkeys(WAITING[kind] for kind in kinds if kind in WAITING), *self._doing.values()]

    def idle_keys(self) -> tuple[str, ...]:
        if self.view.replaying:
            return WHILE_REPLAYING
        return () if self.view.run.live else ("checkpoint", "stop")

    def with_failure(self, run: Run) -> Run:
        """A run that failed here is 'failed', with the sentence in its log, until it is started again."""
        failure = self._failures.get(run.folder)
        return run if failure is None else replace(run, state="failed", events=(*run.events, failure))

    # Steering

    def action_pause(self) -> None:
        if self._steerable("pause"):
            if not self.view.run.live:
                self._ask_resume()
            else:
                self._post("resume" if self.view.run.state in ("paused", "pausing") else "pause")

    def action_stop(self) -> None:
        if self._steerable("stop", live=True):
            self._confirm(
                f"Stop {self.view.run.name}?",
                "The clients at work finish and are kept, then a checkpoint is written.",
                "stop; space starts it again",
                lambda: self._post("stop"),
            )

    def action_checkpoint(self) -> None:
        if not self._steerable("a checkpoint", live=True):
            return
        choices = [
            ("now", "now", "at the next client boundary, with the round's finished clients"),
            ("cka", "with CKA", "at the end of the round, with how alike the models are"),
        ]

        def chosen(which: str | None) -> None:
            if which:
                self._post("checkpoint", {"cka": True} if which == "cka" else {})

        self.push_screen(Choose("Write a checkpoint", "", choices), chosen)

    def action_switch(self) -> None:
        if self._steerable("a switch"):
            self._with_choices_of(self._show_switch)

    def _show_switch(self, choices: list[MethodChoice]) -> None:
        run = self.view.run
        when = f"Takes hold at the end of the round; until then {run.method} goes on."
        if not run.live:
            when = "Nobody runs this session: the switch waits for its next start (space)."

        def chosen(wish: SwitchWish | None) -> None:
            if wish:
                self._post("switch", {"method": wish.method, "set": list(wish.settings)})

        self.push_screen(SwitchDialog(run.config, choices, when), chosen)

    def action_fork(self) -> None:
        if not self.view.run.document:
            self.say("There is no session to fork: open one with a.")
            return
        self._with_choices_of(self._show_fork)

    def _show_fork(self, choices: list[MethodChoice]) -> None:
        known = [(each.name, each.title) for each in choices if each.obstacle is None]
        dialog = ForkDialog(self.view.run, self.view.shown, self.sessions_dir, known)
        parent = self.view.run.folder
        self.push_screen(dialog, lambda wish: self._fork(parent, wish) if wish else None)

    def _fork(self, parent: Path, wish: ForkWish) -> None:
        def work() -> None:
            from simulator.progress import Event, RoundStarted
            from simulator.sessions.forking import fork

            def observe(event: Event) -> None:
                if isinstance(event, RoundStarted):
                    self.call_from_thread(
                        self._do, "fork", f"forking: round {event.round} of {wish.round} again"
                    )

            fork(
                parent,
                wish.folder,
                self.options.data,
                wish.round,
                method=wish.method,
                assignments=wish.settings,
                workers=self.options.workers,
                device=self.options.device,
                observe=observe,
            )

        self._on_thread("fork", "forking…", work, lambda _: self._forked(wish.folder))

    def _forked(self, folder: Path) -> None:
        choices = [
            ("open", "open", "show the fork"),
            ("run", "run", "show it and run it here"),
            ("stay", "stay", "it waits in Sessions (s)"),
        ]

        def chosen(which: str | None) -> None:
            if which in ("open", "run"):
                self.open_session(folder)
            if which == "run":
                self._launch(folder, self.options.resumer(folder))

        self.push_screen(Choose(f"Forked: {folder.name}", "", choices), chosen)

    def _ask_resume(self) -> None:
        run = self.view.run
        if self.running_here:
            self.say(
                f"{self._running_name} runs here already; stop it first, or use `htfl-sim resume`.", "warning"
            )
        else:
            self.push_screen(ResumeDialog(run), lambda wish: self._resume(run.folder, wish) if wish else None)

    def _resume(self, folder: Path, wish: ResumeWish) -> None:
        self._launch(folder, self.options.resumer(folder, wish.rounds, wish.allow_inexact))

    # Runs of this process

    def action_new_run(self, choices: Choices | None = None) -> None:
        if self.running_here:
            self.say(
                f"{self._running_name} runs here already; stop it first, or use `htfl-sim run`.", "warning"
            )
            return
        dialog = NewRunDialog(
            self.sessions_dir, self.options.data, choices or Choices(), self.options.name or ""
        )
        self.push_screen(dialog, lambda wish: self._begin(wish) if wish else None)

    def on_new_run_wanted(self, message: NewRunWanted) -> None:
        self.action_new_run()

    def _begin(self, wish: NewRun) -> None:
        self._launch(wish.folder, self.options.creator(wish))
        self.change(run=Run(wish.folder), round=None, pinned=frozenset(), filter="")
        self.action_show_panel("live")

    def _launch(self, folder: Path, open: Opener) -> None:
        self._failures.pop(folder, None)
        self._do("run", "starting…")
        self.launch = Launch(folder, open, self.post_message)
        self.launch.start()

    def on_run_started(self, message: RunStarted) -> None:
        self._do("run")
        if self.view.run.folder == message.folder:
            self.watch_files.follow(message.folder)

    def on_run_ended(self, message: RunEnded) -> None:
        self._do("run")
        if message.failure is None:
            self.say(f"{message.folder.name} has {message.state}.")
            return
        self.say(f"{message.folder.name} failed: {message.failure}", "error")
        self._failures[message.folder] = {
            "event": "failed",
            "at": checkpoints.lock.now(),
            "round": self.view.run.round,
            "message": message.failure,
        }
        if self.view.run.folder == message.folder:
            self.change(run=self.with_failure(self.view.run))

    @property
    def _running_name(self) -> str:
        return self.launch.folder.name if self.launch else ""

    # Commands and their answers

    def _post(self, kind: str, arguments: dict[str, Any] | None = None) -> None:
        """Leave a command in the session's mailbox, and say so until it is answered."""
        folder = self.view.run.folder

        def posted(command: Command) -> None:
            self._asked[command.id] = command
            self.watch_files.expect(folder, command)
            self.draw()

        self._on_thread("post", "", partial(checkpoints.post, folder, kind, arguments), posted)

    def on_answered(self, message: Answered) -> None:
        command, answer = message.command, message.answer
        self._asked.pop(command.id, None)
        if answer is None:
            self.say(f"The {command.kind} was not answered: the run had ended.", "warning")
        elif answer.outcome == "refused":
            self.say(f"The {command.kind} was refused: {answer.message}", "warning")
        else:
            after = f" (after round {answer.round})" if answer.round is not None else ""
            self.say(f"{command.kind}: {answer.message or 'done'}{after}")
        self.draw()

    def _steerable(self, what: str, live: bool = False) -> bool:
        """Whether a session can be steered now; says why not."""
        run, view = self.view.run, self.view
        why = None
        if not run.document:
            why = f"There is no session for {what}: open one with a, or begin one with n."
        elif view.replaying:
            why = f"Round {view.shown} is a replay: L goes back to the newest round; f forks here."
        elif live and not run.live:
            why = f"{run.name} is {run.state}, so {what} makes no sense; space goes on with it."
        elif run.state == "stopping":
            why = f"{run.name} is stopping."
        if why:
            self.say(why)
        return why is None

    def _with_choices_of(self, show: Callable[[list[MethodChoice]], None]) -> None:
        """Call `show` with what each method needs of the session's models, once that is known."""
        run = self.view.run
        key = str(run.config.get("federation")) + str(run.config.get("data"))
        if key in self._choices_of:
            show(self._choices_of[key])
            return

        def known(choices: list[MethodChoice]) -> None:
            self._choices_of[key] = choices
            show(choices)

        def work() -> list[MethodChoice]:
            from tui.app.compatibility import method_choices

            return method_choices(run.config)

        self._on_thread("survey", "asking the methods…", work, known)

    def _on_thread(
        self, topic: str, doing: str, work: Callable[[], Any], then: Callable[[Any], None]
    ) -> None:
        """Do something slow; `then` gets what came out, a notice the sentence of what went wrong."""

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # whatever it is, it is shown, and the app goes on
                self.call_from_thread(self._do, topic)
                self.call_from_thread(self.say, explain(error)[0], "error")
            else:
                self.call_from_thread(self._do, topic)
                self.call_from_thread(then, result)

        self._do(topic, doing)
        self.run_worker(run, thread=True)

    def _do(self, topic: str, doing: str = "") -> None:
        """Say in the status row what this process is at; an empty word: no longer."""
        self._doing.pop(topic, None)
        if doing:
            self._doing[topic] = doing
        self.draw()

    def _confirm(self, title: str, text: str, yes: str, then: Callable[[], None]) -> None:
        self.push_screen(confirm(title, text, yes), lambda answer: then() if answer == "yes" else None)

    # Leaving

    def _leave_by(self, number: signal.Signals) -> None:
        """A signal ends the app as `stop` does."""
        self.ended_by = number
        self.exit(STOP)

    async def action_quit(self) -> None:
        if not self.running_here:
            self.exit(LEAVE)
            return
        choices = [
            (KEEP, "keep training", "without the app, in this terminal, a line per round"),
            (STOP, "stop", "between two clients, with a checkpoint; `htfl-sim resume` goes on"),
            ("cancel", "stay", "in the app"),
        ]

        def chosen(which: str | None) -> None:
            if which in (KEEP, STOP):
                self.exit(which)

        self.push_screen(Choose("Leave", f"{self._running_name} runs in this process.", choices), chosen)
