"""Steering a run by signals: a signal sets a flag, and the run heeds it at its next safe point."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOST = "left at once: this round is lost."


def die_by(number: int) -> None:
    """End this process by a signal, as if nobody had caught it: so a shell that runs it in a loop ends as well."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Signals:
    """While this context lasts, SIGINT, SIGTERM and SIGHUP ask for a stop, SIGUSR1 for a checkpoint.

    A second SIGINT leaves at once. SIGHUP stays ignored if it was before, as under `nohup`. SIGINT does not: a shell
    sets it so for whatever it starts in the background, and `kill -INT` means the run all the same.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
