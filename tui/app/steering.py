"""Steers the session shown, or those selected in the list of sessions: commands to mailboxes, and their answers."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from htfl_sim.catalog import MethodCard
from htfl_sim.folders import name_of
from htfl_sim.steering import Command, post
from simulator.results.analysis import feed
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import LIVE, SessionData
from simulator.studies.board import StudySummary
from tui.app.dialogs.base import Choose, confirm
from tui.app.dialogs.run_forms import SwitchDialog, SwitchWish
from tui.app.host import NO_SESSION, Computations, Host
from tui.app.runs import LocalRuns
from tui.app.watch import Answered
from tui.common.formatting import some

Listed = Summary | StudySummary

IN_A_LIST = ("pause", "stop", "checkpoint")
"""Actions for sessions of the list, without opening them."""
NEEDS_A_RUN = {"stop": "a stop", "checkpoint": "a checkpoint"}
"""Actions on a session that a process runs."""
WAITING = {
    "pause": "pausing…",
    "resume": "resuming…",
    "stop": "stopping…",
    "checkpoint": "checkpoint…",
    "switch": "switching",
}
"""The text while a command of this kind waits for its boundary. A switch and CKA have texts of their own."""


class Steering:
    """Sends each key's command to the right sessions, and shows the answers. A study's mailbox is its sweep's."""

    def __init__(self, host: Host, runs: LocalRuns, computations: Computations) -> None:
        self._host, self._runs, self._computations = host, runs, computations
        self._asked: dict[str, tuple[Path, Command]] = {}

    @property
    def waiting(self) -> list[str]:
        """Requests to the session that are not done yet, in the words of the status row."""
        run = self._host.view.run
        asked = (*run.pending, *(command for folder, command in self._asked.values() if folder == run.folder))
        # A switch is answered once a round with its settings is committed.
        made = {event.get("command") for event in run.events if event["event"] == "switched"}
        still = (command for command in asked if command.kind in WAITING and command.id not in made)
        return list(dict.fromkeys(filter(None, (_waiting(command, run) for command in still))))

    def post(self, kind: str, arguments: dict[str, Any] | None = None, folder: Path | None = None) -> None:
        """Put a command into a mailbox, by default that of the session shown, and show it until it is answered."""
        folder = folder or self._host.view.run.folder

        def posted(command: Command) -> None:
            self._asked[command.id] = (folder, command)
            self._host.files.expect(folder, command)
            self._host.draw()

        self._host.background.run("post", "", partial(post, folder, kind, arguments), posted)

    def answered(self, message: Answered) -> None:
        command, answer = message.command, message.answer
        shown = self._host.view.run.folder
        folder, _ = self._asked.pop(command.id, (shown, command))
        whose = "" if folder == shown else f"{name_of(folder)}: "
        if answer is None:
            kept = " Its last round has a checkpoint." if message.ended in ("finished", "stopped") else ""
            late = f"{whose}The {command.kind} was too late: the run is {message.ended}.{kept}"
            self._host.say(late, "warning")
        elif answer.outcome == "refused":
            self._host.say(f"{whose}The {command.kind} was refused: {answer.message}", "warning")
        else:
            after = f" (after round {answer.round})" if answer.round is not None else ""
            self._host.say(f"{whose}{command.kind}: {answer.message or 'done'}{after}")
        self._host.draw()

    def steer(self, what: str) -> None:
        """Act on the session shown, or on those selected in the list of sessions."""
        view, run = self._host.view, self._host.view.run
        chosen = self._host.panel.steered() if what in IN_A_LIST else ()
        if chosen and [Path(each.path) for each in chosen] != [run.folder]:
            self.steer_listed(what, chosen)
        elif what in ("fork", "shadow"):
            self._runs.fork(beside=what == "shadow")
        elif what == "new_run":
            self._runs.new_run()
        elif what == "checkpoint" and run.document and (view.replaying or not run.live):
            self._computations.compute_shown_cka()
        elif why := self._obstacle(what):
            self._host.say(why, holds=lambda: self._obstacle(what) == why)
        elif what == "stop":
            self._ask_stop(run.name, self.post)
        elif what == "checkpoint":
            self._ask_checkpoints([run.folder])
        elif what == "switch":
            self._host.methods.give(run.config, partial(self._show_switch, run.folder))
        elif run.live:
            self.post("resume" if run.state in ("paused", "pausing") else "pause")
        else:
            self._runs.resume(run)

    def _obstacle(self, what: str) -> str | None:
        view, run = self._host.view, self._host.view.run
        if run.error or not run.name:
            return run.error or NO_SESSION
        if not run.document:
            return f"{run.name} is not open yet."
        if view.replaying:
            return f"You are viewing round {view.shown}. Press L for the newest round, or f to fork here."
        if what in NEEDS_A_RUN and not run.live:
            needs = f"{NEEDS_A_RUN[what]} needs a running session. Press space to resume it."
            return f"{run.name} is {run.state}, and {needs}"
        return f"{run.name} is stopping." if run.state == "stopping" else None

    def _show_switch(self, folder: Path, choices: list[MethodCard]) -> None:
        run = self._host.view.run
        if not self._host.is_at(folder):
            return
        when = f"The switch happens at the end of the round. Until then, {run.method} continues."
        if not run.live:
            when = "This session is not running. The switch waits until you resume it (space)."

        def chosen(wish: SwitchWish) -> None:
            self.post("switch", {"method": wish.method, "set": list(wish.settings)})

        self._host.ask(SwitchDialog(run.config, choices, when), chosen)

    # Sessions of the list

    def steer_listed(self, what: str, chosen: Sequence[Listed]) -> None:
        """Act on sessions of the list: 'stop' or 'checkpoint' those that run.

        'pause' those that run. If none runs, resume the paused ones. If none is paused, start the rest again.
        """
        if what == "checkpoint":
            studies, chosen = chosen, [each for each in chosen if isinstance(each, Summary)]
            if not chosen:
                self._say_of(studies, "only sessions write checkpoints.")
                return
        live = [each for each in chosen if each.state in LIVE]
        if what == "pause":
            running = [each for each in live if each.state == "running"]
            if held := running or [each for each in live if each.state in ("paused", "pausing")]:
                self._post_all("pause" if running else "resume", held)
            elif idle := [each for each in chosen if each.state not in LIVE]:
                self._start_again(idle)
            else:
                self._say_of(chosen, "already stopping.")
        elif not live:
            self._say_of(chosen, "not running. Press space to resume.")
        elif what == "stop":
            self._ask_stop(_named(live), partial(self._post_all, chosen=live), len(live))
        else:
            self._ask_checkpoints([Path(each.path) for each in live])

    def _post_all(self, kind: str, chosen: Sequence[Listed]) -> None:
        for each in chosen:
            self.post(kind, folder=Path(each.path))
        self._host.say(f"Requested {kind}: {_named(chosen)}.")

    def _start_again(self, chosen: Sequence[Listed]) -> None:
        """Start sessions that no process runs. One session opens the dialog; several continue to their last rounds."""
        sessions = [each for each in chosen if isinstance(each, Summary) and not each.error]
        unfinished = [each for each in sessions if each.state != "finished"]
        studies = [each for each in chosen if isinstance(each, StudySummary)]
        studies = [each for each in studies if each.state not in ("finished", "damaged")]
        if len(chosen) == 1 and sessions:
            folder = Path(sessions[0].path)
            self._host.background.run("read", "", lambda: feed.read(folder), self._runs.resume)
        elif unfinished:
            folders = [Path(each.path) for each in unfinished]
            about = "Each run continues to its last round. All share the CPU of this machine."
            title, yes = f"Resume {_named(unfinished)}?", f"start {len(folders)} runs"
            self._confirm(title, about, yes, lambda: self._runs.resume_as_they_are(folders))
        elif studies:
            left = sum(each.points - each.finished for each in studies)
            number = (
                f"{left} point{'s are' if left != 1 else ' is'} left." if left else "The next step is left."
            )
            about = f"{number} They run one after another, in a process that continues without the app."
            yes = "start the study" if len(studies) == 1 else f"start {len(studies)} studies"

            def start() -> None:
                for each in studies:
                    self._runs.start_study(each)

            self._confirm(f"Continue {_named(studies)}?", about, yes, start)
        else:
            damaged = all(each.state == "damaged" for each in chosen)
            self._say_of(chosen, "damaged." if damaged else "already finished.")

    def _say_of(self, chosen: Sequence[Listed], what: str) -> None:
        """Show a notice about states of sessions, until one of these is listed with another state."""
        states = {each.path: each.state for each in chosen}

        def holds() -> bool:
            return all(states.get(each.path, each.state) == each.state for each in self._host.panel.steered())

        self._host.say(f"{_named(chosen)}: {what}", holds=holds)

    # Questions

    def _confirm(self, title: str, about: str, yes: str, do: Callable[[], None]) -> None:
        self._host.ask(confirm(title, about, yes), lambda answer: do() if answer == "yes" else None)

    def _ask_stop(self, names: str, post: Callable[[str], None], number: int = 1) -> None:
        about = "The clients at work finish first. Then a checkpoint is written."
        yes = f"stop; press space to resume{' them' if number > 1 else ''}"
        self._confirm(f"Stop {names}?", about, yes, lambda: post("stop"))

    def _ask_checkpoints(self, folders: Sequence[Path]) -> None:
        choices = [
            ("now", "now", "when the current client finishes, with all finished clients"),
            ("cka", "with CKA", "at the end of the round, with the similarity of the models"),
        ]

        def chosen(which: str) -> None:
            for folder in folders:
                self.post("checkpoint", {"cka": True} if which == "cka" else {}, folder)

        self._host.ask(Choose("Write a checkpoint", "", choices), chosen)


def _named(chosen: Sequence[Listed]) -> str:
    return some([each.name for each in chosen])


def _waiting(command: Command, run: SessionData) -> str:
    """The text of a waiting command. A switch may wait for a later round.

    If no process runs the session, only a switch still waits. The next start refuses the others.
    """
    if command.kind != "switch":
        if not run.live:
            return ""
        return "checkpoint with CKA…" if command.arguments.get("cka") else WAITING[command.kind]
    method, settings = command.arguments.get("method"), command.arguments.get("set") or []
    what = f"switching to {method}" if method else "switching"
    if settings and not method:
        what = f"changing {settings[0]}" + (f" and {len(settings) - 1} more" if len(settings) > 1 else "")
    at = command.arguments.get("at_round")
    if at is None and not run.live:
        return f"{what} at the next start"
    under_way = max(run.progress.get("round", 0), run.round, 1)
    return f"{what} after round {under_way if at is None else at}"
