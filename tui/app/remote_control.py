"""Steer the session shown, in any process: commands in its mailbox, and the answers to them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from htfl_sim.compatibility import MethodChoice
from htfl_sim.folders import name_of
from htfl_sim.steering import Command, post
from simulator.results.analysis.run import SessionData
from tui.app.background import Background
from tui.app.compatibility import MethodChoices
from tui.app.dialogs.choose import Choose, confirm
from tui.app.dialogs.switch import SwitchDialog, SwitchWish
from tui.app.host import Host
from tui.app.messages import Answered

WAITING = {
    "pause": "pausing…",
    "resume": "resuming…",
    "stop": "stopping…",
    "checkpoint": "checkpoint…",
    "switch": "switching",
}
"""The text while a command of this kind waits for its boundary. A switch and CKA have texts of their own."""

NO_SESSION = "No session is open. Press a to open one or n to start a run."


class RemoteControl:
    """Sends the session shown the commands of keys, and shows the answers."""

    def __init__(self, host: Host, background: Background, choices: MethodChoices) -> None:
        self._host, self._background, self._choices = host, background, choices
        self._asked: dict[str, tuple[Path, Command]] = {}

    @property
    def waiting(self) -> list[str]:
        """Requests to the session that are not done yet, in the words of the status row."""
        run = self._host.view.run
        asked = (*run.pending, *(command for folder, command in self._asked.values() if folder == run.folder))
        # A switch is answered once a round with its settings is committed.
        made = {event.get("command") for event in run.events if event["event"] == "switched"}
        still = (command for command in asked if command.kind in WAITING and command.id not in made)
        said = (_waiting(command, run) for command in still)
        return list(dict.fromkeys(filter(None, said)))

    def pause(self) -> None:
        """Pause a run, or resume a paused one."""
        self.post("resume" if self._host.view.run.state in ("paused", "pausing") else "pause")

    def stop(self) -> None:
        """Ask for confirmation of a stop."""
        if self.steerable("a stop", live=True):
            question = confirm(
                f"Stop {self._host.view.run.name}?",
                "The clients at work finish first. Then a checkpoint is written.",
                "stop; press space to resume",
            )
            self._host.ask(question, lambda answer: self.post("stop") if answer == "yes" else None)

    def checkpoint(self) -> None:
        """Request a checkpoint of the session shown."""
        if self.steerable("a checkpoint", live=True):
            self.ask_for_checkpoints([self._host.view.run.folder])

    def ask_for_checkpoints(self, folders: Sequence[Path]) -> None:
        """Ask whether it should include CKA."""
        choices = [
            ("now", "now", "when the current client finishes, with all finished clients"),
            ("cka", "with CKA", "at the end of the round, with the similarity of the models"),
        ]

        def chosen(which: str) -> None:
            for folder in folders:
                self.post("checkpoint", {"cka": True} if which == "cka" else {}, folder)

        self._host.ask(Choose("Write a checkpoint", "", choices), chosen)

    def switch(self) -> None:
        """Ask for the next method, once it is known which ones can continue."""
        if self.steerable("a switch"):
            run = self._host.view.run
            self._choices.give(run.config, partial(self._show_switch, run.folder))

    def _show_switch(self, folder: Path, choices: list[MethodChoice]) -> None:
        run = self._host.view.run
        if not self._host.is_at(folder):
            return
        when = f"The switch happens at the end of the round. Until then, {run.method} continues."
        if not run.live:
            when = "This session is not running. The switch waits until you resume it (space)."

        def chosen(wish: SwitchWish) -> None:
            self.post("switch", {"method": wish.method, "set": list(wish.settings)})

        self._host.ask(SwitchDialog(run.config, choices, when), chosen)

    def post(self, kind: str, arguments: dict[str, Any] | None = None, folder: Path | None = None) -> None:
        """Put a command into a mailbox, by default that of the session shown, and show it until it is answered."""
        folder = folder or self._host.view.run.folder

        def posted(command: Command) -> None:
            self._asked[command.id] = (folder, command)
            self._host.files.expect(folder, command)
            self._host.draw()

        self._background.run("post", "", partial(post, folder, kind, arguments), posted)

    def answered(self, message: Answered) -> None:
        """Show the answer to a command."""
        command, answer = message.command, message.answer
        folder, _ = self._asked.pop(command.id, (self._host.view.run.folder, command))
        shown = self._host.view.run.folder
        whose = "" if folder == shown else f"{name_of(folder)}: "
        if answer is None:
            kept = " Its last round has a checkpoint." if message.ended in ("finished", "stopped") else ""
            self._host.say(
                f"{whose}The {command.kind} was too late: the run is {message.ended}.{kept}", "warning"
            )
        elif answer.outcome == "refused":
            self._host.say(f"{whose}The {command.kind} was refused: {answer.message}", "warning")
        else:
            after = f" (after round {answer.round})" if answer.round is not None else ""
            self._host.say(f"{whose}{command.kind}: {answer.message or 'done'}{after}")
        self._host.draw()

    def steerable(self, what: str, live: bool = False) -> bool:
        """Whether the session can be steered now. Shows why not, as long as this is the reason."""
        if why := self._obstacle(what, live):
            self._host.say(why, holds=lambda: self._obstacle(what, live) == why)
        return why is None

    def _obstacle(self, what: str, live: bool) -> str | None:
        """Why the session cannot be steered."""
        view, run = self._host.view, self._host.view.run
        if run.error or not run.name:
            return run.error or NO_SESSION
        if not run.document:
            return f"{run.name} is not open yet."
        if view.replaying:
            return f"You are viewing round {view.shown}. Press L for the newest round, or f to fork here."
        if live and not run.live:
            return f"{run.name} is {run.state}, and {what} needs a running session. Press space to resume it."
        return f"{run.name} is stopping." if run.state == "stopping" else None


def _waiting(command: Command, run: SessionData) -> str:
    """The text of a waiting command. A switch may wait for a later round.

    If no process runs the session, only a switch still waits. The next start refuses the others.
    """
    if command.kind == "switch":
        return f"{_switching(command)} {_when(command, run)}"
    if not run.live:
        return ""
    return "checkpoint with CKA…" if command.arguments.get("cka") else WAITING[command.kind]


def _switching(command: Command) -> str:
    """The contents of a switch: its method, else its first setting and the number of others."""
    method, settings = command.arguments.get("method"), command.arguments.get("set") or []
    if method or not settings:
        return f"switching to {method}" if method else "switching"
    more = f" and {len(settings) - 1} more" if len(settings) > 1 else ""
    return f"changing {settings[0]}{more}"


def _when(command: Command, run: SessionData) -> str:
    """The boundary of a switch: that of the round under way, if it names none."""
    if (at_round := command.arguments.get("at_round")) is not None:
        return f"after round {at_round}"
    return (
        f"after round {max(run.progress.get('round', 0), run.round, 1)}" if run.live else "at the next start"
    )
