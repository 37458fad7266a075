"""Removing and renaming a session or a group as a whole."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoints import files, lock
from checkpoints.errors import SessionUnreadable
from checkpoints.layout import is_group
from checkpoints.private import beside, held
from checkpoints.reader import groups, session_folders


def remove(folder: Path, *, steal: bool = False) -> None:
    """Remove a session or a group that nobody runs, whole or damaged; from the first step on nobody sees it any more.

    Forks of it keep what they share with it. `steal`: the machine that held it is dead. Raises SessionUnreadable for a
    folder that is none, Locked for a session that is run, DiskError.
    """
    with _own(folder, "removed", steal) as place:
        private = beside(place)
        files.rename_folder(place, private)
        shutil.rmtree(private)


def rename(folder: Path, name: str) -> Path:
    """Give a session or a group that nobody runs another name, in one step. Returns its folder from then on.

    Raises SessionUnreadable for a folder that is no session, and for a name that is taken; Locked for a session that is
    run, DiskError.
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
    owner = lock.Ownership.acquire(place, steal=steal)
    try:
        for each in session_folders(place) if is_group(place) else ():
            lock.Ownership.acquire(
                each, steal=steal
            ).let_go()  # one by one: there may be more than open files
        with files.storage(folder), held(place):
            yield place
    finally:
        owner.let_go()
