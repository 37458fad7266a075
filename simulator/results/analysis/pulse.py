"""How long ago the owner of a session was last heard."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STILL_SECONDS = 2.5
"""Seconds without a heartbeat after which an owner may have died. It beats at least once a second."""
SILENT_SECONDS = 10.0
"""Seconds without a heartbeat after which an owner counts as unresponsive."""


@dataclass(frozen=True)
class Silence:
    """Whole seconds since the last heartbeat. exact: whether its time is known; otherwise it may be longer ago."""

    seconds: int
    exact: bool = True

    @property
    def long(self) -> bool:
        """Whether the owner counts as unresponsive."""
        return self.seconds >= SILENT_SECONDS


class Pulse:
    """The heartbeat of an owner, as its notes come."""

    def __init__(self) -> None:
        self._beat: object = None
        self._at = 0.0
        self._exact = False

    def take(self, note: Mapping[str, Any], ago: float | None) -> None:
        """Take a note of the owner. ago: seconds since it was written; None if its clock is another machine's."""
        beat = note.get("epoch"), note.get("heartbeat")
        if not note or beat == self._beat:
            return
        unseen = self._beat is None
        self._beat, self._at = beat, time.monotonic()
        self._exact = not unseen or ago is not None
        if unseen and ago is not None:
            self._at -= max(ago, 0.0)

    def silence(self) -> Silence | None:
        """The silence of the owner; None if it is not longer than usual, or there is no note."""
        quiet = time.monotonic() - self._at
        return Silence(int(quiet), self._exact) if self._beat is not None and quiet > STILL_SECONDS else None
