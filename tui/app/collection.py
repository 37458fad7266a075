"""Garbage collection while nobody waits for the screen.

A full collection walks through all of Python's objects, which takes 50 to 200 ms. By default, it may run in the middle
of an answer to a key. While the app is open, it runs only after a pause in input. Collections of younger objects, a few
milliseconds each, run as usual.
"""

import gc
import time

QUIET = 2.0
"""Seconds without a key or the mouse after which nobody waits."""
ENOUGH = 300
"""Middle collections after which a full one is worth its time: a minute of keys, or four of rest."""
NEVER = 2**31 - 1


class Collector:
    """Full collections of this process, from `begin` to `end`."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()
        self._asked = time.monotonic()
        self._collected = 0

    def begin(self) -> None:
        """Prevent automatic full collections."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], NEVER)
        self._collected = _younger()

    def asked(self) -> None:
        """A user waits for an answer."""
        self._asked = time.monotonic()

    def rest(self) -> None:
        """Collect everything, if nobody waits and it is worth the time."""
        if time.monotonic() - self._asked >= QUIET and _younger() - self._collected >= ENOUGH:
            gc.collect()
            self._collected = _younger()

    def end(self) -> None:
        """Let Python collect automatically again."""
        gc.set_threshold(*self._thresholds)


def _younger() -> int:
    """The number of middle collections so far."""
    return int(gc.get_stats()[1]["collections"])
