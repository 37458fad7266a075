"""Points that use the session of an identical run instead of a session of their own.

points.json has the link: the session's name in the sessions folder, and its fingerprint. A session that was deleted or
changed has another fingerprint or none. Then the link is dead, and the next sweep computes the point.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import checkpoints
from checkpoints import POINTS, Damaged, DiskError, SessionUnreadable
from simulator.base.documents import Document
from simulator.base.nested import Raw
from simulator.results.analysis.axes import seeds_of
from simulator.sessions.fingerprint import fingerprint_of, finished_twin, settings_of
from simulator.studies.folder import read_points, text_of
from simulator.studies.study import Point

STUDY, SESSIONS = "study", "sessions"
"""Where a point looks for an identical run: in its study, or in the whole sessions folder."""


def session_of(study: Path, point: Point) -> Path:
    """The folder of the point's session: its own, or the linked one if the point has none and the link is not dead."""
    own = study / point.name
    if point.link is None or checkpoints.is_session(own):
        return own
    linked = study.parent / point.link["session"]
    with suppress(SessionUnreadable, DiskError):
        if fingerprint_of(linked) == point.link["fingerprint"]:
            return linked
    return own


def sessions_of(study: Path) -> set[Path]:
    """The folders of the sessions that a study's points use; none of a folder that is no study."""
    if not checkpoints.is_group(study):
        return set()
    return {session_of(study, point) for point in read_points(study)}


def sessions_in(study: Path) -> list[Path]:
    """The sessions in a study's folder, in order, then those of identical runs that its points use.

    An unreadable list of points counts as empty. Raises DiskError.
    """
    own = checkpoints.sessions(study)
    with suppress(SessionUnreadable):
        own += sorted(path for path in sessions_of(study) - {*own} if checkpoints.is_session(path))
    return own


def linked_session(place: Path) -> Path | None:
    """The session that a point uses, if `place` is STUDY/POINT and has no session of its own. None for another place.

    Raises SessionUnreadable for a dead link, and DiskError.
    """
    study = place.parent
    if place.exists() or not checkpoints.is_group(study):
        return None
    for point in read_points(study):
        if point.name == place.name and point.link is not None:
            refuse_dead(study, point)
            return session_of(study, point)
    return None


def refuse_dead(study: Path, point: Point) -> None:
    """Raise SessionUnreadable if the point's link is dead and it has no session of its own."""
    own = study / point.name
    if point.link is not None and session_of(study, point) == own and not checkpoints.is_session(own):
        command = "tune" if (study / checkpoints.TUNING).exists() else "sweep"
        raise SessionUnreadable(
            f"Point {point.name} of study {study.name} uses the session {point.link['session']}, which was deleted or "
            f"changed. Run `htfl-sim {command} {study.name}` to compute the point."
        )


def refuse_damaged(study: Path, points: Iterable[Point]) -> None:
    """Raise Damaged for the first session of these points that is not as it was written. All bytes are hashed."""
    for folder in dict.fromkeys(session_of(study, point) for point in points):
        damage = (each for each in checkpoints.verify(folder) if each.severity == "damage")
        if found := next(damage, None):
            raise Damaged(
                f"{checkpoints.name_of(folder)} is damaged, so it does not count: {found.message} Remove it, and it is "
                f"computed again: `htfl-sim rm {checkpoints.typed(folder)}`."
            )


def twin_of(study: Path, point: Point, wanted: Document, where: str) -> tuple[Path | None, list[str]]:
    """The finished session of an identical run: of another point, or for 'sessions' anywhere in the sessions folder.

    Also why others are not used, as sentences.
    """
    folders = [session_of(study, each) for each in read_points(study) if each.name != point.name]
    if where == SESSIONS:
        folders += checkpoints.session_folders(study.parent)
    return finished_twin(wanted, folders)


def key(point: Point) -> bytes | None:
    """Equal for points that may be the same run, by their settings alone. None for a point that branches off."""
    if point.branch is not None:
        return None
    settings: Raw = settings_of(point.config)
    return checkpoints.canonical([settings, point.config["data"], seeds_of(point.config)])


def users_of(session: Path) -> list[str]:
    """The points that use this session, as STUDY/POINT, of all studies in its sessions folder."""
    name = checkpoints.name_of(session)
    return _points(
        session,
        lambda study, point: (
            point.link is not None
            and point.link["session"] == name
            and session_of(study, point) != study / point.name
        ),
    )


def branches_of(session: Path) -> list[str]:
    """The points that continue from a round of this session, as STUDY/POINT, of all studies in its sessions folder."""
    name = checkpoints.name_of(session)
    return _points(session, lambda _, point: point.branch is not None and point.branch["parent"] == name)


def rename_links(study: Path, before: str) -> None:
    """Let points use the sessions of their own study under its new name. Does nothing in a folder that is no study."""
    own = f"{before}/"
    if not any(point.link and point.link["session"].startswith(own) for point in _readable_points(study)):
        return
    entries = json.loads(checkpoints.GroupReader(study).document(POINTS))
    for link in (each["link"] for each in entries if each.get("link")):
        if link["session"].startswith(own):
            link["session"] = f"{study.name}/{link['session'].removeprefix(own)}"
    with checkpoints.Group.open(study) as group:
        group.write({POINTS: text_of(entries)})


def _points(session: Path, fits: Callable[[Path, Point], bool]) -> list[str]:
    return [
        f"{study.name}/{point.name}"
        for study in checkpoints.groups(checkpoints.sessions_folder(session))
        for point in _readable_points(study)
        if fits(study, point)
    ]


def _readable_points(study: Path) -> list[Point]:
    """The points of a study; none of a folder that is no study, or whose list is damaged."""
    with suppress(SessionUnreadable, DiskError):
        return read_points(study)
    return []
