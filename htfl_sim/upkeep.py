"""Sessions and studies as a whole: remove and rename them, and what depends on them. `htfl_sim.sessions` has it all."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import checkpoints
from checkpoints import Leftover, Locked, SessionUnreadable
from htfl_sim import folders
from htfl_sim.mailbox import holder, owner
from simulator.base.errors import ConfigError
from simulator.results.analysis.overview import Summary, forks_of

Place = str | Path


@dataclass(frozen=True)
class Dependents:
    """What depends on a session. Points are written as STUDY/POINT.

    forks: its forks, which stay complete without it. users: points that use it instead of a session of their own.
    branches: points that continue from one of its rounds.
    """

    forks: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()


def dependents(session: Place, sessions_dir: Place | None = None) -> Dependents:
    """What depends on a session, or outside of a study on one of its sessions. A damaged one has no known forks.

    Raises SessionUnreadable if there is none.
    """
    from simulator.studies.folder import branches_of, users_of

    place = _own(session, sessions_dir)
    forks, users, branches = list[str](), list[str](), list[str]()
    for folder in _sessions(place):
        if Summary.read(folder).error is None:
            forks += [str(each["name"]) for each in forks_of(folder)]
        users += users_of(folder)
        branches += branches_of(folder)
    inside = f"{place.name}/" if checkpoints.is_group(place) else None
    return Dependents(
        *(
            tuple(each for each in dict.fromkeys(found) if inside is None or not each.startswith(inside))
            for found in (forks, users, branches)
        )
    )


def remove(session: Place, *, steal: bool = False, sessions_dir: Place | None = None) -> Path:
    """Remove a session with all its rounds and checkpoints, or a study with all its sessions. Forks stay complete.

    Returns the removed folder. Raises Locked while a process runs it. steal: the machine that ran it is dead.
    """
    folder = _own(session, sessions_dir)
    check_idle(folder, steal=steal)
    checkpoints.remove(folder, steal=steal)
    return folder


def rename(session: Place, name: str, *, sessions_dir: Place | None = None) -> Path:
    """Give a session or a study another name. Forks find a session by its id. Returns its new folder.

    Raises Locked while a process runs it, and ConfigError for a name that is invalid or taken, for a point of a study,
    and for a session whose name a study has.
    """
    from simulator.studies.folder import rename_links

    folder = _own(session, sessions_dir)
    check_renamable(folder, name)
    after = checkpoints.rename(folder, name)
    rename_links(after, folder.name)
    return after


def check_renamable(session: Place, name: str, *, sessions_dir: Place | None = None) -> None:
    """Raise as `rename` would. Renaming checks again, under the lock."""
    folder = _own(session, sessions_dir)
    new = folder.parent / folders.checked_name(name)
    if checkpoints.is_group(folder.parent):
        study = folder.parent.name
        raise ConfigError(
            f"{folder.name} is a point of the study {study}, which finds it by its name. Keep the name."
        )
    if new.exists() or new.is_symlink():
        raise ConfigError(f"{new} is there already. Choose another name.")
    found = dependents(folder)
    if points := (*found.users, *found.branches):
        uses = "uses" if found.users else "continues from"
        more = f", and {len(points) - 1} more" if len(points) > 1 else ""
        raise ConfigError(
            f"The point {points[0]}{more} {uses} {folder.name} by its name. Keep the name, or remove the study first."
        )
    check_idle(folder)


def check_idle(session: Place, *, steal: bool = False, sessions_dir: Place | None = None) -> None:
    """Raise Locked if a process runs the session, or a study or one of its sessions. Changes check again, under the
    lock."""
    place = _own(session, sessions_dir)
    for folder in dict.fromkeys((place, *_sessions(place))):
        reader: checkpoints.GroupReader | checkpoints.SessionReader | None = None
        with suppress(SessionUnreadable):  # a damaged one is run by nobody
            is_study = checkpoints.is_group(folder)
            reader = checkpoints.GroupReader(folder) if is_study else checkpoints.SessionReader(folder)
        if reader is not None and not steal and reader.alive():
            raise Locked(
                f"{folder} is run by {holder(owner(reader))}. Stop it first: "
                f"`htfl-sim stop {checkpoints.typed(folder)}`."
            )


def leftovers(sessions_dir: Place | None = None, *, steal: bool = False) -> list[Leftover]:
    """The hidden folders of commands that run or were killed. steal: the machines that ran them are dead."""
    return checkpoints.leftovers(folders.sessions_dir(sessions_dir), steal=steal)


def remove_leftover(leftover: Leftover, *, steal: bool = False) -> None:
    """Remove a hidden folder that no process uses."""
    checkpoints.remove_leftover(leftover, steal=steal)


def _own(session: Place, sessions_dir: Place | None) -> Path:
    return folders.own_folder(session, folders.sessions_dir(sessions_dir))


def _sessions(place: Path) -> list[Path]:
    return checkpoints.session_folders(place) if checkpoints.is_group(place) else [place]
