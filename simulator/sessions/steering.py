"""Steering a run by its mailbox and by signals: what is asked for, until the session carries it out."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Self

from checkpoints import Command, Store
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.sessions.history import boundary

Change = tuple[Command, Config]
"""A switch, and the settings that it and those before it come to."""


class Steering:
    """What operators want of a running session: commands that wait here for a client or round boundary."""

    def __init__(self, store: Store, check: Callable[[Command, Config | None, bool], Config]) -> None:
        """`check` turns a switch into a configuration, or raises ConfigError. Its second argument: the settings before
        (None: those in force). Its third: whether a switch without a round left may wait until the run is extended.
        """
        self._store = store
        self._check = check
        self._stop: Callable[[], str | None] = lambda: None
        self._checkpoint: Callable[[], bool] = lambda: False
        self.changes: list[Change] = []
        """Switches that wait for the end of a round, in the order in which they will take hold."""
        self.paused = False
        """Whether no further client is to start."""
        self.pausing: list[Command] = []
        self.resuming: list[Command] = []
        self.save = False
        """Whether a checkpoint is wanted at the next client boundary."""
        self.saving: list[Command] = []
        self.measuring: list[Command] = []
        """Checkpoints of this round's end, with CKA in its record."""
        self.stopping: list[Command] = []

    @property
    def stop_reason(self) -> str | None:
        """Why the run is to stop: a signal's name, or 'stop' for the command; None while it is not."""
        return self._stop() or ("stop" if self.stopping else None)

    def heed(self, stop: Callable[[], str | None], checkpoint: Callable[[], bool]) -> None:
        """Ask these, too, whether a stop or a checkpoint is wanted."""
        self._stop, self._checkpoint = stop, checkpoint

    def refuse_stale(self) -> None:
        """Answer what was asked of an earlier owner and makes no sense any more; a switch still does, and a tag."""
        for command in self._store.commands():
            if command.kind in ("switch", "tag"):
                self._receive(command, may_wait=True)
            else:
                self._refuse(command, "the run it was meant for had ended")

    def read(self) -> None:
        """Take in what has been asked for since the last call."""
        for command in self._store.commands():
            self._receive(command)
        self.save = self._checkpoint() or self.save

    def planned(self, round: int) -> Config | None:
        """The settings after the switches that take hold at the end of this round; None: there are none."""
        due = [config for command, config in self.changes if boundary(command.arguments) <= round]
        return due[-1] if due else None

    def take_changes(self, round: int) -> list[Change]:
        """The switches that wait for the end of this round, to be carried out now."""
        due = [change for change in self.changes if boundary(change[0].arguments) <= round]
        self.changes = self.changes[len(due) :]
        return due

    def answer(self, commands: list[Command], message: str, round: int | None = None) -> None:
        """Answer commands that have taken hold, and forget them."""
        for command in commands:
            self._store.answer(command, "applied", message, round)
        commands.clear()

    def end(self, why: str, round: int) -> None:
        """Answer what is left when the run ends. Switches stay in the mailbox for the next resume."""
        self.answer(self.stopping, why, round)
        self.answer(self.resuming, why)
        for command in (*self.pausing, *self.measuring):
            self._refuse(command, why)

    def _receive(self, command: Command, may_wait: bool = False) -> None:
        match command.kind:
            case "pause" if self.paused and not self.pausing:
                self._refuse(command, "it is paused already")
            case "pause":
                self.paused = True
                self.pausing.append(command)
            case "resume" if not self.paused:
                self._refuse(command, "it is not paused")
            case "resume":
                self.paused = False
                for pause in self.pausing:
                    self._refuse(pause, "a resume came before it had an effect")
                self.pausing.clear()
                self.resuming.append(command)
            case "checkpoint" if command.arguments.get("cka") is True:
                self.measuring.append(command)
            case "checkpoint":
                self.save = True
                self.saving.append(command)
            case "stop":
                self.stopping.append(command)
            case "tag":
                self._tag(command)
            case "switch":
                self._line_up(command, may_wait)
            case _:
                self._refuse(command, f"there is no command '{command.kind}'")

    def _line_up(self, command: Command, may_wait: bool) -> None:
        """Let a switch wait its turn; those that follow are looked at again, and refused if they no longer can be."""
        try:
            at_round = boundary(command.arguments)
            place = sum(boundary(other.arguments) <= at_round for other, _ in self.changes)
            before = self.changes[place - 1][1] if place else None
            config = self._check(command, before, may_wait)
        except ConfigError as error:
            self._refuse(command, str(error))
            return
        later = self.changes[place:]
        self.changes = [*self.changes[:place], (command, config)]
        if "at_round" in command.arguments and not may_wait:
            self._store.event("scheduled", at_round=at_round, command=command.id)
        for other, _ in later:
            self._line_up(other, may_wait=True)

    def _tag(self, command: Command) -> None:
        match command.arguments:
            case {"add": list(add), "remove": list(remove), **more} if all(
                isinstance(each, str) for each in (*add, *remove, more.get("note", ""))
            ):
                try:
                    marks = self._store.tag(add, remove, more.get("note"))
                except ValueError as error:
                    self._refuse(command, str(error))
                else:
                    self._store.answer(command, "applied", ", ".join(marks.tags) or "no tags")
            case _:
                self._refuse(command, "it names no tags to add and to remove")

    def _refuse(self, command: Command, why: str) -> None:
        self._store.answer(command, "refused", why)
        self._store.event("refused", command=command.kind, id=command.id, reason=why)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOST = "left at once: this round is lost."


def die_by(number: int) -> None:
    """End this process by a signal, as if nobody had caught it: so a shell that runs it in a loop ends as well."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Signals:
    """While this lasts, SIGINT, SIGTERM and SIGHUP ask for a stop, SIGUSR1 for a checkpoint; a second SIGINT leaves at
    once.

    SIGHUP stays ignored if it was, as under `nohup`. SIGINT does not: shells set it so for what they start in the
    background.
    """

    def __init__(self, left: str = LOST) -> None:
        """`left` is said on stderr when a second SIGINT leaves at once."""
        self._left = left
        self._received: signal.Signals | None = None
        self._checkpoint = False
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    @property
    def stop(self) -> str | None:
        """The signal that asked for a stop ('SIGINT', 'SIGTERM', 'SIGHUP'), if one has."""
        return self._received.name if self._received else None

    def take_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked, self._checkpoint = self._checkpoint, False
        return asked

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as shells have it: 129, 130 or 143; 0 when nobody asked for a stop."""
        return 128 + self._received if self._received else 0

    def __enter__(self) -> Self:
        for number in (*STOPPING, signal.SIGUSR1):
            before = signal.getsignal(number)
            if number is not signal.SIGHUP or before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._ask_checkpoint if number is signal.SIGUSR1 else self._ask_stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask_stop(self, number: int, frame: FrameType | None) -> None:
        if self._received is signal.SIGINT and number == signal.SIGINT:
            # Training threads would keep an ordinary exit waiting for their clients.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"\n{self._left}\n".encode())
            die_by(number)
        self._received = signal.Signals(number)

    def _ask_checkpoint(self, number: int, frame: FrameType | None) -> None:
        self._checkpoint = True
