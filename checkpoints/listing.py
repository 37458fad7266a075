"""What a listing of many sessions needs: which there are, what each came to last, what each takes on disk."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpoints import files, ledger, limits, lock
from checkpoints.errors import Damaged, DiskError
from checkpoints.layout import LEDGER, MANIFESTS, SESSION, is_private
from checkpoints.manifests import Manifest
from checkpoints.reader import SessionReader, groups, sessions
from checkpoints.schema import parse

TAIL = 1 << 16
"""Bytes first read from the end of a ledger; a line longer than that is read with four times as many."""


def is_session(folder: Path) -> bool:
    """Whether a folder has been made a session; not whether it is whole."""
    try:
        return files.look(folder, SESSION) is not None
    except (Damaged, DiskError):
        return False


def session_folders(folder: Path) -> list[Path]:
    """The sessions under `folder` and in its groups, by name, also those that lost their session.json.

    Raises DiskError when the folder is there and cannot be read.
    """
    with files.storage(folder):
        places = (folder, *groups(folder)) if folder.is_dir() else ()
        found = [path for place in places for path in place.iterdir()]
    orphans = {path for path in found if not is_private(path.name) and _has_checkpoints(path)}
    return sorted(orphans | set(sessions(folder)))


def mentions(folder: Path, *texts: str, any_of: Sequence[str] = ()) -> bool:
    """Whether session.json has all of these texts, and one of `any_of`, if there are any.

    Most sessions can so be left out without being decoded.
    """
    try:
        written = files.read(folder, SESSION, cap=limits.SESSION)
    except (FileNotFoundError, Damaged, DiskError):
        return False
    one_of = not any_of or any(text.encode() in written for text in any_of)
    return one_of and all(text.encode() in written for text in texts)


def last_record(session: SessionReader, newest: Manifest | None) -> Mapping[str, Any] | None:
    """The last round's record, without decoding the rest of the ledger; None before the first round.

    It is the ledger's last whole line, unless that is torn or behind `newest`, the newest checkpoint. All bytes of the
    ledger are hashed first. Raises Damaged like `SessionReader.records`.
    """
    kept = newest.record if newest else None
    if not ledger.is_as_written(session.folder, newest, lock.legible_note(session.folder)):
        lines = session.lines()
        return parse(lines[-1], LEDGER) if lines else None
    with suppress(Damaged, FileNotFoundError):
        line = parse(_last_line(session.folder), LEDGER)
        session.check_record(line)
        if kept is None or line["round"] >= kept["round"]:
            return line
    return kept


def first_record(
    session: SessionReader, holds: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any] | None:
    """The first record for which `holds` is true, as it is for all later ones; None if there is none.

    A search by halves reads a few lines of the ledger only.
    """
    with suppress(Damaged, FileNotFoundError), files.open_regular(session.folder, LEDGER) as fd:
        found, first, last = None, 0, os.fstat(fd).st_size
        while first < last:
            start, line = _line_at(fd, first, (first + last) // 2, last)
            record = parse(line, LEDGER) if line is not None else None
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


def _has_checkpoints(folder: Path) -> bool:
    try:
        return files.is_folder(files.look(folder, MANIFESTS))
    except (Damaged, DiskError):
        return False


def _last_line(folder: Path) -> bytes:
    """The last whole line of the ledger, without its end; empty when there is none."""
    with files.open_regular(folder, LEDGER) as fd:
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
