"""Sessions as a whole: remove and rename them, and what depends on them. `htfl_sim.sessions` has all of it."""

from dataclasses import dataclass
from pathlib import Path

import checkpoints
from checkpoints import Leftover, Locked
from htfl_sim import folders
from htfl_sim.mailbox import holder, owner
from simulator.base.errors import ConfigError
from simulator.results.analysis.lineage import forks_of
from simulator.results.analysis.summary import Summary

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
    """What depends on a session. A damaged one has no known forks. Raises SessionUnreadable if there is none."""
    from simulator.studies.links import branches_of, users_of

    folder = _own(session, sessions_dir)
    forks: tuple[str, ...] = ()
    if Summary.read(folder).error is None:
        forks = tuple(str(each["name"]) for each in forks_of(folder))
    return Dependents(forks, tuple(users_of(folder)), tuple(branches_of(folder)))


def remove(session: Place, *, steal: bool = False, sessions_dir: Place | None = None) -> Path:
    """Remove a session with all its rounds and checkpoints. Its forks stay complete. Returns the removed folder.

    Raises Locked while a process runs it. steal: the machine that ran it is dead.
    """
    folder = _own(session, sessions_dir)
    check_idle(folder, steal=steal)
    checkpoints.remove(folder, steal=steal)
    return folder


def rename(session: Place, name: str, *, sessions_dir: Place | None = None) -> Path:
    """Give a session another name in its folder. Its forks find it by its id. Returns its new folder.

    Raises Locked while a process runs it, and ConfigError for a name that is invalid or taken, for a point of a study,
    and for a session whose name a study has.
    """
    folder = _own(session, sessions_dir)
    check_renamable(folder, name)
    return checkpoints.rename(folder, name)


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
    """Raise Locked if a process runs the session. Changes check again, under the lock."""
    folder = _own(session, sessions_dir)
    if (
        Summary.read(folder).error is None
        and not steal
        and (reader := checkpoints.SessionReader(folder)).alive()
    ):
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
    return folders.own_session(session, folders.sessions_dir(sessions_dir))
