"""Ctrl-C, or a notebook's stop button, while rounds run. The running clients finish, and nothing is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from simulator.sessions.steering import Signals, die_by

__all__ = ["Interrupt", "Signals", "die_by", "heeded"]


class Interrupt:
    """Whether an interrupt has come: a reason for `Session.run` to stop."""

    def __init__(self) -> None:
        self.came = False

    def reason(self) -> str | None:
        return "SIGINT" if self.came else None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


@contextmanager
def heeded() -> Iterator[Interrupt]:
    """Within it, the first interrupt is noted. A second raises KeyboardInterrupt at once, and the round is lost.

    Only the main thread receives signals. On other threads, nothing is noted.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt._note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
