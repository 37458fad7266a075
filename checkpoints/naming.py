"""Where sessions lie and what they are called: NAME in the sessions folder, GROUP/NAME in a group within it."""

import shlex
from pathlib import Path

from checkpoints import files
from checkpoints.layout import SESSION, is_private

POINTS = "points.json"
"""The document that makes a folder a group of sessions."""
TUNING = "tuning.json"
"""The document of a group whose sessions are the trials of a search."""


def is_group(folder: Path) -> bool:
    """Whether a folder holds a group of sessions, and is no session itself."""
    return (folder / POINTS).is_file() and not (folder / SESSION).exists()


def continues(folder: Path) -> str:
    """The command that continues a session or a group: 'resume', 'sweep', or 'tune'."""
    if not is_group(folder):
        return "resume"
    return "tune" if (folder / TUNING).exists() else "sweep"


def groups(folder: Path) -> list[Path]:
    """The groups of sessions directly under `folder`, by name. Raises DiskError."""
    if not folder.is_dir():
        return []
    with files.storage(folder):
        return sorted(path for path in folder.iterdir() if not is_private(path.name) and is_group(path))


def name_of(session: Path) -> str:
    """What a session is called: its folder's name, after its group's if it is in one."""
    place = session.absolute()
    return f"{place.parent.name}/{place.name}" if is_group(place.parent) else place.name


def typed(folder: Path) -> str:
    """A session or a group as commands take it: its path, quoted for a shell."""
    return shlex.quote(str(folder))


def fork_at(session: Path, round: int) -> str:
    """The command that goes on from a round of a session."""
    return f"`htfl-sim fork {typed(session)} --at-round {round} --session NEW`"


def sessions_folder(session: Path) -> Path:
    """The folder of sessions that a session belongs to, itself or by its group."""
    above = session.parent
    return above.parent if is_group(above) else above
