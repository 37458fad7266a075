"""Which sessions a command line means: sessions, studies and globs, as the folders they lie in."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import checkpoints
from checkpoints import Damaged, SessionUnreadable
from simulator.errors import nearest

POINTS = "points.json"
"""The file that makes a folder a study."""


def select(names: Sequence[str], sessions_dir: Path) -> list[Path]:
    """The session folders that are named, in order and each once; points of a study that never began are left out.

    A name is that of a session or of a study in `sessions_dir`, 'STUDY/POINT', a path, or a glob like 't3/*'. Raises
    SessionUnreadable where a name is nothing that is there, or a glob finds no session, and Damaged for a study whose
    list of points cannot be read. Whether the sessions can be read is for the caller to find out.
    """
    found = [folder for name in names for folder in _named(name, sessions_dir)]
    return list(dict.fromkeys(found))


def study_points(study: Path) -> list[Path]:
    """The folders of a study's points, in the study's order, also of those that have not begun. Raises Damaged."""
    path = study / POINTS
    try:
        points = json.loads(path.read_text(encoding="utf-8"))
        names = [point["name"] for point in (points["points"] if isinstance(points, dict) else points)]
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise Damaged(f"{path} is not a study's list of points ({fault}).") from fault
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise Damaged(f"{path} is not a study's list of points (a name is none).")
    return [study / name for name in names]


def _named(name: str, sessions_dir: Path) -> list[Path]:
    for path in (sessions_dir / name, Path(name).expanduser()):
        if name not in ("", ".", "..") and path.is_dir() and path != sessions_dir:
            return list(_sessions(path))
    if any(each in name for each in "*?["):
        return _matching(name, sessions_dir)
    known = [path.name for path in checkpoints.session_folders(sessions_dir)] + _studies(sessions_dir)
    raise SessionUnreadable(
        f"no session and no study '{name}' in {sessions_dir}.{nearest(name, known)} See `htfl-sim sessions`."
    )


def _matching(pattern: str, sessions_dir: Path) -> list[Path]:
    base, inside = (Path("/"), pattern.lstrip("/")) if pattern.startswith("/") else (sessions_dir, pattern)
    try:
        paths = sorted(base.glob(inside)) if base.is_dir() else []
    except (ValueError, NotImplementedError) as fault:
        raise SessionUnreadable(f"'{pattern}' is no pattern for sessions: {fault}.") from fault
    found = [folder for path in paths if _is_either(path) for folder in _sessions(path)]
    if not found:
        raise SessionUnreadable(f"'{pattern}' matches no session in {sessions_dir}. See `htfl-sim sessions`.")
    return found


def _sessions(path: Path) -> Iterator[Path]:
    """The folder itself; of a study, those of its points that have begun."""
    if (path / POINTS).is_file():
        yield from (point for point in study_points(path) if point.is_dir())
    else:
        yield path


def _is_either(path: Path) -> bool:
    marks = ("session.json", POINTS)
    return path.is_dir() and (any((path / mark).is_file() for mark in marks) or (path / "manifests").is_dir())


def _studies(sessions_dir: Path) -> list[str]:
    return [path.parent.name for path in sessions_dir.glob(f"*/{POINTS}")] if sessions_dir.is_dir() else []
