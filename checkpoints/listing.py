"""What a listing of many sessions needs: which there are, what each came to last, what each takes on disk."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpoints import files, limits, naming
from checkpoints.errors import Damaged, DiskError
from checkpoints.layout import LEDGER, MANIFESTS, SESSION, is_private
from checkpoints.manifests import Manifest
from checkpoints.reader import SessionReader, sessions
from checkpoints.seal import parse

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
        places = (folder, *naming.groups(folder)) if folder.is_dir() else ()
        found = [path for place in places for path in place.iterdir()]
    orphans = {path for path in found if not is_private(path.name) and _has_checkpoints(path)}
    return sorted(orphans | set(sessions(folder)))


def last_record(session: SessionReader, newest: Manifest | None) -> Mapping[str, Any] | None:
    """The last round's record, without reading the rest of the ledger; None before the first round.

    It is the ledger's last whole line, unless that is damaged or behind `newest`, the newest checkpoint.
    """
    kept = newest.record if newest else None
    with suppress(Damaged, FileNotFoundError):
        line = parse(_last_line(session.folder), LEDGER)
        session.check_record(line)
        if kept is None or line["round"] >= kept["round"]:
            return line
    return kept


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
