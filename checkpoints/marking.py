"""Tagging a session that nobody runs."""

from collections.abc import Iterable
from pathlib import Path

from checkpoints import note
from checkpoints.retention import Retention
from checkpoints.store import Store


def mark(folder: Path, add: Iterable[str], remove: Iterable[str] = ()) -> tuple[str, ...]:
    """Change the tags of a session that nobody runs; all of them.

    A session that is run takes the command `tag` instead. Raises ValueError for what is no tag, Locked, Damaged or
    DiskError.
    """
    before = note.legible(folder)
    with Store.open(folder, retention=Retention(last=1 << 62)) as store:
        tags = store.tag(add, remove)
        store.close(str(before["state"]) if before is not None and note.is_closed(before) else "stopped")
    return tags
