"""How a session's folder comes to be, gets another name, tags, and a note, and goes: each in one step.

It is made whole, and removed, in a hidden folder beside its place. Whoever uses that holds a lock on the folder itself,
which the kernel frees when the process dies: what a killed process leaves is a leftover.
"""

import os
import secrets
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints import files, layout, limits, lock, reader
from checkpoints.files import Damaged, DiskError, Locked, SessionUnreadable
from checkpoints.reader import groups, read_document, remains, session_folders
from checkpoints.schema import TagsDocument, seal, unseal, well_formed

# Making


def is_free(folder: Path) -> bool:
    """Whether a session can be made there: nothing is, or an empty folder. Raises DiskError."""
    with files.storage(folder):
        return not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir()))


def refuse_remains(folder: Path) -> None:
    """Raise SessionUnreadable if a session is there that lost its session.json, saying how it can be had back."""
    if folder.is_dir() and files.look(folder, layout.SESSION) is None and remains(folder):
        read_document(folder)


@contextmanager
def in_private(folder: Path) -> Iterator[Path]:
    """An empty hidden folder that becomes `folder` at the end, or is removed; a private one is taken as it is.

    Raises SessionUnreadable for a name that is taken, DiskError.
    """
    if layout.is_private(folder.name):
        yield folder
        return
    if not is_free(folder):
        refuse_remains(folder)
        raise SessionUnreadable(f"{folder} is there already. Choose another name.")
    place = folder.resolve()
    files.make_folders(place.parent)
    with _new_private(place) as private:
        try:
            yield private
            try:
                files.rename_folder(private, place)
            except FileExistsError:
                raise SessionUnreadable(
                    f"{folder} was made by another program meanwhile. Choose another name."
                ) from None
        except BaseException as error:
            with suppress(OSError):
                shutil.rmtree(private)
            if isinstance(error, DiskError | SessionUnreadable):  # nobody knows the private folder
                raise type(error)(str(error).replace(str(private), str(folder))) from error
            raise


def lay_out(folder: Path, session: Mapping[str, Any], ledger: bytes) -> lock.Ownership:
    """All that a session begins with, durable, and its owner: this process."""
    for name in layout.FOLDERS:
        files.make_folder(folder, name)
    owner = lock.Ownership.acquire(folder)
    try:
        owner.claim()
        files.replace(folder, layout.LEDGER, ledger)
        files.replace(folder, layout.EVENTS, b"")
        document = {"format": layout.FORMATS[0], "id": uuid.uuid4().hex, "created": lock.now(), **session}
        files.link_new(folder, layout.SESSION, seal(document, limits.SESSION, layout.SESSION))
        for name in (layout.CONTROL, ""):
            files.sync_folder(folder, name)
    except BaseException:
        owner.let_go()
        raise
    return owner


def remove(folder: Path, *, steal: bool = False) -> None:
    """Remove a session or a group that nobody runs, whole or damaged; forks keep what they share with it.

    `steal`: the machine that held it is dead. Raises SessionUnreadable for another folder, Locked, DiskError.
    """
    with _own(folder, "removed", steal) as place:
        private = _beside(place)
        files.rename_folder(place, private)
        shutil.rmtree(private)


def rename(folder: Path, name: str) -> Path:
    """Rename a session or a group that nobody runs, in one step; its new folder.

    Raises SessionUnreadable for a folder that is none and a name that is taken, Locked, DiskError.
    """
    target = folder.parent / name
    taken = SessionUnreadable(f"{target} is there already. Choose another name.")
    with _own(folder, "renamed") as place:
        if target.exists() or target.is_symlink():
            raise taken
        try:
            files.rename_folder(place, place.parent / name)
        except FileExistsError:
            raise taken from None
    return target


@contextmanager
def _own(folder: Path, done: str, steal: bool = False) -> Iterator[Path]:
    """The place of a session or a group whose lock and folder are held meanwhile. Nobody runs a session of a group."""
    place = folder.resolve()
    if folder.is_symlink() or place not in (*session_folders(place.parent), *groups(place.parent)):
        raise SessionUnreadable(
            f"{folder} is not a session's own folder, and no study's; nothing was {done}."
        )
    with lock.holding(place, steal=steal):
        for each in session_folders(place) if layout.is_group(place) else ():
            with lock.holding(each, steal=steal):
                pass  # one by one: there may be more than open files
        with files.storage(folder), _opened(place) as descriptor:
            _hold(descriptor)  # also when it gets another name
            yield place


# Hidden folders


@dataclass(frozen=True)
class Leftover:
    """A hidden folder. It is `in_use` while the process that makes or removes a session in it may live."""

    path: Path
    in_use: bool


