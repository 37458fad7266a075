"""Tags: short words that a session is marked with, in tags.json. No round depends on them."""

import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from checkpoints import files, limits
from checkpoints.errors import Damaged
from checkpoints.layout import TAG, TAGS
from checkpoints.schema import TagsDocument, checked
from checkpoints.seal import seal, unseal


def check_tag(tag: str) -> str:
    """The word, if it is a tag; raises ValueError, saying what one is."""
    if not TAG.fullmatch(tag):
        raise ValueError(
            f"{tag!r} is not a tag: use up to 40 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return tag


def read(folder: Path) -> tuple[str, ...]:
    """What a session is marked with, in order; nothing where nobody has. Raises Damaged or DiskError."""
    try:
        document = unseal(files.read(folder, TAGS, cap=limits.TAGS), TAGS)
    except FileNotFoundError:
        return ()
    try:
        tags = checked(TagsDocument, document)["tags"]
    except ValueError as fault:
        raise Damaged(f"{folder}: {TAGS} is not one that htfl-sim wrote: {fault}.") from fault
    return tuple(sorted(set(tags)))


def change(
    folder: Path, add: Iterable[str], remove: Iterable[str], may: Callable[[], None]
) -> tuple[str, ...]:
    """Mark a session with more words, and no longer with others; what it is marked with now.

    `may` is the owner's fence. A damaged file is replaced. Raises ValueError for what is no tag, for too many, and
    where what has the file's name is no plain file; DiskError.
    """
    found = files.look(folder, TAGS)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{TAGS} is not a plain file; remove it")
    try:
        before = read(folder)
    except Damaged:
        before = ()
    after = tuple(sorted({*before, *map(check_tag, add)} - set(remove)))
    if len(after) > limits.TAG_WORDS:
        raise ValueError(f"a session has at most {limits.TAG_WORDS} tags")
    if found is None and not after:
        return after
    may()
    files.replace(folder, TAGS, seal({"tags": list(after)}, limits.TAGS, TAGS))
    files.sync_folder(folder)
    return after
