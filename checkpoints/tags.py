"""Tags and the note: the words that a session is marked with, in tags.json. No round depends on them."""

import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from checkpoints import files, limits, lock
from checkpoints.errors import Damaged, Locked
from checkpoints.layout import TAG, TAGS, TMP
from checkpoints.reader import read_document
from checkpoints.schema import TagsDocument, seal, unseal, well_formed


class Marks(NamedTuple):
    """The tags in order, and the note, which is empty where nobody wrote one."""

    tags: tuple[str, ...] = ()
    note: str = ""


def check_tag(tag: str) -> str:
    """The word, if it is a tag; raises ValueError, saying what one is."""
    if not TAG.fullmatch(tag):
        raise ValueError(
            f"{tag!r} is not a tag: use up to 40 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return tag


def check_note(note: str) -> str:
    """The text, if it is a note; raises ValueError, saying what one is."""
    if not note.isprintable() or len(note) > limits.NOTE_LETTERS:
        raise ValueError(
            f"a note is one line of up to {limits.NOTE_LETTERS} letters, and this one has {len(note)}"
            if note.isprintable()
            else "a note is one line without control characters"
        )
    return note


def read(folder: Path) -> Marks:
    """What a session is marked with; nothing where nobody has. Raises Damaged or DiskError."""
    try:
        document = unseal(files.read(folder, TAGS, cap=limits.TAGS), TAGS)
    except FileNotFoundError:
        return Marks()
    found = well_formed(TagsDocument, document, f"{folder}: {TAGS} is not one that htfl-sim wrote")
    return Marks(tuple(sorted(set(found["tags"]))), found.get("note", ""))


def tags_of(folder: Path) -> tuple[str, ...]:
    """Only the tags. Raises like `read`."""
    return read(folder).tags


def change(
    folder: Path, add: Iterable[str], remove: Iterable[str], may: Callable[[], None], note: str | None = None
) -> Marks:
    """Mark a session with more words, and no longer with others; what it is marked with now.

    `note` replaces the note; None leaves it. `may` is the owner's fence. A damaged file is replaced. Raises ValueError
    for what is no tag or no note, for too many, and where what has the file's name is no plain file; DiskError.
    """
    found = files.look(folder, TAGS)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{TAGS} is not a plain file; remove it")
    try:
        before = read(folder)
    except Damaged:
        before = Marks()
    tags = tuple(sorted({*before.tags, *map(check_tag, add)} - set(remove)))
    after = Marks(tags, before.note if note is None else check_note(note))
    if len(after.tags) > limits.TAG_WORDS:
        raise ValueError(f"a session has at most {limits.TAG_WORDS} tags")
    if found is None and after == Marks():
        return after
    may()
    document = {"tags": list(after.tags)} | ({"note": after.note} if after.note else {})
    files.replace(folder, TAGS, seal(document, limits.TAGS, TAGS))
    files.sync_folder(folder)
    return after


def mark(folder: Path, add: Iterable[str], remove: Iterable[str] = (), note: str | None = None) -> Marks:
    """Change the tags of a session that nobody runs, and its note unless that is None; all that it is marked with.

    A session that is run takes the command `tag`.

    The lock is held meanwhile, but nothing else is written: what a crash left, the next opening is to find, and the
    state stays what it was. Raises ValueError for what is no tag or no note, SessionUnreadable, Locked, Damaged or
    DiskError.
    """
    read_document(folder)
    with lock.holding(folder):
        before = lock.legible_note(folder)

        def may() -> None:
            # A lock may not reach another machine; whoever begins to own the session there writes a note.
            if (now := lock.legible_note(folder)) != before:
                raise Locked(f"{folder} was taken by {lock.holder(now)} just now.")

        files.make_folder(folder, TMP)
        return change(folder, add, remove, may, note)
