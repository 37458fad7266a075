"""How a session comes to be: whole in a private folder beside its place, then renamed there in one step.

So nobody ever sees half a session, of two that are made under one name at once one is refused, and what is removed
when a making fails is what this very process made. A process that is killed leaves its private folder behind
(`private.py`).
"""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from checkpoints import files, limits, lock
from checkpoints.errors import DiskError, SessionUnreadable
from checkpoints.layout import CONTROL, EVENTS, FOLDERS, FORMATS, LEDGER, SESSION, is_private
from checkpoints.private import new_private
from checkpoints.reader import read_document, remains
from checkpoints.schema import seal


def is_free(folder: Path) -> bool:
    """Whether a session can be made there: nothing is, or an empty folder. Raises DiskError."""
    with files.storage(folder):
        return not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir()))


def refuse_remains(folder: Path) -> None:
    """Raise SessionUnreadable if a session is there that lost its session.json, saying how it can be had back."""
    if folder.is_dir() and files.look(folder, SESSION) is None and remains(folder):
        read_document(folder)


@contextmanager
def in_private(folder: Path) -> Iterator[Path]:
    """An empty folder of this process's own, which becomes `folder` at the end, or is removed when that fails.

    A folder that is private already is taken as it is. Raises SessionUnreadable when something has that name, now or
    by then, and DiskError.
    """
    if is_private(folder.name):
        yield folder
        return
    _refuse_taken(folder)
    place = folder.resolve()
    files.make_folders(place.parent)
    with new_private(place) as private, _speaking_of(folder, private):
        try:
            yield private
            try:
                files.rename_folder(private, place)
            except FileExistsError:
                raise SessionUnreadable(
                    f"{folder} was made by another program meanwhile. Choose another name."
                ) from None
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(private)
            raise


def lay_out(folder: Path, session: Mapping[str, Any], ledger: bytes) -> lock.Ownership:
    """All that a session begins with, durable, and its owner: this process."""
    for name in FOLDERS:
        files.make_folder(folder, name)
    owner = lock.Ownership.acquire(folder)
    try:
        owner.claim()
        files.replace(folder, LEDGER, ledger)
        files.replace(folder, EVENTS, b"")
        document = {"format": FORMATS[0], "id": uuid.uuid4().hex, "created": lock.now(), **session}
        files.link_new(folder, SESSION, seal(document, limits.SESSION, SESSION))
        for name in (CONTROL, ""):
            files.sync_folder(folder, name)
    except BaseException:
        owner.let_go()
        raise
    return owner


def _refuse_taken(folder: Path) -> None:
    if not is_free(folder):
        refuse_remains(folder)
        raise SessionUnreadable(f"{folder} is there already. Choose another name.")


@contextmanager
def _speaking_of(folder: Path, private: Path) -> Iterator[None]:
    """Errors name the folder that was asked for: nobody knows the private one."""
    try:
        yield
    except (DiskError, SessionUnreadable) as error:
        raise type(error)(str(error).replace(str(private), str(folder))) from error
