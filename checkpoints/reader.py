"""Looking at sessions: without a lock, also in a read-only folder, and while the owner writes. And lists of many."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from checkpoints import files, layout, ledger, limits, lock, manifests, objects
from checkpoints.files import Damaged, DiskError, SessionUnreadable, UnsupportedVersion
from checkpoints.manifests import Manifest, UnfinishedRound
from checkpoints.objects import TensorSpec
from checkpoints.schema import Json, ObjectRef, SessionDocument, parse, unseal, well_formed

if TYPE_CHECKING:
    from torch import Tensor


Parts = TypeVar("Parts")


class SessionReader:
    """A session directory, to look at."""

    def __init__(self, folder: Path) -> None:
        """Raises SessionUnreadable (no session there), Damaged, UnsupportedVersion or DiskError."""
        self.folder = folder
        self.document: Mapping[str, Any] = read_document(folder)

    @property
    def parent(self) -> Mapping[str, Any] | None:
        """What session.json says of the session this one was forked from."""
        parent: Mapping[str, Any] | None = self.document.get("parent")
        return parent

    def rounds(self) -> list[int]:
        """The rounds with a checkpoint, in order; raises Damaged where they cannot be listed."""
        try:
            return manifests.rounds(self.folder)
        except Damaged as error:
            raise Damaged(f"{self.folder}: {error}") from error

    def manifest(self, round: int | None = None) -> Manifest:
        """The checkpoint of a round, by default the newest; raises SessionUnreadable (not kept) or Damaged."""
        # The owner may retire a checkpoint between the listing and the reading; a newer one is there then.
        for _ in range(10):
            kept = self.rounds()
            if not kept:
                raise SessionUnreadable(f"{self.folder} has no checkpoint yet.")
            wanted = kept[-1] if round is None else round
            try:
                return manifests.read(self.folder, wanted)
            except FileNotFoundError:
                if round is not None:
                    held = ", ".join(map(str, kept))
                    raise SessionUnreadable(
                        f"{self.folder} keeps no checkpoint of round {round}; kept: {held}."
                    ) from None
            except Damaged as error:
                raise Damaged(f"{self.folder}: {error} {self._older(kept, wanted)}") from error
        raise SessionUnreadable(
            f"{self.folder}: its checkpoints keep vanishing; is another program removing them?"
        )

    def newest(self) -> Manifest | None:
        """The newest checkpoint; None before the first. Raises Damaged like `manifest`, and where it is missing."""
        kept = self.rounds()
        if not self.alive():
            missing = ledger.missing_checkpoints(self.folder, kept, lock.legible_note(self.folder))
            if ledger.is_newest_missing(kept, missing) and kept == (kept := self.rounds()):
                raise Damaged(f"{self.folder}: {ledger.explained(self.folder, kept, missing)}")
        return self.manifest() if kept else None

    def load(
        self, round: int | None, name: str, expected: Mapping[str, TensorSpec] | None = None
    ) -> dict[str, "Tensor"]:
        """The tensors of a state ("server", "client/3") after a round (None: the newest), as `expected`.

        Raises SessionUnreadable when the round or the state is not there, Damaged (with an older round to go on from).
        """
        manifest = self.manifest(round)
        if name not in manifest.states:
            raise SessionUnreadable(f"{self.folder}: round {manifest.round} holds no state {name}.")
        return self.load_object(manifest.round, name, manifest.states[name], expected)

    def load_object(
        self, round: int, name: str, ref: ObjectRef, expected: Mapping[str, TensorSpec] | None = None
    ) -> dict[str, "Tensor"]:
        """The tensors of a state that the checkpoint of a round keeps as `ref`, without a look at that; like `load`."""
        try:
            return objects.get(self.folder, ref, expected)
        except Damaged as error:
            raise Damaged(self._damage(round, name, ref, str(error))) from error

    def check(
        self,
        manifest: Manifest,
        name: str,
        *,
        thorough: bool,
        expected: Mapping[str, TensorSpec] | None = None,
    ) -> None:
        """That a state's object is there, or also (`thorough`) its bytes and `expected`; raises Damaged like `load`."""
        ref = manifest.states[name]
        try:
            if thorough:
                objects.check(self.folder, ref, expected)
            else:
                objects.check_size(self.folder, ref)
        except Damaged as error:
            raise Damaged(self._damage(manifest.round, name, ref, str(error))) from error

    def _damage(self, round: int, name: str, ref: ObjectRef, what: str) -> str:
        """What is wrong with a state's object, said with its round and the way back."""
        older = self._older(self.rounds(), round, name, ref)
        return f"{self.folder}, round {round}, {name}: {what} {older}"

    def unfinished_round(self) -> UnfinishedRound | None:
        """What is saved of the round after the newest checkpoint; None if nothing, or nothing usable, is."""
        with suppress(FileNotFoundError, Damaged):
            return manifests.read_unfinished(self.folder, max([0, *self.rounds()]) + 1)
        return None

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The ledger's records, in order of round; a torn last line is completed from its checkpoint."""
        covered, later = self._of_ledger(lambda text, tail: (ledger.records(text), ledger.whole(tail)))
        for number, record in enumerate(covered, start=1):
            self.check_record(record, number)
        # What no checkpoint vouches for counts as far as it goes on: another program may have got a line in.
        with suppress(Damaged):
            for _, record in later:
                self.check_record(record, len(covered) + 1)
                covered.append(record)
        return covered

    def lines(self) -> list[bytes]:
        """The same as the text of each, for who needs little of it: those a checkpoint vouches for are not decoded."""
        covered, later = self._of_ledger(lambda text, tail: (list(ledger.lines(text)), ledger.whole(tail)))
        with suppress(Damaged):
            for line, record in later:
                self.check_record(record, len(covered) + 1)
                covered.append(line)
        return covered

    def _of_ledger(self, use: Callable[[bytes, bytes], Parts]) -> Parts:
        """`use` of the ledger that checkpoints vouch for, its end completed, and of what follows. Raises Damaged."""
        last = 3
        for attempt in range(last + 1):
            # Checkpoints first: the ledger read after them holds at least what they cover. The newest
            # vouches for all of it unless something is damaged.
            covering = []
            for round in self.rounds()[-1 if attempt == 0 else 0 :]:
                with suppress(FileNotFoundError, Damaged):
                    covering.append(manifests.read(self.folder, round))
            try:
                raw = ledger.read(self.folder, covering[-1] if covering else None)
                text, tail = ledger.recover(raw, covering)
                if (what := ledger.altered(raw, text, lock.legible_note(self.folder))) is None:
                    return use(text, tail)
                damage = Damaged(
                    f"{self.folder}: {what} Rebuild it from the checkpoints: "
                    f"`htfl-sim resume {layout.typed(self.folder)}`."
                )
            except Damaged as error:
                damage = Damaged(f"{self.folder}: {error} Restore it from a backup.")
            if attempt == last:
                raise damage
        raise AssertionError("unreachable")

    def check_record(self, record: Mapping[str, Any], round: int | None = None) -> None:
        """Raise Damaged unless a record is a round's, and the given one's; a subclass may ask for more."""
        stated = record.get("round")
        if type(stated) is not int or stated < 1 or round not in (None, stated):
            raise Damaged(f"{self.folder}: line {round or 'unknown'} of the ledger is of round {stated!r}.")

    def events(self) -> Sequence[Mapping[str, Any]]:
        """The operator events that can be read, oldest first; `event_faults` says what is wrong with the others."""
        return ledger.read_events(self.folder)[0]

    def event_faults(self) -> list[str]:
        """What of the events is damaged or missing, as sentences; a torn last line is no damage."""
        return ledger.read_events(self.folder)[1]

    def owner(self) -> Json | None:
        """What the present or last owner noted (host, pid, state, progress …), or None; raises Damaged."""
        return lock.read_note(self.folder)

    def noted_at(self) -> float | None:
        """When the owner's note was written, in Unix seconds by the clock of its disk; None if there is none."""
        try:
            return (self.folder / layout.OWNER).stat().st_mtime
        except OSError:
            return None

    def state(self) -> str:
        """What the owner says ("running", "paused", "stopped", "finished" …), or "interrupted" if it died."""
        found = lock.legible_note(self.folder)
        if found is None:
            return "running" if lock.is_held(self.folder) else "interrupted"
        if lock.is_closed(found) or lock.is_elsewhere(found) or lock.is_held(self.folder):
            return str(found["state"])
        return "interrupted"

    def alive(self) -> bool:
        """Whether an owner lives: a process here, or one on another machine that has not closed its note."""
        if lock.is_held(self.folder):
            return True
        found = lock.legible_note(self.folder)
        return found is not None and lock.is_elsewhere(found) and not lock.is_closed(found)

    def heartbeat(self) -> tuple[int, int] | None:
        """What moves while an owner on another machine lives, whose death cannot be seen from here; None of others."""
        found = lock.legible_note(self.folder)
        if found is None or lock.is_closed(found) or not lock.is_elsewhere(found):
            return None
        return lock.epoch(found), found["heartbeat"]

    def _older(
        self, kept: list[int], round: int, name: str | None = None, ref: ObjectRef | None = None
    ) -> str:
        """Which earlier checkpoint to fall back on: the newest sound one, with other bytes for the state."""
        for older in reversed([each for each in kept if each < round]):
            with suppress(Damaged, FileNotFoundError):
                states = manifests.read(self.folder, older).states
                if name is None or states.get(name) != ref:
                    go_on = layout.fork_at(self.folder, older)
                    return f"Restore it from a backup, or go on from round {older}: {go_on}."
        return "Restore it from a backup. No earlier checkpoint is kept."