def leftovers(folder: Path, *, steal: bool = False) -> list[Leftover]:
    """The hidden folders in a sessions folder and its groups, by path. `steal`: machines that used them are dead."""
    with files.storage(folder):
        found = []
        for path in sorted(reader.entries(folder)):
            if layout.is_private(path.name) and path.is_dir() and not path.is_symlink():
                with _opened(path) as descriptor:
                    found.append(Leftover(path, not _hold(descriptor) or _has_owner(path, steal)))
        return found


def remove_leftover(leftover: Leftover, *, steal: bool = False) -> None:
    """Remove a hidden folder that no living process uses. Raises Locked for one in use, and DiskError."""
    with files.storage(leftover.path), suppress(FileNotFoundError), _opened(leftover.path) as descriptor:
        if not _hold(descriptor) or _has_owner(leftover.path, steal):
            raise Locked(
                f"{leftover.path} is in use by {lock.holder(lock.legible_note(leftover.path))}. Wait until that "
                "process ends. If its machine is dead, add `steal=True`."
            )
        shutil.rmtree(leftover.path)


@contextmanager
def _new_private(place: Path) -> Iterator[Path]:
    """A new hidden folder beside `place`, held while this lasts. Raises DiskError."""
    while True:
        private = _beside(place)
        try:
            files.new_folder(private)
        except DiskError as error:  # nobody knows the hidden name
            raise DiskError(str(error).replace(str(private), str(place))) from error
        with suppress(FileNotFoundError):  # a removal of leftovers may come before the lock
            descriptor = _open(private)
            if _hold(descriptor) and private.exists():
                break
            os.close(descriptor)
    try:
        yield private
    finally:
        os.close(descriptor)


def _beside(place: Path) -> Path:
    return place.parent / layout.private_name(place.name, secrets.token_hex(8))


def _has_owner(path: Path, steal: bool) -> bool:
    """Whether a process owns the session in a hidden folder, or may do so on a machine that cannot be seen."""
    with suppress(Damaged):
        if lock.is_held(path):
            return True
    owner = lock.legible_note(path)
    if owner is None or steal:
        return False
    here = lock.is_in_sight(owner) and lock.is_alive(owner) and not lock.is_closed(owner)
    return here or lock.is_elsewhere(owner)


def _hold(descriptor: int) -> bool:
    return lock.flock(descriptor, probes=1)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = _open(folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


# Tags and the note


class Marks(NamedTuple):
    """The tags in order, and the note, which is empty where nobody wrote one."""

    tags: tuple[str, ...] = ()
    note: str = ""


def check_tag(tag: str) -> str:
    """The word, if it is a tag; raises ValueError, saying what one is."""
    if not layout.TAG.fullmatch(tag):
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


def marks_of(folder: Path) -> Marks:
    """What a session is marked with; nothing where nobody has. Raises Damaged or DiskError."""
    try:
        document = unseal(files.read(folder, layout.TAGS, cap=limits.TAGS), layout.TAGS)
    except FileNotFoundError:
        return Marks()
    found = well_formed(TagsDocument, document, f"{folder}: {layout.TAGS} is not one that htfl-sim wrote")
    return Marks(tuple(sorted(set(found["tags"]))), found.get("note", ""))


def tags_of(folder: Path) -> tuple[str, ...]:
    return marks_of(folder).tags


def change_marks(
    folder: Path, add: Iterable[str], remove: Iterable[str], may: Callable[[], None], note: str | None = None
) -> Marks:
    """Add and remove tags, and replace the note unless it is None. `may` is the owner's fence; damage is replaced.

    Raises ValueError for an invalid or a surplus tag, an invalid note, and a file that is no plain one; DiskError.
    """
    found = files.look(folder, layout.TAGS)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{layout.TAGS} is not a plain file; remove it")
    try:
        before = marks_of(folder)
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
    files.replace(folder, layout.TAGS, seal(document, limits.TAGS, layout.TAGS))
    files.sync_folder(folder)
    return after


def mark(folder: Path, add: Iterable[str], remove: Iterable[str] = (), note: str | None = None) -> Marks:
    """The same for a session that nobody runs, under its lock; nothing else is written.

    Raises like `change_marks`, SessionUnreadable, Locked, Damaged.
    """
    read_document(folder)
    with lock.holding(folder):
        before = lock.legible_note(folder)

        def may() -> None:
            # A lock may not reach another machine; whoever begins to own the session there writes a note.
            if (now := lock.legible_note(folder)) != before:
                raise Locked(f"{folder} was taken by {lock.holder(now)} just now.")

        files.make_folder(folder, layout.TMP)
        return change_marks(folder, add, remove, may, note)
