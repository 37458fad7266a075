"""Reading a session: without a lock, from a read-only folder, also while its owner writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from checkpoints import (
    completeness,
    events,
    files,
    layout,
    ledger,
    limits,
    lock,
    manifests,
    objects,
    unfinished_round,
)
from checkpoints.errors import Damaged, DiskError, SessionUnreadable, UnsupportedVersion
from checkpoints.layout import FORMATS, OWNER, SESSION, is_group, is_private
from checkpoints.manifests import Manifest
from checkpoints.objects import TensorSpec
from checkpoints.schema import Json, ObjectRef, SessionDocument, unseal, well_formed
from checkpoints.unfinished_round import UnfinishedRound

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
            missing = completeness.missing_checkpoints(self.folder, kept, lock.legible_note(self.folder))
            if completeness.is_newest_missing(kept, missing) and kept == (kept := self.rounds()):
                raise Damaged(f"{self.folder}: {completeness.explained(self.folder, kept, missing)}")
        return self.manifest() if kept else None

    def load(
        self, round: int | None, name: str, expected: Mapping[str, TensorSpec] | None = None
    ) -> dict[str, "Tensor"]:
        """The tensors of a state ("server", "client/3") after a round (None: the newest kept).

        With `expected`, exactly those names, shapes and dtypes. Raises SessionUnreadable when the round or the state
        is not there, Damaged (naming round, state and file, and offering an older round) when its bytes are
        not what was written.
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
        """That a state's object is there, or also (`thorough`) read and hash it, and compare what its header says
        with `expected`; raises Damaged like `load`."""
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
            return unfinished_round.read(self.folder, max([0, *self.rounds()]) + 1)
        return None

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The ledger's records, in order of round; a torn last line is completed from its checkpoint."""
        covered, later = self._of_ledger(
            lambda text, tail: (ledger.records(text), ledger.whole_records(tail))
        )
        for number, record in enumerate(covered, start=1):
            self.check_record(record, number)
        # What no checkpoint vouches for counts as far as it goes on: another program may have got a line in.
        with suppress(Damaged):
            for record in later:
                self.check_record(record, len(covered) + 1)
                covered.append(record)
        return covered

    def lines(self) -> list[bytes]:
        """The same as the text of each, for who needs little of it: those a checkpoint vouches for are not decoded."""
        covered, later = self._of_ledger(lambda text, tail: (ledger.lines(text), ledger.whole(tail)))
        with suppress(Damaged):
            for line, record in later:
                self.check_record(record, len(covered) + 1)
                covered.append(line)
        return covered

    def _of_ledger(self, use: Callable[[bytes, bytes], Parts]) -> Parts:
        """`use` of the ledger that checkpoints vouch for and of what follows it.

        A torn end is completed. Raises Damaged for lines that were changed after they were written.
        """
        last = 3
        for attempt in range(last + 1):
            # Checkpoints first: the ledger read after them holds at least what they cover. The newest
            # vouches for all of it unless something is damaged.
            covering = self._readable_manifests(attempt == 0)
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
        return events.read(self.folder)[0]

    def event_faults(self) -> list[str]:
        """What of the events is damaged or missing, as sentences; a torn last line is no damage."""
        return events.read(self.folder)[1]

    def owner(self) -> Json | None:
        """What the present or last owner noted (host, pid, state, progress …), or None; raises Damaged."""
        return lock.read_note(self.folder)

    def noted_at(self) -> float | None:
        """When the owner's note was written, in Unix seconds by the clock of its disk; None if there is none."""
        try:
            return (self.folder / OWNER).stat().st_mtime
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

    def _readable_manifests(self, newest: bool = False) -> list[Manifest]:
        found = []
        for round in self.rounds()[-1 if newest else 0 :]:
            with suppress(FileNotFoundError, Damaged):
                found.append(manifests.read(self.folder, round))
        return found


def read_document(folder: Path) -> Json:
    """session.json; raises SessionUnreadable (no session there), Damaged, UnsupportedVersion or DiskError."""
    try:
        document = unseal(files.read(folder, SESSION, cap=limits.SESSION), SESSION)
    except FileNotFoundError:
        raise SessionUnreadable(f"{folder} is not a session: it has no {SESSION}.{_rest(folder)}") from None
    except Damaged as error:
        raise Damaged(f"{folder}: {error} Restore it from a backup.") from error
    version = document.get("format")
    if type(version) is int and version not in FORMATS:
        environment = document.get("environment")
        made = environment.get("htfl-sim") if isinstance(environment, dict) else None
        named = isinstance(made, str) and len(made) < 40 and made.isprintable()
        use = (
            f"htfl-sim {made}, which made it"
            if named
            else f"a version of htfl-sim that reads format {version}"
        )
        raise UnsupportedVersion(
            f"{folder} is a session of format {version}; this program reads formats "
            f"{FORMATS[0]} to {FORMATS[-1]}. Use {use}."
        )
    well_formed(SessionDocument, document, f"{folder}: {SESSION} is not one that htfl-sim wrote")
    return document


def remains(folder: Path) -> str | None:
    """What a folder that lost its session.json holds of the session, in words; None when nothing of worth."""
    found: list[str] = []
    with suppress(Damaged, DiskError, FileNotFoundError):
        if rounds := manifests.rounds(folder):
            found.append(f"the checkpoints of rounds {', '.join(map(str, rounds))}")
    with suppress(Damaged, DiskError, FileNotFoundError):
        if lines := len(ledger.whole_records(ledger.read(folder, None))):
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
        return sorted(path for path in folder.iterdir() if not is_private(path.name) and is_group(path))


def sessions(folder: Path) -> list[Path]:
    """The session directories under `folder` and in its groups, by name; none when the folder is not there.

    One whose contents cannot be seen is among them: reading it says why. Raises DiskError for `folder` itself.
    """
    return sorted(path for place in (folder, *groups(folder)) for path in _sessions(place))


def _sessions(folder: Path) -> Iterator[Path]:
    with files.storage(folder):
        if folder.is_dir():
            yield from (path for path in folder.iterdir() if not is_private(path.name) and _may_be_one(path))


def _may_be_one(path: Path) -> bool:
    try:
        return files.look(path, SESSION) is not None
    except Damaged:
        return False  # no folder
    except DiskError:
        return True


def _rest(folder: Path) -> str:
    """How what is left of a session without session.json can be had back."""
    left = remains(folder)
    if left is None:
        return ""
    return (
        f" But it holds {left}: restore {SESSION} from a backup, and nothing is lost. Without it the ledger can be "
        "read as it is, one JSON line a round, and the objects by any safetensors reader."
    )