def read_document(folder: Path) -> Json:
    """session.json; raises SessionUnreadable (no session there), Damaged, UnsupportedVersion or DiskError."""
    try:
        document = unseal(files.read(folder, layout.SESSION, cap=limits.SESSION), layout.SESSION)
    except FileNotFoundError:
        rest = ""
        if left := remains(folder):
            rest = (
                f" But it holds {left}: restore {layout.SESSION} from a backup, and nothing is lost. Without it the "
                "ledger can be read as it is, one JSON line a round, and the objects by any safetensors reader."
            )
        raise SessionUnreadable(f"{folder} is not a session: it has no {layout.SESSION}.{rest}") from None
    except Damaged as error:
        raise Damaged(f"{folder}: {error} Restore it from a backup.") from error
    version = document.get("format")
    if type(version) is int and version not in layout.FORMATS:
        environment = document.get("environment")
        made = environment.get("htfl-sim") if isinstance(environment, dict) else None
        use = f"a version of htfl-sim that reads format {version}"
        if isinstance(made, str) and len(made) < 40 and made.isprintable():
            use = f"htfl-sim {made}, which made it"
        raise UnsupportedVersion(
            f"{folder} is a session of format {version}; this program reads formats "
            f"{layout.FORMATS[0]} to {layout.FORMATS[-1]}. Use {use}."
        )
    well_formed(SessionDocument, document, f"{folder}: {layout.SESSION} is not one that htfl-sim wrote")
    return document


