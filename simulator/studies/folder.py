"""A study in the sessions folder: STUDY/study.toml is the request, STUDY/points.json lists its points in order.

points.json decides: it holds each point's complete configuration, so a study continues unchanged if a preset changes.
study.toml may be edited. An edit that would change a point is rejected. One that adds points needs `extend`.
"""

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import POINTS, Damaged, GroupReader, limits
from simulator.base.documents import check_point
from simulator.base.errors import ConfigError
from simulator.base.reading import MOST
from simulator.base.units import size
from simulator.sessions.history import completed
from simulator.studies.study import Point, StudySpec

STUDY = "study.toml"


def read_study(folder: Path) -> StudySpec:
    """Read the specification of a study in the sessions folder. Raises SessionUnreadable, ConfigError, or DiskError."""
    raw = _text(folder, STUDY)
    if len(raw) > MOST:
        raise Damaged(f"{folder / STUDY} is larger than {size(MOST)}, the most that is read.")
    try:
        return StudySpec.of_toml(tomllib.loads(raw.decode()), folder / STUDY)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{folder / STUDY} is not valid TOML: {invalid}.") from invalid


def study_text(folder: Path) -> str:
    """The unchanged text of the study file, for display. Raises SessionUnreadable or DiskError."""
    return _text(folder, STUDY).decode(errors="replace")


def read_points(folder: Path) -> list[Point]:
    """The points of a study in the sessions folder, in order. Raises SessionUnreadable or DiskError."""
    return [_point(folder, entry) for entry in _entries(folder)]


def documents(study: StudySpec, points: Sequence[Point]) -> dict[str, bytes]:
    """The two files of a study, by name."""
    asked = study.digest()
    entries = [
        {key: value for key, value in asdict(point).items() if value not in (None, ())} for point in points
    ]
    listed = [entry | {"asked": asked} for entry in entries]
    return {
        STUDY: study.to_toml().encode(),
        POINTS: text_of(listed),
    }


def text_of(entries: Sequence[Any]) -> bytes:
    """points.json."""
    return (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()


def as_asked(folder: Path, study: StudySpec) -> bool:
    """Whether the listed points belong to this study, and study.toml was not edited since."""
    digests = {entry.get("asked") for entry in _entries(folder)}
    return digests == {study.digest()} and hashlib.sha256(_text(folder, STUDY)).hexdigest() in digests


def refuse_changed(folder: Path, before: Sequence[Point], after: Sequence[Point], extend: bool) -> None:
    """Raise ConfigError unless `after` equals `before`, or adds points and `extend` is set.

    The message names the differences and the ways out.
    """
    new = {point.name: point for point in after}
    study = folder.name
    for point in before:
        if point.name not in new:
            raise ConfigError(
                f"Study {study} exists with other axes: these leave out its point '{point.name}'. "
                "Choose another name, or name all of its values."
            )
        if not point.same_as(new[point.name]):
            changes = point.differences(new[point.name])
            rest = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
            raise ConfigError(
                f"Study {study} exists with other settings: its point '{point.name}' would change "
                f"({'; '.join(changes[:3])}{rest}). Choose another name, or repeat its settings."
            )
    known = {point.name for point in before}
    added = [point.name for point in after if point.name not in known]
    if added and not extend:
        names = ", ".join(added[:3]) + (f" and {len(added) - 3} more" if len(added) > 3 else "")
        raise ConfigError(
            f"Study {study} exists with other axes. Use `extend=True` to add {len(added)} "
            f"point{'s' * (len(added) > 1)} ({names}). Sessions that exist stay as they are."
        )


def _entries(folder: Path) -> list[Any]:
    raw = _text(folder, POINTS)
    if limits.values(raw) > limits.DOCUMENT_VALUES:
        raise Damaged(f"{folder / POINTS} has more than the {limits.DOCUMENT_VALUES:,} values it may have.")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as invalid:
        raise Damaged(
            f"{folder / POINTS} is not a list of points: {invalid}. Restore it from a backup."
        ) from invalid
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise Damaged(f"{folder / POINTS} is not a list of points. Restore it from a backup.")
    return found


def _point(folder: Path, entry: object) -> Point:
    try:
        listed = check_point(entry)
    except ValueError as fault:
        raise Damaged(
            f"{folder / POINTS} has a point that htfl-sim did not write: {fault}. Restore it from a backup."
        ) from fault
    files = tuple(listed.get("files", []))
    config = completed(listed["config"])  # points that an older program listed run as its others did
    return Point(listed["name"], listed["axes"], config, listed.get("branch"), files, listed.get("link"))


def _text(folder: Path, name: str) -> bytes:
    try:
        return GroupReader(folder).document(name)
    except FileNotFoundError:
        raise checkpoints.SessionUnreadable(
            f"{folder} has lost its {name}; restore it from a backup."
        ) from None
