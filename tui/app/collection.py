"""Garbage collection while nobody waits for the screen.

A full collection looks through all that Python holds, 50 to 200 ms of it, and would come by itself in the midst of an
answer to a key. While the app is up it comes when nothing has been asked for a while; those of younger objects, a few
milliseconds each, come as ever.
"""

import gc
import time

QUIET = 2.0
"""Seconds without a key or the mouse after which nobody waits."""
ENOUGH = 300
"""Collections of the middle generation after which a full one is worth its time: a minute of keys, or four of rest."""
NEVER = 2**31 - 1


class Collector:
    """Full collections of this process, from `begin` to `end`."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()
        self._asked = time.monotonic()
        self._collected = 0

    def begin(self) -> None:
        """Have no full collection come by itself."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], NEVER)
        self._collected = _younger()

    def asked(self) -> None:
        """Somebody asks for something, and waits."""
        self._asked = time.monotonic()

    def rest(self) -> None:
        """Collect all, if nobody waits and it is worth it."""
        if time.monotonic() - self._asked >= QUIET and _younger() - self._collected >= ENOUGH:
            gc.collect()
            self._collected = _younger()

    def end(self) -> None:
        """Leave it to Python again."""
        gc.set_threshold(*self._thresholds)


def _younger() -> int:
    """How often the middle generation was collected."""
    return int(gc.get_stats()[1]["collections"])
