"""Where sessions lie, and how they are named."""

import os
import re
from itertools import count
from pathlib import Path

import checkpoints
from checkpoints import SessionUnreadable
from simulator.errors import ConfigError, nearest


def sessions_dir(option: Path | str | None) -> Path:
    """`--sessions-dir`, else $HTFL_SESSIONS, else ./sessions."""
    return Path(option or os.environ.get("HTFL_SESSIONS") or "sessions").expanduser()


def session_folder(name: str, folder: Path) -> Path:
    """The folder of a session that is there, by its name in the sessions folder or by path.

    Raises SessionUnreadable, naming the nearest session, when there is none, and ConfigError for a study.
    """
    for path in (folder / name, Path(name).expanduser()):
        if path.is_dir() and path != folder and name not in ("", ".", ".."):
            if checkpoints.is_group(path):
                first = next((each.name for each in checkpoints.sessions(path)), "POINT")
                raise ConfigError(f"'{name}' is a study; name one of its sessions, as {name}/{first}.")
            return path
    known = [checkpoints.name_of(path) for path in checkpoints.sessions(folder)]
    raise SessionUnreadable(
        f"no session '{name}' in {folder}.{nearest(name, known)} See `htfl-sim sessions`."
    )


def study_folder(name: str, folder: Path) -> Path | None:
    """The folder of a study, by its name in the sessions folder or by path; None when there is no such study."""
    found = (path for path in (folder / name, Path(name).expanduser()) if checkpoints.is_group(path))
    return next(found, None)


def checked_name(name: str) -> str:
    """A name for a new session. Raises ConfigError unless it is a plain file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ConfigError(
            f"'{name}' is no session name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit."
        )
    return name


def checked_tag(tag: str) -> str:
    """A word that sessions may be marked with. Raises ConfigError."""
    try:
        return checkpoints.check_tag(tag)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error


def plain_name(words: list[str]) -> str:
    """A session name made of words, without what a file name should not have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip(".-_")[:70] or "run"


def free_name(folder: Path, stem: str) -> str:
    """`stem`, or with the first number that makes it new in `folder`."""
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(name for name in names if not (folder / name).exists())
