"""The ledger: one line of JSON per round, derived from the manifests and rebuilt from them when torn."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpoints import files, limits
from checkpoints.errors import Damaged
from checkpoints.layout import LEDGER
from checkpoints.lines import LineWriter
from checkpoints.manifests import Manifest
from checkpoints.schema import Json, Prefix, canonical, parse


class LedgerWriter(LineWriter):
    """Appends records to a ledger that is whole."""

    def __init__(self, root: Path, text: bytes) -> None:
        """`text` is what the ledger holds."""
        super().__init__(root, LEDGER)
        self._last = text[text.rfind(b"\n", 0, -1) + 1 :]
        before = memoryview(text)[: len(text) - len(self._last)]
        self._before = Prefix(len(before), hashlib.sha256(before).hexdigest())

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
    """The ledger's bytes; empty when the file is gone, since it can be rebuilt.

    An earlier version may have left many rounds behind the newest checkpoint: they are read up to limits.TAIL. Raises
    Damaged when the file is larger than that and what follows the checkpoint is no line.
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

    The manifests (in order of round) supply their own lines; what lies between comes from `raw` and must
    match the hash of the next manifest. Raises Damaged where it does not.
    """
    if manifests and (end := _covered(raw, manifests[-1])) is not None:
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
    """What was changed in a ledger after it was written, in words; None for nothing, also if its end is torn.

    `text` is the part that checkpoints vouch for, as `recover` gives it. left: the last owner's note.
    """
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
    return (
        Prefix(**left["ledger"]) if left and left["closed"] is True and "ledger" in left else Prefix(-1, "")
    )


def _prefix(raw: bytes) -> Prefix:
    return Prefix(len(raw), hashlib.sha256(raw).hexdigest())


def belongs(text: bytes, manifest: Manifest) -> bool:
    """Whether a checkpoint's line stands where it says in a ledger that a later checkpoint vouches for."""
    return text.startswith(manifest.line, manifest.ledger.bytes)


def records(text: bytes) -> list[Json]:
    """The records in a ledger's text; raises Damaged, naming the line."""
    return [parse(line, f"{LEDGER} line {number}") for number, line in enumerate(_split(text), start=1)]


def lines(text: bytes) -> list[bytes]:
    """The lines of a ledger's text, none of them decoded; raises Damaged for one that is too long."""
    return list(_split(text))


def whole_records(tail: bytes) -> list[Json]:
    """The records at the start of a tail that no manifest covers yet, up to the first torn line."""
    return [record for _, record in whole(tail)]


def whole(tail: bytes) -> list[tuple[bytes, Json]]:
    """The same, each with its line."""
    found: list[tuple[bytes, Json]] = []
    end = tail.rfind(b"\n") + 1
    with suppress(Damaged):
        for line in _split(tail[:end]):
            found.append((line, parse(line, LEDGER)))
    return found


def _covered(raw: bytes, newest: Manifest) -> int | None:
    """How many bytes of `raw` the newest checkpoint vouches for, its own line included; None if it does not."""
    prefix = memoryview(raw)[: newest.ledger.bytes]
    if not belongs(raw, newest) or hashlib.sha256(prefix).hexdigest() != newest.ledger.sha256:
        return None
    return len(prefix) + len(newest.line)


def _split(text: bytes) -> Iterator[bytes]:
    """The lines, each without its end; raises Damaged for one that is too long to be read."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start, start + limits.RECORD)
        if end < 0 and len(text) - start > limits.RECORD:
            raise Damaged(f"{LEDGER} has a line of more than the {limits.RECORD:,} bytes it may have.")
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _line(record: Mapping[str, Any]) -> bytes:
    what = f"The record of round {record.get('round')}"
    return limits.check(canonical(record) + b"\n", limits.RECORD, what, limits.RECORD_VALUES)
