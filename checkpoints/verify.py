"""The auditor: reads every byte of a session and says what is not as it was written."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from checkpoints import events, files, ledger, lock, mailbox, manifests, objects, unfinished_round
from checkpoints.errors import Damaged, SessionUnreadable
from checkpoints.layout import (
    CONTROL,
    DONE,
    EVENTS,
    FOLDERS,
    INBOX,
    LEDGER,
    LOCK,
    MANIFESTS,
    OBJECTS,
    OWNER,
    PARTIAL,
    SESSION,
    TMP,
    manifest_round,
    object_parts,
)
from checkpoints.manifests import Manifest
from checkpoints.objects import ObjectRef
from checkpoints.reader import read_document
from checkpoints.seal import unseal
from checkpoints.tensors import read_header
from checkpoints.unfinished_round import UnfinishedRound

_KNOWN = {SESSION, OWNER, LOCK, LEDGER, EVENTS, OBJECTS, MANIFESTS, TMP, PARTIAL, CONTROL}


@dataclass(frozen=True)
class Finding:
    """Something in the session directory, at `path` in it: damage, or a note on what does no harm."""

    path: str
    severity: Literal["damage", "note"]
    message: str


def verify(folder: Path) -> list[Finding]:
    """Everything in a session directory that is not as it was written; empty when all is well.

    Looks at each byte of session.json, the manifests, the objects, unfinished rounds, the ledger, the events,
    commands, answers and the owner's note. While an owner writes, the line it is adding is a note. Raises
    SessionUnreadable when there is no session, UnsupportedVersion, or DiskError.
    """
    findings: list[Finding] = []
    try:
        read_document(folder)
    except Damaged as error:
        findings.append(_damage(SESSION, error))
    live = lock.is_held(folder)
    kept, unreadable = _read_manifests(folder)
    findings += unreadable
    unfinished, unusable = _read_unfinished(folder, kept[-1].round if kept else 0, live)
    findings += unusable
    findings += _objects(folder, [*kept, *unfinished], live)
    findings += _ledger(folder, kept, live)
    findings += _events(folder, live)
    findings += _owner(folder)
    findings += _mailbox(folder, live)
    findings += _strays(folder, live)
    return findings


def _read_manifests(folder: Path) -> tuple[list[Manifest], list[Finding]]:
    kept, findings = [], []
    for round in manifests.rounds(folder):
        try:
            kept.append(manifests.read(folder, round))
        except Damaged as error:
            findings.append(_damage(manifests.path(round), error))
        except FileNotFoundError:
            continue  # retired by a live owner meanwhile
    return kept, findings


def _read_unfinished(folder: Path, newest: int, live: bool) -> tuple[list[UnfinishedRound], list[Finding]]:
    usable, findings = [], []
    for name in _names(folder, PARTIAL):
        where, round = f"{PARTIAL}/{name}", manifest_round(name)
        try:
            if round is None:
                findings.append(_stray(where))
            elif (found := unfinished_round.read(folder, round)).round == newest + 1:
                usable.append(found)
            elif not live:
                note = (
                    f"does not follow round {newest}, the newest checkpoint's; the next opening removes it."
                )
                findings.append(Finding(where, "note", f"{where} {note}"))
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
            read_header(objects.read(folder, ref), ref.name)
        except Damaged as error:
            there = {*manifests.rounds(folder), *map(manifest_round, _names(folder, PARTIAL))}
            still = [use for use in users if not live or use[0] in there]
            if still:
                yield Finding(ref.name, "damage", f"{_users(still)}: {error}")
    used = {ref.sha256 for ref in uses}
    for ref in objects.present(folder):
        if ref.sha256 not in used:
            yield from _unused(folder, ref, live)


def _users(users: list[tuple[int, str]]) -> str:
    """Where an object belongs: its state, and the rounds it stayed the same in."""
    round, name = users[0]
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return f"round {round}, {name}{more}"


def _unused(folder: Path, ref: ObjectRef, live: bool) -> Iterator[Finding]:
    try:
        objects.read(folder, ref)
        note = "belongs to no checkpoint" + (" yet." if live else "; the next opening removes it.")
        yield Finding(ref.name, "note", f"{ref.name} {note}")
    except Damaged as error:
        if not live or (folder / ref.name).exists():
            yield _damage(ref.name, error)


def _ledger(folder: Path, kept: list[Manifest], live: bool) -> Iterator[Finding]:
    note = _sound_note(folder)
    try:
        raw = ledger.read(folder)
        # The newest manifest's hash covers all that comes before its own line.
        text, tail = ledger.recover(raw, kept[-1:])
    except Damaged as error:
        yield _damage(LEDGER, error)
        return
    if raw[: len(text)] != text:
        torn = text.startswith(raw)
        what = "ends before the newest checkpoint's line" if torn else "was altered in its last line"
        message = f"{LEDGER} {what}; the next opening rebuilds it."
        yield Finding(LEDGER, "note" if torn and live else "damage", message)
    elif tail and not live:
        yield from _tail(raw, tail, note)


def _tail(raw: bytes, tail: bytes, note: dict[str, object] | None) -> Iterator[Finding]:
    """Lines after the newest checkpoint: vouched for by the owner's last note if it closed, else by none."""
    vouched = note.get("ledger") if note else None
    whole = ledger.whole_records(tail)
    if isinstance(vouched, dict) and note and note.get("closed") is True:
        if (vouched.get("bytes"), vouched.get("sha256")) != (len(raw), hashlib.sha256(raw).hexdigest()):
            yield Finding(LEDGER, "damage", f"{LEDGER} is damaged after the newest checkpoint's line.")
    elif len(whole) != len(tail.splitlines()):
        yield Finding(LEDGER, "damage", f"{LEDGER} has a torn line at its end; the next opening cuts it off.")
    if whole:
        yield Finding(
            LEDGER,
            "note",
            f"{LEDGER} has {len(whole)} rounds without a checkpoint; a resume computes them again.",
        )


