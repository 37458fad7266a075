"""What opening does: look whether the session is whole and refuse damage, then sweep what a crash left and mend.

Looking changes nothing. Mending begins when the session is owned, and asks before each change whether it still is.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from checkpoints import files, layout, ledger, lock, manifests, objects
from checkpoints.errors import Damaged, SessionUnreadable
from checkpoints.layout import EVENTS, FOLDERS, LEDGER, OBJECTS, PARTIAL, TMP, is_object_folder
from checkpoints.ledger import LineWriter, explained, is_newest_missing, missing_checkpoints, warning
from checkpoints.manifests import Manifest, UnfinishedRound
from checkpoints.reader import SessionReader
from checkpoints.schema import Json

May = Callable[[], None]
"""Raises when the session is no longer owned."""


@dataclass(frozen=True)
class Found:
    """A session as it was found: the checkpoints, those that are not of its course, the ledger and what follows it."""

    kept: list[Manifest]
    strays: list[Manifest]
    raw: bytes
    ledger: bytes
    tail: bytes
    torn: int | None
    """How many bytes the events end in that are no whole line; None when there are no events at all."""
    warnings: list[str]

    @property
    def newest(self) -> int:
        return self.kept[-1].round if self.kept else 0


def look(folder: Path, left: Json | None) -> Found:
    """Read a session whose lock is held; `left` is its last owner's note. Nothing is changed.

    Raises Damaged when a manifest or an object of the newest checkpoint is missing or not what was written, or
    when the ledger cannot be rebuilt.
    """
    _refuse_links(folder)
    session = SessionReader(folder)
    rounds = session.rounds()
    missing = missing_checkpoints(folder, rounds, left)
    if is_newest_missing(rounds, missing):
        raise Damaged(f"{folder}: {explained(folder, rounds, missing)}")
    kept = [session.manifest(round) for round in rounds]
    if not kept and isinstance(session.parent, dict) and session.parent.get("round"):
        raise SessionUnreadable(
            f"{folder} is a fork that was interrupted while it was made. Remove it, then fork again: "
            f"`htfl-sim rm {layout.typed(folder)}`."
        )
    try:
        raw, text, tail, strays = _course(folder, kept)
        torn = _torn_events(folder)
        lost = _lost_events(folder, left) if torn == 0 else []
    except Damaged as error:
        raise Damaged(f"{folder}: {error} Restore it from a backup.") from error
    kept = [manifest for manifest in kept if manifest not in strays]
    if kept:
        # After a crash the newest checkpoint is read in full: a flush may have failed unseen.
        for name in kept[-1].states:
            session.check(kept[-1], name, thorough=not lock.is_closed(left))
    return Found(kept, strays, raw, text, tail, torn, warning(folder, rounds, missing) + lost)


def mend(folder: Path, found: Found, may: May) -> list[str]:
    """Bring a session that is owned into order; returns what was amiss, as sentences."""
    for name in FOLDERS:
        may()
        files.make_folder(folder, name)
    mended = [*found.warnings, *_mend_ledger(folder, found, may), *_mend_events(folder, found.torn, may)]
    for stray in found.strays:
        may()
        files.remove(folder, manifests.path(stray.round))
        mended.append(
            f"{manifests.path(stray.round)} is not of this session's course: an owner wrote it after it had been "
            "displaced. It was removed."
        )
    usable, lost = _unfinished(folder, found.newest, may)
    _sweep(folder, found.kept, usable, may)
    return mended + lost


def _refuse_links(folder: Path) -> None:
    """No link, and no other thing, may stand where the store's folders are, at any level."""
    inside = (f"{OBJECTS}/{name}" for name in files.listed(folder, OBJECTS) if is_object_folder(name))
    for name in (*FOLDERS, *inside):
        found = files.look(folder, name)
        if found is not None and not files.is_folder(found):
            raise Damaged(f"{folder}: {name} is not a folder; links are not followed. Remove it.")