def remains(folder: Path) -> str | None:
    """What a folder that lost its session.json holds of the session, in words; None when nothing of worth."""
    found: list[str] = []
    with suppress(Damaged, DiskError, FileNotFoundError):
        if rounds := manifests.rounds(folder):
            found.append(f"the checkpoints of rounds {', '.join(map(str, rounds))}")
    with suppress(Damaged, DiskError, FileNotFoundError):
        if lines := len(ledger.whole(ledger.read(folder, None))):
            found.append(f"a ledger of {lines} rounds")
    with suppress(Damaged, DiskError, FileNotFoundError):
        if not found and any(objects.present(folder)):
            found.append("objects")
    return " and ".join(found) or None


def groups(folder: Path) -> list[Path]:
    """The groups of sessions directly under `folder`, by name. Raises DiskError."""
    if not folder.is_dir():
        return []
    with files.storage(folder):
        return sorted(
            path for path in folder.iterdir() if not layout.is_private(path.name) and layout.is_group(path)
        )


def sessions(folder: Path) -> list[Path]:
    """The session directories under `folder` and in its groups, by name, also those whose contents cannot be seen."""
    return sorted(path for path in _visible(folder) if is_session(path, unseen=True))


def is_session(folder: Path, *, unseen: bool = False) -> bool:
    """Whether a folder has been made a session; not whether it is whole. `unseen`: where that cannot be seen."""
    try:
        return files.look(folder, layout.SESSION) is not None
    except Damaged:
        return False  # no folder
    except DiskError:
        return unseen


# Listings

TAIL = 1 << 16
"""Bytes first read from the end of a ledger; a line longer than that is read with four times as many."""


def entries(folder: Path) -> list[Path]:
    """What lies in a sessions folder and in its groups; nothing when it is not there. Raises DiskError."""
    found: list[Path] = []
    for place in (folder, *groups(folder)) if folder.is_dir() else ():
        with files.storage(place):
            found += place.iterdir()
    return found


def _visible(folder: Path) -> list[Path]:
    return [path for path in entries(folder) if not layout.is_private(path.name)]


def session_folders(folder: Path) -> list[Path]:
    """The sessions under `folder` and in its groups, by name, also without session.json. Raises DiskError."""

    def has_checkpoints(path: Path) -> bool:
        with suppress(Damaged, DiskError):
            return files.is_folder(files.look(path, layout.MANIFESTS))
        return False

    return sorted({*filter(has_checkpoints, _visible(folder)), *sessions(folder)})


def mentions(folder: Path, *texts: str, any_of: Sequence[str] = ()) -> bool:
    """Whether session.json has all of these texts, and one of `any_of`, if there are any, without decoding it."""
    try:
        written = files.read(folder, layout.SESSION, cap=limits.SESSION)
    except (FileNotFoundError, Damaged, DiskError):
        return False
    one_of = not any_of or any(text.encode() in written for text in any_of)
    return one_of and all(text.encode() in written for text in texts)


