"""A session's ledger and events, line by line; and what of a session they show to be missing.

The ledger is derived from the manifests and rebuilt from them when torn. Events are sealed lines that are only told,
never computed with: damage among them is said, and the rest is read.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkpoints import files, layout, limits, lock
from checkpoints.files import Damaged, DiskError
from checkpoints.layout import EVENTS, LEDGER, MANIFESTS, manifest_name
from checkpoints.limits import TooLarge
from checkpoints.manifests import Manifest
from checkpoints.schema import EventHead, Json, Prefix, canonical, parse, seal, unseal, well_formed

_CHUNK = 1 << 20


class LineWriter:
    """Adds lines to a file that nobody else writes, and keeps the hash of all its bytes. A changed size stops it."""

    def __init__(self, root: Path, name: str) -> None:
        """Reads the file once; raises FileNotFoundError, Damaged or DiskError."""
        self._name = name
        self._root = root
        self._hash = hashlib.sha256()
        self._unsynced = False
        with files.open_regular(root, name) as fd, files.storage(root):
            for chunk in files.chunks(fd, os.fstat(fd).st_size):
                self._hash.update(chunk)
            self.size = os.fstat(fd).st_size

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.size, self._hash.hexdigest())

    def check(self) -> None:
        """Raise SessionUnreadable when another program changed the file."""
        files.append(self._root, self._name, b"", at=self.size, durable=False)

    def append(self, line: bytes, *, durable: bool) -> None:
        files.append(self._root, self._name, line, at=self.size, durable=durable)
        self._unsynced = not durable
        self.size += len(line)
        self._hash.update(line)

    def sync(self) -> None:
        if self._unsynced:
            files.sync(self._root, self._name)
            self._unsynced = False


def _split_lines(chunks: Iterable[bytes], cap: int, where: str) -> Iterator[bytes]:
    """The lines in these chunks, each with its end, the last one perhaps without; raises Damaged for one over `cap`."""
    rest = bytearray()
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            rest += line + b"\n"
            if len(rest) > cap:
                break
            yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > cap:
            raise Damaged(f"{where} has a line of more than the {cap:,} bytes it may have.")
    if rest:
        yield bytes(rest)


# The ledger


class LedgerWriter(LineWriter):
    def __init__(self, root: Path, text: bytes) -> None:
        super().__init__(root, LEDGER)
        self._last = text[text.rfind(b"\n", 0, -1) + 1 :]
        self._before = _prefix(memoryview(text)[: len(text) - len(self._last)])

    def before_last(self, record: Mapping[str, Any]) -> Prefix:
        """What comes before the last line, which must be the record's; raises ValueError."""
        if _line(record) != self._last:
            raise ValueError(f"the record of round {record.get('round')} is not the one in the ledger")
        return self._before

    def fitting(self, record: Mapping[str, Any]) -> bytes:
        """The record's line. Raises TooLarge where the line, or the ledger with it, could not be read back."""
        line = _line(record)
        limits.check_count(self.size + len(line), limits.LEDGER, LEDGER, "bytes")
        return line

    def add(self, record: Mapping[str, Any], *, durable: bool) -> None:
        """Append the record. Raises TooLarge like `fitting`, before anything is written."""
        line, before = self.fitting(record), self.prefix
        self.append(line, durable=durable)
        self._before, self._last = before, line


def text_of(records: Iterable[Mapping[str, Any]]) -> bytes:
    """The ledger that these records make, as a session that is forked begins with it."""
    return b"".join(map(_line, records))


def check_ledger(text: bytes) -> int:
    """How many rounds `text` holds, which must be 1, 2, … in whole lines; raises Damaged."""
    rounds = [record.get("round") for record in records(text)]
    if rounds != list(range(1, len(rounds) + 1)) or not text.endswith(b"\n" * bool(text)):
        raise Damaged(f"the {LEDGER} to begin with does not hold the rounds from 1 on, a line for each.")
    return len(rounds)


def read(root: Path, newest: Manifest | None) -> bytes:
    """The ledger's bytes; empty when the file is gone. Behind the newest checkpoint, whole lines up to limits.TAIL.

    Raises Damaged when the file is larger than that and what follows the checkpoint is no line.
    """
    covered = 0 if newest is None else newest.ledger.bytes + len(newest.line)
    most = min(covered, limits.LEDGER) + limits.TAIL
    try:
        raw, size = files.read_start(root, LEDGER, most)
    except FileNotFoundError:
        return b""
    if size <= most:
        return raw
    if (end := raw.rfind(b"\n") + 1) <= covered:
        raise Damaged(f"{LEDGER} is {size:,} bytes, more than the {most:,} it may have.")
    return raw[:end]


