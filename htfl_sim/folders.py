"""The folders and names of sessions. A name or path has the same meaning in commands and in Python."""

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from checkpoints import continues as continues
from checkpoints import is_group as is_group
from checkpoints import name_of as name_of
from checkpoints import sessions_folder as sessions_folder
from checkpoints import typed as typed
from simulator.base.errors import ConfigError, nearest
from simulator.base.units import escaped as escaped

Place = str | Path


def sessions_dir(option: Place | None) -> Path:
    """`--sessions-dir`, else $HTFL_SESSIONS, else ./sessions."""
    return Path(option or os.environ.get("HTFL_SESSIONS") or "sessions").expanduser()


def data_folder(option: Place | None = None) -> Path:
    """`--data-dir`, else $HTFL_DATA, else the platform's cache folder."""
    from simulator.data.datasets import data_folder

    return data_folder(option)


def place_of(place: Place) -> Path:
    """The path of a session or study in Python: a bare name that is no folder here is in the folder of sessions."""
    path = Path(place).expanduser()
    if isinstance(place, str) and path.name == place and not path.is_dir():
        return sessions_dir(None) / place
    return path


def session_folder(name: Place, folder: Place | None = None) -> Path:
    """The folder of an existing session, by its name in the folder of sessions or by path. A `Path` is always a path.

    A point that uses the session of an identical run has the folder of that session. Raises SessionUnreadable with the
    nearest session if there is none, and ConfigError for a study.
    """
    home = sessions_dir(folder)
    for path in _places(name, home):
        if path.is_dir() and path != home and str(name) not in ("", ".", ".."):
            if checkpoints.is_group(path):
                first = next((each.name for each in checkpoints.sessions(path)), "POINT")
                raise ConfigError(f"'{name}' is a study; name one of its sessions, as {name}/{first}.")
            return path
        if not path.exists() and checkpoints.is_group(path.parent):
            from simulator.studies.folder import linked_session

            if linked := linked_session(path):
                return linked
    known = [checkpoints.name_of(path) for path in checkpoints.sessions(home)]
    raise SessionUnreadable(
        f"no session '{name}' in {home}.{nearest(str(name), known)} See `htfl-sim sessions`."
    )


def own_session(name: Place, folder: Place | None = None) -> Path:
    """As `session_folder`, for a change. Raises ConfigError for a point that uses the session of another one."""
    if note := link_note(name, folder):
        raise ConfigError(f"{note} It has no session of its own: name the other one.")
    return session_folder(name, folder)


def own_folder(name: Place, folder: Place | None = None) -> Path:
    """The folder of a study, or as `own_session`: what can be removed, renamed, or marked as a whole."""
    home = sessions_dir(folder)
    for path in _places(name, home):
        if checkpoints.is_group(path) and path != home and str(name) not in ("", ".", ".."):
            return path
        if path.is_dir():
            break
    return own_session(name, home)


def link_note(name: Place, folder: Place | None = None) -> str | None:
    """A sentence about a point that uses the session of an identical run. Raises like `session_folder`."""
    found, places = session_folder(name, folder), _places(name, sessions_dir(folder))
    return None if found in places else f"{name} uses {name_of(found)}, an identical run."


def new_session(name: str, sessions_dir_: Place | None = None) -> Path:
    """The folder of a new session. Raises ConfigError unless the name is a plain file name."""
    return sessions_dir(sessions_dir_) / checked_name(name)


def study_folder(name: Place, folder: Place | None = None) -> Path | None:
    """The folder of a study, by its name in the sessions folder or by path. None if there is no such study."""
    return next((path for path in _places(name, sessions_dir(folder)) if checkpoints.is_group(path)), None)


def _places(name: Place, folder: Path) -> tuple[Path, ...]:
    """The folders where a session or study of that name may be."""
    path = Path(name).expanduser()
    return (path,) if isinstance(name, Path) else (folder / name, path)


def checked_name(name: str) -> str:
    """A name for a new session. Raises ConfigError unless it is a plain file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ConfigError(
            f"'{name}' is not a session name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit."
        )
    return name


def checked_tag(tag: str) -> str:
    """A tag for sessions. Raises ConfigError for an invalid one."""
    return _checked(checkpoints.check_tag, tag)


def checked_note(note: str) -> str:
    """A note for a session. Raises ConfigError for an invalid one."""
    return _checked(checkpoints.check_note, note)


def _checked(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error


def session_names(sessions_dir_: Place | None = None) -> list[str]:
    """The names of the sessions in the folder of sessions."""
    return list(map(checkpoints.name_of, checkpoints.sessions(sessions_dir(sessions_dir_))))


def tags_in(sessions_dir_: Place | None = None) -> dict[str, int]:
    """The tags in the folder of sessions, by name, each with its number of sessions. Damaged files count as empty."""
    found: Counter[str] = Counter()
    for path in checkpoints.session_folders(sessions_dir(sessions_dir_)):
        with suppress(SessionUnreadable, DiskError):
            found.update(checkpoints.tags_of(path))
    return dict(sorted(found.items()))


def linked_names(study: str, sessions_dir_: Place | None = None) -> list[str]:
    """The points of a study that use the session of an identical run, as STUDY/POINT. None of an unreadable study."""
    from simulator.studies.folder import read_points

    folder = sessions_dir(sessions_dir_) / study
    with suppress(SessionUnreadable, DiskError):
        return [f"{study}/{point.name}" for point in read_points(folder) if point.link is not None]
    return []


def study_names(sessions_dir_: Place | None = None) -> list[str]:
    """The names of the studies in the folder of sessions."""
    return [path.name for path in checkpoints.groups(sessions_dir(sessions_dir_))]


def plain_name(words: list[str]) -> str:
    """A session name made of words, without characters that file names should not have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip(".-_")[:70] or "run"


def free_name(folder: Path, stem: str) -> str:
    """`stem`, or with the first number that makes it new in `folder`."""
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(name for name in names if not (folder / name).exists())
