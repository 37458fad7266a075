"""What opening does before anything is written: refuse damage, sweep what a crash left, mend the ledger."""

from collections.abc import Iterator
from pathlib import Path

from checkpoints import events, files, ledger, lock, objects, unfinished_round
from checkpoints.errors import Damaged, SessionUnreadable
from checkpoints.layout import EVENTS, FOLDERS, LEDGER, TMP
from checkpoints.manifests import Manifest
from checkpoints.reader import SessionReader
from checkpoints.unfinished_round import UnfinishedRound


def recover(folder: Path) -> list[str]:
    """Bring a session whose lock is held into order; returns what was mended, as sentences.

    Raises Damaged, before anything is removed, when a manifest or an object of the newest checkpoint is not
    what was written.
    """
    _refuse_links(folder)
    session = SessionReader(folder)
    kept = [session.manifest(round) for round in session.rounds()]
    if kept:
        # After a crash the newest checkpoint is read in full: a flush may have failed unseen.
        thorough = not _ended_cleanly(folder)
        for name in kept[-1].states:
            session.check(kept[-1], name, thorough=thorough)
    elif isinstance(session.parent, dict) and session.parent.get("round"):
        raise SessionUnreadable(
            f"{folder} is a fork that was interrupted while it was made. Remove the folder, then fork again."
        )
    try:
        mended = [*_mend_ledger(folder, kept), *_mend_events(folder)]
    except Damaged as error:
        raise Damaged(f"{folder}: {error} Restore it from a backup.") from error
    usable, lost = _unfinished(folder, kept[-1].round if kept else 0)
    _sweep(folder, kept, usable)
    return mended + lost


def _refuse_links(folder: Path) -> None:
    for name in FOLDERS:
        path = folder / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise Damaged(f"{folder}: {name} is not a folder; links are not followed. Remove it.")
        files.make_folder(path)


def _ended_cleanly(folder: Path) -> bool:
    try:
        note = lock.read_note(folder)
    except Damaged:
        return False
    return note is not None and note.get("closed") is True


def _mend_ledger(folder: Path, kept: list[Manifest]) -> Iterator[str]:
    raw = ledger.read(folder)
    text, tail = ledger.recover(raw, kept)
    if text == raw and (folder / LEDGER).exists():
        return
    files.replace(folder, LEDGER, text)
    files.sync_folder(folder)
    if raw[: len(text)] != text:
        yield f"{LEDGER} was torn or altered; it was rebuilt from the checkpoints."
    if lost := ledger.whole_records(tail):
        rounds = " to ".join(str(record.get("round")) for record in (lost[0], lost[-1])[: len(lost)])
        yield f"The ledger went beyond the last checkpoint; computed again: round {rounds}."
    elif tail:
        yield f"{LEDGER} had a torn line after the last checkpoint; it was cut off."


def _mend_events(folder: Path) -> Iterator[str]:
    raw = events.read_raw(folder)
    sound, torn = events.split(raw)
    if torn or not (folder / EVENTS).exists():
        files.replace(folder, EVENTS, sound)
        yield f"{EVENTS} was torn; its whole lines were kept."


def _unfinished(folder: Path, newest: int) -> tuple[list[UnfinishedRound], list[str]]:
    """The unfinished round after the newest checkpoint's, if it is whole; all others are removed."""
    usable, lost = [], []
    for round in unfinished_round.rounds(folder):
        try:
            found = unfinished_round.read(folder, round)
            if round == newest + 1:
                for ref in found.states.values():
                    objects.read(folder, ref)
                usable.append(found)
                continue
            reason = f"{unfinished_round.path(round)} does not follow round {newest}, the newest checkpoint's"
        except Damaged as error:
            reason = str(error).removesuffix(".")
        _remove(folder / unfinished_round.path(round))
        if round > newest:  # else the round was finished, and only this was left to do
            lost.append(f"{reason}; the finished clients of round {round} are computed again.")
    return usable, lost


def _sweep(folder: Path, kept: list[Manifest], usable: list[UnfinishedRound]) -> None:
    """Remove what belongs to no commit; objects only if a manifest shows that those are not lost."""
    for path in (folder / TMP).iterdir():
        _remove(path)
    named: list[Manifest | UnfinishedRound] = [*kept, *usable]
    used = {ref.sha256 for each in named for ref in each.states.values()}
    for ref in objects.present(folder) if kept else ():
        if ref.sha256 not in used:
            files.remove(folder / ref.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        raise SessionUnreadable(f"{path} is a folder the store did not make. Move it away.")
    files.remove(path)