def _events(folder: Path, live: bool) -> Iterator[Finding]:
    try:
        sound, torn = events.split(events.read_raw(folder))
    except Damaged as error:
        yield _damage(EVENTS, error)
        return
    for number, line in enumerate(sound.splitlines(keepends=True), start=1):
        try:
            unseal(line, f"{EVENTS} line {number}")
        except Damaged as error:
            yield _damage(EVENTS, error)
    if torn:
        yield Finding(EVENTS, "note" if live else "damage", f"{EVENTS} ends in a torn line.")


def _owner(folder: Path) -> Iterator[Finding]:
    try:
        if lock.read_note(folder) is None:
            yield Finding(OWNER, "note", f"{OWNER} is not there; the next opening writes it.")
    except Damaged as error:
        yield _damage(OWNER, error)
    try:
        files.read(folder, LOCK, cap=0)
    except FileNotFoundError:
        yield Finding(LOCK, "note", f"{LOCK} is not there; the next opening makes it.")
    except Damaged as error:
        yield _damage(LOCK, error)


def _mailbox(folder: Path, live: bool) -> Iterator[Finding]:
    for place, read in ((INBOX, mailbox.read_command), (DONE, mailbox.read_answer)):
        for name in _names(folder, place):
            where = f"{place}/{name}"
            try:
                if (id := mailbox.file_id(name)) is not None:
                    read(folder, id)
                elif place == DONE or mailbox.file_id(name, "tmp") is None:
                    yield _stray(where)
                elif not live:
                    yield Finding(where, "note", "being written, or abandoned; a later opening removes it.")
            except Damaged as error:
                yield _damage(where, error)
            except FileNotFoundError:
                continue  # answered meanwhile


def _sound_note(folder: Path) -> dict[str, object] | None:
    try:
        return lock.read_note(folder)
    except Damaged:
        return None


def _strays(folder: Path, live: bool) -> Iterator[Finding]:
    for name in (LEDGER, EVENTS):
        if not (folder / name).exists():
            yield Finding(name, "damage", f"{name} is missing.")
    for name in FOLDERS:
        path = folder / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            yield Finding(name, "damage", f"{name} is not a folder; links are not followed.")
    for path in sorted(folder.iterdir()):
        if path.name not in _KNOWN:
            yield _stray(path.name)
    for name in _names(folder, MANIFESTS):
        if manifest_round(name) is None:
            yield _stray(f"{MANIFESTS}/{name}")
    for sub in _inside(folder / OBJECTS):
        for path in _inside(sub) if sub.is_dir() and not sub.is_symlink() else [sub]:
            if not _is_object(folder, path):
                yield _stray(path.relative_to(folder).as_posix())
    for path in _inside(folder / TMP):
        if not live:
            yield Finding(f"{TMP}/{path.name}", "note", "left by a crash; the next opening removes it.")


def _names(folder: Path, name: str) -> list[str]:
    """What is in a folder of the session; a link in its place is told of as a stray."""
    try:
        return sorted(files.names(folder, name))
    except (FileNotFoundError, Damaged):
        return []


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _is_object(folder: Path, path: Path) -> bool:
    try:
        return path == folder.joinpath(*object_parts(path.stem))
    except ValueError:
        return False


def _stray(where: str) -> Finding:
    return Finding(where, "note", "not a file of the session store.")


def _damage(path: str, error: SessionUnreadable) -> Finding:
    return Finding(path, "damage", str(error))
