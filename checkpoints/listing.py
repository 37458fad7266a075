"""What a listing of many sessions needs: which there are, what each came to last, what each takes on disk."""

import os
from contextlib import suppress
from pathlib import Path

from checkpoints import files, naming
from checkpoints.errors import Damaged
from checkpoints.layout import LEDGER, MANIFESTS, SESSION
from checkpoints.manifests import Manifest
from checkpoints.reader import sessions
from checkpoints.seal import Json, parse

TAIL = 1 << 16
"""Bytes first read from the end of a ledger; a line longer than that is read with four times as many."""


def is_session(folder: Path) -> bool:
    """Whether a folder has been made a session; not whether it is whole."""
    return (folder / SESSION).is_file()


def session_folders(folder: Path) -> list[Path]:
    """The sessions under `folder` and in its groups, by name, also those that lost their session.json.

    Raises DiskError when the folder is there and cannot be read.
    """
    if not folder.is_dir():
        return []
    with files.storage(folder):
        places = (folder, *naming.groups(folder))
        orphans = {path for place in places for path in place.iterdir() if (path / MANIFESTS).is_dir()}
    return sorted(orphans | set(sessions(folder)))


def last_record(folder: Path, newest: Manifest | None) -> Json | None:
    """The last round's record, without reading the rest of the ledger; None before the first round.

    It is the ledger's last whole line, unless that is damaged or behind `newest`, the newest checkpoint.
    """
    kept = newest.record if newest else None
    line = None
    with suppress(Damaged, FileNotFoundError):
        line = parse(_last_line(folder), LEDGER)
    return kept if line is None or (kept and line.get("round", 0) < kept["round"]) else line


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
    with files.open_regular(folder, LEDGER) as fd:
        size, wanted = os.fstat(fd).st_size, TAIL
        while True:
            text = os.pread(fd, wanted, max(0, size - wanted))
            before, _, _ = text.rpartition(b"\n")
            if b"\n" in before or wanted >= size:
                return before.rpartition(b"\n")[2]
            wanted *= 4
