"""The ledger: one line of JSON per round, derived from the manifests and rebuilt from them when torn."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from checkpoints import files
from checkpoints.errors import Damaged
from checkpoints.layout import LEDGER
from checkpoints.manifests import Manifest, Prefix
from checkpoints.seal import Json, canonical, parse

LEDGER_CAP = 4 << 30


class LedgerWriter:
    """Appends lines to a ledger whose present text is known, keeping the running hash a manifest needs."""

    def __init__(self, root: Path, text: bytes) -> None:
        self._path = root / LEDGER
        self._last = text[text.rfind(b"\n", 0, -1) + 1 :]
        self._hash = hashlib.sha256(text[: len(text) - len(self._last)])
        self._before = Prefix(len(text) - len(self._last), self._hash.hexdigest())
        self._size = len(text)
        self._hash.update(self._last)
        self._unsynced = False

    @property
    def prefix(self) -> Prefix:
        return Prefix(self._size, self._hash.hexdigest())

    def before_last(self, record: Json) -> Prefix:
        """What comes before the last line, which must be the record's; raises ValueError."""
        if _line(record) != self._last:
            raise ValueError(f"the record of round {record.get('round')} is not the one in the ledger")
        return self._before

    def append(self, record: Json, *, durable: bool) -> None:
        line = _line(record)
        files.append(self._path, line, durable=durable)
        self._before, self._last = self.prefix, line
        self._unsynced = not durable
        self._size += len(line)
        self._hash.update(line)

    def sync(self) -> None:
        if self._unsynced:
            files.sync(self._path)
            self._unsynced = False


def check_ledger(text: bytes) -> int:
    """How many rounds `text` holds, which must be 1, 2, … in whole lines; raises Damaged."""
    rounds = [record.get("round") for record in records(text)]
    if rounds != list(range(1, len(rounds) + 1)) or not text.endswith(b"\n" * bool(text)):
        raise Damaged(f"the {LEDGER} to begin with does not hold the rounds from 1 on, a line for each.")
    return len(rounds)


def read(root: Path) -> bytes:
    """The ledger's bytes as they are; empty when the file is gone, since it can be rebuilt."""
    try:
        return files.read(root, LEDGER, cap=LEDGER_CAP)
    except FileNotFoundError:
        return b""


def recover(raw: bytes, manifests: Iterable[Manifest]) -> tuple[bytes, bytes]:
    """The ledger up to the last manifest's round, and what `raw` holds after it.

    The manifests (in order of round) supply their own lines; what lies between comes from `raw` and must
    match the hash of the next manifest. Raises Damaged where it does not.
    """
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


def records(text: bytes) -> list[Json]:
    """The records in a ledger's text; raises Damaged, naming the line."""
    return [parse(line, f"{LEDGER} line {number}") for number, line in enumerate(text.splitlines(), start=1)]


def whole_records(tail: bytes) -> list[Json]:
    """The records at the start of a tail that no manifest covers yet, up to the first torn line."""
    found: list[Json] = []
    for line in tail.splitlines(keepends=True):
        try:
            if line.endswith(b"\n"):
                found.append(parse(line[:-1], LEDGER))
                continue
        except Damaged:
            pass
        break
    return found


def _line(record: Json) -> bytes:
    return canonical(record) + b"\n"
