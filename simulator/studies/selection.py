"""Select sessions by the names, studies, and globs of a command line. Returns their folders."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable
from simulator.base.errors import nearest
from simulator.studies.folder import read_points
from simulator.studies.links import linked_session, refuse_dead, session_of

TAGGED = "tag:"
"""The prefix of a tag in place of a session's name."""


def select(names: Sequence[str], sessions_dir: Path) -> list[Path]:
    """The folders of the named sessions, in order and each once. Points without a session are left out.

    A name is that of a session or study in `sessions_dir`, 'STUDY/POINT', a path, a glob like 't3/*', or 'tag:NAME' for
    all sessions with that tag.

    Raises SessionUnreadable for an unknown name, or a glob or tag without sessions. Raises Damaged for a study whose
    list of points is unreadable. The caller checks whether the sessions are readable.
    """
    found = [folder for name in names for folder in _named(name, sessions_dir)]
    return list(dict.fromkeys(found))


def _named(name: str, sessions_dir: Path) -> list[Path]:
    for path in (sessions_dir / name, Path(name).expanduser()):
        if name not in ("", ".", "..") and path.is_dir() and path != sessions_dir:
            return list(_sessions(path))
        if linked := linked_session(path):
            return [linked]
    if name.startswith(TAGGED):
        return _tagged(name.removeprefix(TAGGED), sessions_dir)
    if any(each in name for each in "*?["):
        return _matching(name, sessions_dir)
    places = [*checkpoints.session_folders(sessions_dir), *checkpoints.groups(sessions_dir)]
    known = [checkpoints.name_of(path) for path in places]
    raise SessionUnreadable(
        f"no session and no study '{name}' in {sessions_dir}.{nearest(name, known)} See `htfl-sim sessions`."
    )


def _matching(pattern: str, sessions_dir: Path) -> list[Path]:
    base, inside = (Path("/"), pattern.lstrip("/")) if pattern.startswith("/") else (sessions_dir, pattern)
    try:
        paths = sorted(base.glob(inside)) if base.is_dir() else []
    except (ValueError, NotImplementedError) as fault:
        raise SessionUnreadable(f"'{pattern}' is not a pattern for sessions: {fault}.") from fault
    # Includes sessions without session.json: the caller reports them.
    there = {
        each for parent in {path.parent for path in paths} for each in checkpoints.session_folders(parent)
    }
    found = [
        folder for path in paths if path in there or checkpoints.is_group(path) for folder in _sessions(path)
    ]
    if not found:
        raise SessionUnreadable(f"'{pattern}' matches no session in {sessions_dir}. See `htfl-sim sessions`.")
    return found


def _tagged(tag: str, sessions_dir: Path) -> list[Path]:
    """The sessions with this tag. A damaged list of tags counts as empty."""
    known: set[str] = set()
    found = []
    for folder in checkpoints.session_folders(sessions_dir):
        with suppress(Damaged, DiskError):
            tags = checkpoints.tags_of(folder)
            known.update(tags)
            if tag in tags:
                found.append(folder)
    if not found:
        raise SessionUnreadable(f"no session in {sessions_dir} is marked '{tag}'.{nearest(tag, known)}")
    return found


def _sessions(path: Path) -> Iterator[Path]:
    """The folder itself; for a study, the sessions of its points that have begun.

    A tuning study that has final runs is those alone: its trials have other budgets and values.
    """
    if checkpoints.is_group(path):
        points = read_points(path)
        for point in [point for point in points if point.axes.get("stage") == "final"] or points:
            refuse_dead(path, point)
            if (folder := session_of(path, point)).is_dir():
                yield folder
    else:
        yield path