def _course(folder: Path, kept: list[Manifest]) -> tuple[bytes, bytes, bytes, list[Manifest]]:
    """The ledger as it is, its part that the checkpoints vouch for, the rest; and which of them are not of it.

    An owner that is displaced in the very instant in which it links a manifest may leave one behind. The newest
    counts as such only if no event tells of it and the ledger that it speaks of is not there.
    """
    raw = ledger.read(folder, kept[-1] if kept else None)
    course = kept
    try:
        text, tail = ledger.recover(raw, kept)
    except Damaged:
        told = ledger.last_checkpoint(folder)
        if len(kept) < 2 or told is None or told > kept[-2].round:
            raise
        course = kept[:-1]
        text, tail = ledger.recover(raw, course)
    strays = [manifest for manifest in kept if manifest not in course or not ledger.belongs(text, manifest)]
    return raw, text, tail, strays


def _torn_events(folder: Path) -> int | None:
    try:
        return ledger.torn_events(folder)
    except FileNotFoundError:
        return None


def _lost_events(folder: Path, left: Json | None) -> list[str]:
    """Whether the events are as the last owner left them, if it said how that was."""
    if left is None or not lock.is_closed(left) or "events" not in left:
        return []
    if asdict(LineWriter(folder, EVENTS).prefix) == left["events"]:
        return []
    return [f"{EVENTS} is not as it was left: lines of it were changed, added or lost."]


def _mend_ledger(folder: Path, found: Found, may: May) -> Iterator[str]:
    if found.ledger == found.raw and files.look(folder, LEDGER) is not None:
        return
    may()
    files.replace(folder, LEDGER, found.ledger)
    files.sync_folder(folder)
    if is_rebuilt := found.raw[: len(found.ledger)] != found.ledger:
        yield f"{LEDGER} was torn or altered; it was rebuilt from the checkpoints."
    if lost := ledger.whole_records(found.tail):
        rounds = " to ".join(str(record.get("round")) for record in (lost[0], lost[-1])[: len(lost)])
        yield f"The ledger went beyond the last checkpoint; computed again: round {rounds}."
    elif found.tail and not is_rebuilt:  # else these bytes may be those of an altered line
        yield f"{LEDGER} had a torn line after the last checkpoint; it was cut off."


def _mend_events(folder: Path, torn: int | None, may: May) -> Iterator[str]:
    if torn is None:
        may()
        files.replace(folder, EVENTS, b"")
        yield f"{EVENTS} was gone; it begins anew."
    elif torn:
        may()
        files.cut(folder, EVENTS, torn)
        yield f"{EVENTS} was torn; its whole lines were kept."


def _unfinished(folder: Path, newest: int, may: May) -> tuple[list[UnfinishedRound], list[str]]:
    """The unfinished round after the newest checkpoint's, if it is whole; all others are removed."""
    usable, lost = [], []
    for round in manifests.rounds(folder, PARTIAL):
        try:
            found = manifests.read_unfinished(folder, round)
            if round == newest + 1:
                for ref in found.states.values():
                    objects.check(folder, ref)
                usable.append(found)
                continue
            reason = (
                f"{manifests.path(round, PARTIAL)} does not follow round {newest}, the newest checkpoint's"
            )
        except Damaged as error:
            reason = str(error).removesuffix(".")
        _remove(folder, manifests.path(round, PARTIAL), may)
        if round > newest:  # else the round was finished, and only this was left to do
            lost.append(f"{reason}; the finished clients of round {round} are computed again.")
    return usable, lost


def _sweep(folder: Path, kept: list[Manifest], usable: list[UnfinishedRound], may: May) -> None:
    """Remove what belongs to no commit; objects only if a manifest shows that those are not lost."""
    for name in files.names(folder, TMP):
        _remove(folder, f"{TMP}/{name}", may)
    named: list[Manifest | UnfinishedRound] = [*kept, *usable]
    used = {ref.sha256 for each in named for ref in each.states.values()}
    for ref in objects.present(folder) if kept else ():
        if ref.sha256 not in used:
            may()
            files.remove(folder, ref.name)


def _remove(folder: Path, name: str, may: May) -> None:
    if files.is_folder(files.look(folder, name)):
        raise SessionUnreadable(f"{folder / name} is a folder the store did not make. Move it away.")
    may()
    files.remove(folder, name)
