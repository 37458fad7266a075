"""Marking a session that nobody runs, with tags and a note."""

from collections.abc import Iterable
from pathlib import Path

from checkpoints import files, lock, tags
from checkpoints.errors import Locked
from checkpoints.layout import TMP
from checkpoints.reader import read_document


def mark(folder: Path, add: Iterable[str], remove: Iterable[str] = (), note: str | None = None) -> tags.Marks:
    """Change the tags of a session that nobody runs, and its note unless that is None; all that it is marked with.

    A session that is run takes the command `tag`.

    The lock is held meanwhile, but nothing else is written: what a crash left, the next opening is to find, and the
    state stays what it was. Raises ValueError for what is no tag or no note, SessionUnreadable, Locked, Damaged or
    DiskError.
    """
    read_document(folder)
    owner = lock.Ownership.acquire(folder)
    try:
        before = lock.legible_note(folder)

        def may() -> None:
            # A lock may not reach another machine; whoever begins to own the session there writes a note.
            if (now := lock.legible_note(folder)) != before:
                raise Locked(f"{folder} was taken by {lock.holder(now)} just now.")

        files.make_folder(folder, TMP)
        return tags.change(folder, add, remove, may, note)
    finally:
        owner.let_go()
