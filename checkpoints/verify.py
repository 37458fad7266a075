"""The auditor: reads every byte of a session and says what is not as it was written."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from checkpoints import directories, files, layout, ledger, lock, mailbox, manifests, objects
from checkpoints.files import Damaged, SessionUnreadable
from checkpoints.ledger import LineWriter, explained, missing_checkpoints
from checkpoints.manifests import Manifest, UnfinishedRound
from checkpoints.reader import read_document
from checkpoints.schema import Json, ObjectRef

_KNOWN = {*layout.FILES, *layout.FOLDERS, layout.EARLIER_POSTED}


@dataclass(frozen=True)
class Finding:
    """Something in the session directory, at `path` in it: damage, or a note on what does no harm."""

    path: str
    severity: Literal["damage", "note"]
    message: str


def verify(folder: Path) -> list[Finding]:
    """Everything in a session directory that is not as it was written, or is not there; reads every byte.

    While an owner writes, the line it is adding is a note. Raises SessionUnreadable, UnsupportedVersion, or DiskError.
    """
    findings: list[Finding] = []
    try:
        read_document(folder)
    except Damaged as error:
        findings.append(_damage(layout.SESSION, error))
    try:
        live = lock.is_held(folder)
    except Damaged:
        live = False  # told of with the owner's note
    left = None if live else lock.legible_note(folder)  # what the last owner left, if nobody goes on
    closed = left if lock.is_closed(left) else None
    kept: list[Manifest] = []

    def read(round: int) -> None:
        kept.append(manifests.read(folder, round))

    for round in _kept_rounds(folder):  # one may be retired by a live owner meanwhile
        findings += _tried(manifests.path(round), partial(read, round))
    rounds = _kept_rounds(folder)
    # Of a live session the events may be a step ahead of the listing.
    if missing := [] if live else missing_checkpoints(folder, rounds, left):
        findings.append(_damage(manifests.path(missing[-1]), explained(folder, rounds, missing)))
    unfinished, unusable = _read_unfinished(folder, kept[-1].round if kept else 0, live)
    findings += unusable
    findings += _objects(folder, [*kept, *unfinished], live)
    findings += _ledger(folder, kept, closed, live)
    findings += _events(folder, closed, live)
    findings += _owner(folder)
    findings += _mailbox(folder, kept, live)
    findings += _strays(folder, live)
    return findings


def _read_unfinished(folder: Path, newest: int, live: bool) -> tuple[list[UnfinishedRound], list[Finding]]:
    usable, findings = [], []
    for name in files.listed(folder, layout.PARTIAL):
        where, round = f"{layout.PARTIAL}/{name}", layout.manifest_round(name)
        try:
            if round is None:
                findings.append(_stray(where))
            elif (found := manifests.read_unfinished(folder, round)).round == newest + 1:
                usable.append(found)
            elif not live:
                remark = (
                    f"does not follow round {newest}, the newest checkpoint's; the next opening removes it."
                )
                findings.append(_note(where, f"{where} {remark}"))
        except Damaged as error:
            findings.append(_damage(where, error))
        except FileNotFoundError:
            continue  # the round was finished meanwhile
    return usable, findings


def _objects(folder: Path, named: list[Manifest | UnfinishedRound], live: bool) -> Iterator[Finding]:
    uses: dict[ObjectRef, list[tuple[int, str]]] = {}
    for each in named:
        for name, ref in each.states.items():
            uses.setdefault(ref, []).append((each.round, name))
    for ref, users in uses.items():
        try:
            objects.check(folder, ref)
        except Damaged as error:
            there = {*_kept_rounds(folder), *map(layout.manifest_round, files.listed(folder, layout.PARTIAL))}
            still = [use for use in users if not live or use[0] in there]
            if still:
                more = f" and {len(still) - 1} more" if len(still) > 1 else ""
                yield _damage(ref.name, f"round {still[0][0]}, {still[0][1]}{more}: {error}")
    used = {ref.sha256 for ref in uses}
    for ref in objects.present(folder) if _is_there(folder, layout.OBJECTS) else ():
        if ref.sha256 in used:
            continue
        try:
            objects.check(folder, ref)
            remark = "belongs to no checkpoint" + (" yet." if live else "; the next opening removes it.")
            yield _note(ref.name, f"{ref.name} {remark}")
        except Damaged as error:
            if not live or files.look(folder, ref.name) is not None:
                yield _damage(ref.name, error)


def _ledger(folder: Path, kept: list[Manifest], closed: Json | None, live: bool) -> Iterator[Finding]:
    try:
        raw = ledger.read(folder, kept[-1] if kept else None)
        text, tail = ledger.recover(raw, kept)
    except Damaged as error:
        yield _damage(layout.LEDGER, error)
        return
    for manifest in kept[:-1]:
        if not ledger.belongs(text, manifest):
            message = "is not of this session's course: an owner wrote it after it had been displaced."
            yield _damage(manifests.path(manifest.round), message)
    if raw[: len(text)] != text:
        torn = text.startswith(raw)
        what = ledger.altered(raw, text, None) or f"{layout.LEDGER} ends before the newest checkpoint's line."
        what += " The next opening rebuilds it."
        yield _note(layout.LEDGER, what) if torn and live else _damage(layout.LEDGER, what)
    elif not live:
        # The owner's last note vouches for lines after the newest checkpoint, if it closed.
        whole = ledger.whole(tail)
        if closed and "ledger" in closed and _is_there(folder, layout.LEDGER):
            if asdict(LineWriter(folder, layout.LEDGER).prefix) != closed["ledger"]:
                what = "is not as it was left after the newest checkpoint's line."
                yield _damage(layout.LEDGER, f"{layout.LEDGER} {what}")
        elif len(whole) != len(tail.splitlines()):
            what = "has a torn line at its end; the next opening cuts it off."
            yield _damage(layout.LEDGER, f"{layout.LEDGER} {what}")
        if whole:
            what = f"has {len(whole)} rounds without a checkpoint; a resume computes them again."
            yield _note(layout.LEDGER, f"{layout.LEDGER} {what}")


def _events(folder: Path, closed: Json | None, live: bool) -> Iterator[Finding]:
    faults = ledger.read_events(folder)[1]
    yield from (_damage(layout.EVENTS, fault) for fault in faults)
    if not _is_there(folder, layout.EVENTS):
        return
    try:
        if ledger.torn_events(folder):
            yield (_note if live else _damage)(layout.EVENTS, f"{layout.EVENTS} ends in a torn line.")
        elif (lost := ledger.lost_events(folder, closed)) is not None:
            yield _damage(layout.EVENTS, lost)
    except Damaged as error:
        yield _damage(layout.EVENTS, error)


def _owner(folder: Path) -> Iterator[Finding]:
    if _look(folder, layout.OWNER) is None:
        yield _note(layout.OWNER, f"{layout.OWNER} is not there; the next opening writes it.")
    yield from _tried(layout.OWNER, lambda: lock.read_note(folder))
    if _look(folder, layout.LOCK) is None:
        yield _note(layout.LOCK, f"{layout.LOCK} is not there; the next opening makes it.")
    yield from _tried(layout.LOCK, lambda: files.read(folder, layout.LOCK, cap=0))
    yield from _tried(layout.TAGS, lambda: directories.marks_of(folder))


def _mailbox(folder: Path, kept: list[Manifest], live: bool) -> Iterator[Finding]:
    for place, read in ((layout.INBOX, mailbox.read_command), (layout.DONE, mailbox.read_answer)):
        for name in files.listed(folder, place):
            where = f"{place}/{name}"
            if (id := mailbox.file_id(name)) is not None:
                yield from _tried(where, partial(read, folder, id))
            elif place == layout.DONE or mailbox.file_id(name, "tmp") is None:
                yield _stray(where)
            elif not live:
                yield _note(where, "being written, or abandoned; a later opening removes it.")
    for where in (layout.POSTED, layout.EARLIER_POSTED):
        yield from _tried(where, partial(mailbox.read_posted, folder, where))
    if (lost := mailbox.lost_control(folder)) is not None:
        yield _damage(layout.CONTROL, lost)
        return
    for number in mailbox.missing(folder, kept[-1].applied if kept else ()):
        message = f"command {number} was posted and is neither waiting nor answered: its file is gone."
        yield _damage(layout.CONTROL, message)


def _strays(folder: Path, live: bool) -> Iterator[Finding]:
    if not _is_there(folder, layout.LEDGER):
        yield _damage(layout.LEDGER, f"{layout.LEDGER} is missing.")
    for name in layout.FOLDERS:
        found = _look(folder, name)
        if found is not None and not files.is_folder(found):
            yield _damage(name, f"{name} is not a folder; links are not followed.")
    for place in ("", layout.CONTROL):
        for name in files.listed(folder, place):
            if (where := f"{place}/{name}" if place else name) not in _KNOWN:
                yield _stray(where)
    for name in files.listed(folder, layout.MANIFESTS):
        if layout.manifest_round(name) is None:
            yield _stray(f"{layout.MANIFESTS}/{name}")
    for sub in files.listed(folder, layout.OBJECTS):
        where = f"{layout.OBJECTS}/{sub}"
        if not files.is_folder(files.look(folder, where)):
            broken = layout.is_object_folder(sub)
            message = f"{where} is not a folder; links are not followed."
            yield _damage(where, message) if broken else _stray(where)
        for name in files.listed(folder, where):
            if layout.object_sha256(sub, name) is None:
                yield _stray(f"{where}/{name}")
    for name in () if live else files.listed(folder, layout.TMP):
        yield _note(f"{layout.TMP}/{name}", "left by a crash; the next opening removes it.")


def _kept_rounds(folder: Path) -> list[int]:
    """The rounds with a manifest; a link in the place of their folder is told of as a stray."""
    try:
        return manifests.rounds(folder)
    except Damaged:
        return []


def _look(folder: Path, name: str) -> os.stat_result | None:
    """What is there, a link being a link; what is behind one is not there."""
    try:
        return files.look(folder, name)
    except Damaged:
        return None


def _is_there(folder: Path, name: str) -> bool:
    """Whether a file or folder of the session is there, itself and not a link."""
    found = _look(folder, name)
    return found is not None and (stat.S_ISREG(found.st_mode) or files.is_folder(found))


def _tried(where: str, read: Callable[[], object]) -> Iterator[Finding]:
    """The damage that reading a file shows; nothing of one that is not there, or by now is no more."""
    try:
        read()
    except Damaged as error:
        yield _damage(where, error)
    except FileNotFoundError:
        return


def _stray(where: str) -> Finding:
    return _note(where, "not a file of the session store.")


def _note(path: str, message: str) -> Finding:
    return Finding(path, "note", message)


def _damage(path: str, what: str | SessionUnreadable) -> Finding:
    return Finding(path, "damage", str(what))