def recover(raw: bytes, manifests: Sequence[Manifest]) -> tuple[bytes, bytes]:
    """The ledger up to the last manifest's round, and what `raw` holds after it.

    The manifests supply their own lines; what lies between must match the next one's hash. Raises Damaged.
    """
    newest = manifests[-1] if manifests else None
    if newest and belongs(raw, newest) and _prefix(memoryview(raw)[: newest.ledger.bytes]) == newest.ledger:
        end = newest.ledger.bytes + len(newest.line)
        return raw[:end], raw[end:]
    text = bytearray()
    digest = hashlib.sha256()
    for manifest in manifests:
        between = raw[len(text) : manifest.ledger.bytes]
        digest.update(between)
        text += between
        if Prefix(len(text), digest.hexdigest()) != manifest.ledger:
            raise Damaged(
                f"{LEDGER} is damaged before round {manifest.round}; the checkpoints kept cannot rebuild it."
            )
        digest.update(manifest.line)
        text += manifest.line
    return bytes(text), raw[len(text) :]


def altered(raw: bytes, text: bytes, left: Json | None) -> str | None:
    """What was changed in a ledger, in words; None for nothing or a torn end. `text` is vouched for by checkpoints."""
    if raw[: len(text)] != text:
        whole = zip(raw.split(b"\n")[:-1], text.split(b"\n"), strict=False)
        for number, (there, written) in enumerate(whole, start=1):
            if there != written:
                return f"line {number} of {LEDGER}, of round {number}, was changed after it was written."
    elif (sealed := _sealed(left)).bytes == len(raw) > len(text) and sealed != _prefix(raw):
        return f"{LEDGER} was changed after its owner left it, behind the line of the newest checkpoint."
    return None


def is_as_written(root: Path, newest: Manifest | None, left: Json | None) -> bool:
    """Whether the ledger's bytes have the hashes that the newest checkpoint and a closed note say; read in pieces."""
    covered, line = (newest.ledger.bytes, newest.line) if newest else (0, b"")
    with suppress(FileNotFoundError), files.open_regular(root, LEDGER) as fd, files.storage(root):
        size, digest = os.fstat(fd).st_size, hashlib.sha256()
        for chunk in files.chunks(fd, covered):
            digest.update(chunk)
        if newest and Prefix(covered, digest.hexdigest()) != newest.ledger:
            return False
        if os.pread(fd, len(line), covered) != line:
            return False
        if (sealed := _sealed(left)).bytes == size > covered + len(line):
            for chunk in files.chunks(fd, size - covered, covered):
                digest.update(chunk)
            return digest.hexdigest() == sealed.sha256
        return True
    return newest is None


def _sealed(left: Json | None) -> Prefix:
    """The whole ledger as the last owner left it, if its note is closed."""
    said = left.get("ledger") if left is not None and lock.is_closed(left) else None
    return Prefix(-1, "") if said is None else Prefix(**said)


def _prefix(raw: bytes | memoryview) -> Prefix:
    return Prefix(len(raw), hashlib.sha256(raw).hexdigest())


def belongs(text: bytes, manifest: Manifest) -> bool:
    """Whether a checkpoint's line stands where it says in a ledger that a later checkpoint vouches for."""
    return text.startswith(manifest.line, manifest.ledger.bytes)


def records(text: bytes) -> list[Json]:
    """The records in a ledger's text; raises Damaged, naming the line."""
    return [parse(line, f"{LEDGER} line {number}") for number, line in enumerate(lines(text), start=1)]


