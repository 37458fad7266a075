"""Looking at a session again and again: which of its parts were written since, and the ledger's new lines."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from checkpoints import files, limits
from checkpoints.layout import EVENTS, INBOX, LEDGER, MANIFESTS, OWNER, SESSION, TAGS
from checkpoints.reader import SessionReader
from checkpoints.schema import Json, parse

Part = Literal["document", "ledger", "events", "owner", "inbox", "tags", "checkpoints"]

_FILES: dict[Part, str] = {
    "document": SESSION,
    "ledger": LEDGER,
    "events": EVENTS,
    "owner": OWNER,
    "inbox": INBOX,
    "tags": TAGS,
    "checkpoints": MANIFESTS,
}
"""In the order in which changes are told: checkpoints last, so that what they say is of rounds already read."""

Stamp = tuple[int, int, int] | None
"""Which file it is, its size, and when it was written (ns); None where there is none."""


@dataclass(frozen=True)
class Growth:
    """Records of the ledger, in order of round; `anew`: from round 1 on, in place of those read before."""

    records: Sequence[Mapping[str, Any]]
    anew: bool


class SessionFollower:
    """A session as it grows. It takes no lock; one thread asks it."""

    def __init__(self, session: SessionReader) -> None:
        self.session = session
        self._stamps: dict[Part, Stamp] = {}
        self._ledger: Stamp = None
        self._offset = 0
        self._rounds = 0

    def changes(self) -> Iterator[Part]:
        """The parts written since they were last told of; at first all. A file that is not there is a part too.

        A part counts as seen from just before it is told: what is written while it is read is told the next time.
        """
        for part, stamp in _stamps(self.session.folder):
            if part not in self._stamps or stamp != self._stamps[part]:
                self._stamps[part] = stamp
                yield part

    def new_records(self) -> Growth:
        """The ledger's whole lines that came since the last call; all of them when the file is another, or shorter.

        Raises Damaged for a line that is not what was written.
        """
        folder, before = self.session.folder, self._ledger
        self._ledger = now = _stamp(folder / LEDGER)
        if before and now and now[0] == before[0] and now[1] >= self._offset:
            new = self._new_lines()
            for number, record in enumerate(new, start=self._rounds + 1):
                self.session.check_record(record, number)
            self._rounds += len(new)
            return Growth(new, anew=False)
        records = self.session.records()
        self._rounds = len(records)
        end = _end_of_line(folder, len(records))
        if end is None:  # a line that only its checkpoint has yet: when it comes, it must not count twice
            self._ledger = None
        self._offset = end or 0
        return Growth(records, anew=True)

    def _new_lines(self) -> list[Json]:
        folder = self.session.folder
        with files.open_regular(folder, LEDGER) as fd, files.storage(folder):
            new = b"".join(files.chunks(fd, limits.TAIL, self._offset))
        whole, newline, _ = new.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [parse(line, f"{folder}: {LEDGER}") for line in whole.splitlines()]


def changed_stamp(folder: Path, *parts: Part) -> tuple[Stamp, ...]:
    """A value that is another one whenever something was written that says how a session stands.

    parts: only those; none: all of them.
    """
    return tuple(_stamp(folder / _FILES[part]) for part in parts or _FILES)


def _stamps(folder: Path) -> Iterator[tuple[Part, Stamp]]:
    return ((part, _stamp(folder / name)) for part, name in _FILES.items())


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - called every half second for every part of every session shown
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _end_of_line(folder: Path, lines: int) -> int | None:
    """Where the ledger's line of that number ends; None if it has fewer whole lines."""
    try:
        text = files.read(folder, LEDGER, cap=limits.LEDGER + limits.TAIL)
    except FileNotFoundError:
        text = b""
    end = 0
    for _ in range(lines):
        end = text.find(b"\n", end) + 1
        if not end:
            return None
    return end