def last_record(session: SessionReader, newest: Manifest | None) -> Mapping[str, Any] | None:
    """The last round's record, without decoding the rest of the ledger, whose bytes are hashed; None before the first.

    That of `newest`, if the ledger is torn or behind it. Raises Damaged like `SessionReader.records`.
    """
    kept = newest.record if newest else None
    if not ledger.is_as_written(session.folder, newest, lock.legible_note(session.folder)):
        lines = session.lines()
        return parse(lines[-1], layout.LEDGER) if lines else None
    with suppress(Damaged, FileNotFoundError):
        line = parse(_last_line(session.folder), layout.LEDGER)
        session.check_record(line)
        if kept is None or line["round"] >= kept["round"]:
            return line
    return kept


def first_record(
    session: SessionReader, holds: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any] | None:
    """The first record for which `holds` is true, as it is for all later ones, or None. Reads a few lines only."""
    with suppress(Damaged, FileNotFoundError), files.open_regular(session.folder, layout.LEDGER) as fd:
        found, first, last = None, 0, os.fstat(fd).st_size
        while first < last:
            start, line = _line_at(fd, first, (first + last) // 2, last)
            record = parse(line, layout.LEDGER) if line is not None else None
            if record is None:  # not whole: it is being written
                last = start
            elif holds(record):
                found, last = record, start
            else:
                first = start + len(line or b"") + 1
        return found
    return None


def size_on_disk(folder: Path) -> int:
    """Bytes in the files of a folder, links not followed. A file that vanishes meanwhile does not count."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += size_on_disk(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _last_line(folder: Path) -> bytes:
    """The last whole line of the ledger, without its end; empty when there is none."""
    with files.open_regular(folder, layout.LEDGER) as fd:
        size, wanted = os.fstat(fd).st_size, TAIL
        while True:
            text = os.pread(fd, wanted, max(0, size - wanted))
            before, _, _ = text.rpartition(b"\n")
            if b"\n" in before or wanted >= size or wanted > limits.RECORD:
                return before.rpartition(b"\n")[2]
            wanted *= 4


def _line_at(fd: int, first: int, at: int, last: int) -> tuple[int, bytes | None]:
    """Of the lines between two offsets, the start of the one at `at`, and its text; None if it has no end there."""
    width = TAIL
    while True:
        begin, end = max(first, at - width), min(last, at + width)
        text = os.pread(fd, end - begin, begin)
        left, right = text.rfind(b"\n", 0, at - begin), text.find(b"\n", at - begin)
        if (left >= 0 or begin == first) and (right >= 0 or end == last):
            return begin + left + 1, text[left + 1 : right] if right >= 0 else None
        width *= 4


# Following

Part = Literal["document", "ledger", "events", "owner", "inbox", "tags", "checkpoints"]

_FILES: dict[Part, str] = {
    "document": layout.SESSION,
    "ledger": layout.LEDGER,
    "events": layout.EVENTS,
    "owner": layout.OWNER,
    "inbox": layout.INBOX,
    "tags": layout.TAGS,
    "checkpoints": layout.MANIFESTS,
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
        """The parts written since they were last told of; at first all. Later writes are told the next time."""
        for part, name in _FILES.items():
            stamp = _stamp(self.session.folder / name)
            if part not in self._stamps or stamp != self._stamps[part]:
                self._stamps[part] = stamp
                yield part

    def new_records(self) -> Growth:
        """The ledger's whole lines since the last call; all if the file is another, or shorter. Raises Damaged."""
        folder, before = self.session.folder, self._ledger
        self._ledger = now = _stamp(folder / layout.LEDGER)
        if before and now and now[0] == before[0] and now[1] >= self._offset:
            with files.open_regular(folder, layout.LEDGER) as fd, files.storage(folder):
                text = b"".join(files.chunks(fd, limits.TAIL, self._offset))
            text = text[: text.rfind(b"\n") + 1]
            self._offset += len(text)
            new = [parse(line, f"{folder}: {layout.LEDGER}") for line in text.splitlines()]
            for number, record in enumerate(new, start=self._rounds + 1):
                self.session.check_record(record, number)
            self._rounds += len(new)
            return Growth(new, anew=False)
        records = self.session.records()
        self._rounds, self._offset = len(records), 0
        text = b""
        with suppress(FileNotFoundError):
            text = files.read(folder, layout.LEDGER, cap=limits.LEDGER + limits.TAIL)
        for _ in records:
            if not (end := text.find(b"\n", self._offset) + 1):
                # A line that only its checkpoint has yet: when it comes, it must not count twice.
                self._ledger, self._offset = None, 0
                break
            self._offset = end
        return Growth(records, anew=True)


def changed_stamp(folder: Path, *parts: Part) -> tuple[Stamp, ...]:
    """A value that changes whenever one of these parts of a session is written (none named: any of them)."""
    return tuple(_stamp(folder / _FILES[part]) for part in parts or _FILES)


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - called every half second for every part of every session shown
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
