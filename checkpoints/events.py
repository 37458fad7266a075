"""Operator events: one sealed line each, flushed as it is written.

They are only told, never computed with: damage among them is said, and the rest is read.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpoints import files, limits
from checkpoints.errors import Damaged, DiskError, TooLarge
from checkpoints.layout import EVENTS
from checkpoints.lines import LineWriter, split_lines
from checkpoints.lock import now
from checkpoints.schema import EventHead, Json, seal, unseal, well_formed


class EventWriter(LineWriter):
    """Adds events to those that are there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, EVENTS)

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        """Add an event with the time of now. Long texts and lists are cut, so that it can be read back."""
        self.append(_fitting({"at": now(), "event": kind}, fields), durable=True)


def read(root: Path) -> tuple[list[Json], list[str]]:
    """The newest events, oldest first, without a torn last line; and what is wrong with the others, as sentences."""
    found, faults = [], []
    try:
        for number, line in _lines(root):
            try:
                found.append(parse(line, number))
            except Damaged as error:
                faults.append(str(error))
    except FileNotFoundError:
        faults.append(f"{EVENTS} is missing.")
    except (Damaged, DiskError) as error:
        faults.append(str(error))
    return found, faults


def parse(line: bytes, number: int) -> Json:
    """The event in a line, end of line included; raises Damaged."""
    where = f"{EVENTS} line {number}"
    event = unseal(line, where)
    well_formed(EventHead, event, f"{where} is not an event")
    return event


def last_checkpoint(root: Path) -> int | None:
    """The round of the newest checkpoint the events tell of, if they can be read."""
    lines: list[tuple[int, bytes]] = []
    with suppress(FileNotFoundError, Damaged, DiskError):
        lines.extend((number, line) for number, line in _lines(root) if b'"checkpoint"' in line)
    for number, line in reversed(lines):
        with suppress(Damaged):
            if (event := parse(line, number))["event"] == "checkpoint":
                return event["round"] if type(event.get("round")) is int else None
    return None


def torn(root: Path) -> int:
    """How many bytes of a line without an end the file ends in; raises FileNotFoundError, Damaged or DiskError."""
    with files.open_regular(root, EVENTS) as fd, files.storage(root):
        size = os.fstat(fd).st_size
        end = b"".join(files.chunks(fd, limits.EVENT, max(0, size - limits.EVENT)))
    if b"\n" not in end and size > limits.EVENT:
        raise Damaged(
            f"{EVENTS} ends in a line of more than the {limits.EVENT:,} bytes it may have; move it away."
        )
    return len(end) - (end.rfind(b"\n") + 1)


def _fitting(head: Json, fields: Json) -> bytes:
    """The line of an event whose texts and lists are cut as far as that takes."""
    for letters, items in ((limits.MESSAGE_LETTERS, 10_000), (400, 100), (40, 10)):
        with suppress(TooLarge):
            return seal(head | _cut(fields, letters, items), limits.EVENT, "an event")
    return seal(head, limits.EVENT, "an event")


def _cut(value: Any, letters: int, items: int) -> Any:
    match value:
        case str():
            return value[:letters]
        case list() | tuple():
            return [_cut(each, letters, items) for each in value[:items]]
        case dict():
            return {key: _cut(each, letters, items) for key, each in value.items()}
    return value


def _lines(root: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of the newest part, each with its number in that part."""
    with files.open_regular(root, EVENTS) as fd, files.storage(root):
        size = os.fstat(fd).st_size
        start = max(0, size - limits.EVENTS)
        lines = split_lines(files.chunks(fd, size - start, start), limits.EVENT, EVENTS)
        if start:
            next(lines, None)  # begun before
        yield from enumerate((line for line in lines if line.endswith(b"\n")), start=1)