def lines(text: bytes) -> Iterator[bytes]:
    """The lines of a ledger's text, each without its end; raises Damaged for one that is too long to be read."""
    chunks = (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
    return (line.removesuffix(b"\n") for line in _split_lines(chunks, limits.RECORD, LEDGER))


def whole(tail: bytes) -> list[tuple[bytes, Json]]:
    """The lines and records of a tail that no manifest covers yet, up to the first torn one."""
    found: list[tuple[bytes, Json]] = []
    with suppress(Damaged):
        for line in lines(tail[: tail.rfind(b"\n") + 1]):
            found.append((line, parse(line, LEDGER)))
    return found


def _line(record: Mapping[str, Any]) -> bytes:
    what = f"The record of round {record.get('round')}"
    return limits.check(canonical(record) + b"\n", limits.RECORD, what, limits.RECORD_VALUES)


# Events


def event_line(kind: str, fields: Json) -> bytes:
    """An event with the time of now. Long texts and lists are cut, so that it can be read back."""
    head = {"at": lock.now(), "event": kind}
    for letters, items in ((limits.MESSAGE_LETTERS, 10_000), (400, 100), (40, 10)):
        with suppress(TooLarge):
            return seal(head | _cut(fields, letters, items), limits.EVENT, "an event")
    return seal(head, limits.EVENT, "an event")


def read_events(root: Path) -> tuple[list[Json], list[str]]:
    """The newest events, oldest first, without a torn last line; and what is wrong with the others, as sentences."""
    found, faults = [], []
    try:
        for number, line in _event_lines(root):
            try:
                found.append(_parse_event(line, number))
            except Damaged as error:
                faults.append(str(error))
    except FileNotFoundError:
        faults.append(f"{EVENTS} is missing.")
    except (Damaged, DiskError) as error:
        faults.append(str(error))
    return found, faults


def _parse_event(line: bytes, number: int) -> Json:
    """The event in a line, end of line included; raises Damaged."""
    where = f"{EVENTS} line {number}"
    event = unseal(line, where)
    well_formed(EventHead, event, f"{where} is not an event")
    return event


def last_checkpoint(root: Path) -> int | None:
    """The round of the newest checkpoint the events tell of, if they can be read."""
    lines: list[tuple[int, bytes]] = []
    with suppress(FileNotFoundError, Damaged, DiskError):
        lines.extend((number, line) for number, line in _event_lines(root) if b'"checkpoint"' in line)
    for number, line in reversed(lines):
        with suppress(Damaged):
            if (event := _parse_event(line, number))["event"] == "checkpoint":
                return event["round"] if type(event.get("round")) is int else None
    return None


def lost_events(root: Path, left: Json | None) -> str | None:
    """Says that the events are not as the last owner left them, if its note says how that was; None if they are."""
    if left is None or not lock.is_closed(left) or "events" not in left:
        return None
    if asdict(LineWriter(root, EVENTS).prefix) == left["events"]:
        return None
    return f"{EVENTS} is not as it was left: lines of it were changed, added or lost."


def torn_events(root: Path) -> int:
    """How many bytes of a line without an end the file ends in; raises FileNotFoundError, Damaged or DiskError."""
    with files.open_regular(root, EVENTS) as fd, files.storage(root):
        size = os.fstat(fd).st_size
        end = b"".join(files.chunks(fd, limits.EVENT, max(0, size - limits.EVENT)))
    if b"\n" not in end and size > limits.EVENT:
        raise Damaged(
            f"{EVENTS} ends in a line of more than the {limits.EVENT:,} bytes it may have; move it away."
        )
    return len(end) - (end.rfind(b"\n") + 1)


def _cut(value: Any, letters: int, items: int) -> Any:
    match value:
        case str():
            return value[:letters]
        case list() | tuple():
            return [_cut(each, letters, items) for each in value[:items]]
        case dict():
            return {key: _cut(each, letters, items) for key, each in value.items()}
    return value


def _event_lines(root: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of the newest part, each with its number in that part."""
    with files.open_regular(root, EVENTS) as fd, files.storage(root):
        size = os.fstat(fd).st_size
        start = max(0, size - limits.EVENTS)
        lines = _split_lines(files.chunks(fd, size - start, start), limits.EVENT, EVENTS)
        if start:
            next(lines, None)  # begun before
        yield from enumerate((line for line in lines if line.endswith(b"\n")), start=1)


# What is missing


def missing_checkpoints(folder: Path, kept: list[int], left: Json | None) -> list[int]:
    """The rounds whose checkpoints should be there, by the events and a closed note (`left`), and are not; in order."""
    expected = set(left.get("checkpoints", ())) if left is not None and lock.is_closed(left) else set()
    newest = last_checkpoint(folder)
    if newest is not None and newest > max(kept, default=-1):
        expected.add(newest)
    return sorted(expected - set(kept))


def is_newest_missing(kept: list[int], missing: list[int]) -> bool:
    """Whether what is missing is newer than all that is kept: going on would begin at an older round."""
    return bool(missing) and missing[-1] > max(kept, default=-1)


def explained(folder: Path, kept: list[int], missing: list[int]) -> str:
    """Which checkpoints are missing, and what can be done, as sentences."""
    rounds = ", ".join(map(str, missing))
    are = f"checkpoints of rounds {rounds} are" if len(missing) > 1 else f"checkpoint of round {rounds} is"
    where = f"{MANIFESTS}/{manifest_name(missing[-1])}"
    if is_newest_missing(kept, missing):
        go_on = f"go on from round {kept[-1]}" if kept else "begin again"
        remedy = f"Restore it from a backup, or {go_on}: {layout.fork_at(folder, kept[-1] if kept else 0)}."
    else:
        remedy = f"Newer ones are kept: {', '.join(map(str, kept))}."
    return f"the {are} missing ({where} is gone). {remedy}"
