"""Users' files that the points of a study need. They are listed with each point and checked until the last has run."""

from collections.abc import Iterable
from pathlib import Path

from simulator.base import own_files
from simulator.base.documents import OwnFile
from simulator.base.errors import ConfigError, SessionError
from simulator.base.nested import Raw
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.sessions import metadata
from simulator.studies.study import Point, StudySpec


def needed(config: Raw) -> tuple[OwnFile, ...]:
    """The entries of a point's list: kind, name, and SHA-256 of each file. The files must be loaded."""
    return tuple(metadata.needed_files(Config.read(config)))


def refuse_unnamed(study: StudySpec, points: Iterable[Point]) -> None:
    """Raise ConfigError if a point needs a model or a figure from a loaded file that the study does not name.

    Each point runs in its own process, which loads the files that the study names.
    """
    named: dict[str, set[str]] = {kind: {Path(file).name for file in files} for kind, files in study.files}
    for point in points:
        for file in point.files:
            kind, name = file["kind"], file["name"]
            if kind in ("model", "metric", "selection") and name not in named[kind]:
                raise ConfigError(
                    f"point {point.name} needs the {kind} file {name}, which the study does not name. "
                    f'Add {kind}s = ["{name}"] to the study.'
                )


def refuse_other(study: Path, points: Iterable[Point]) -> None:
    """Raise SessionError unless every file in a point's list is loaded, or exists with the same bytes.

    A session checks its own files. This check also covers a point without a session.
    """
    for point in points:
        if not point.files:
            continue
        present = {(file["kind"], file["name"]): file["sha256"] for file in needed(point.config)}
        for file in point.files:
            kind, name = file["kind"], file["name"]
            found = present.get((kind, name))
            if found is None:
                raise SessionError(
                    f"the points of study {study.name} need the {kind} file {name}, which is missing. "
                    "Put it back."
                )
            _refuse_other(study, file, found)


def refuse_other_code(study: Path, points: Iterable[Point], files: Files) -> None:
    """Raise SessionError for a Python file with other bytes than a point's list says. Runs nothing."""
    present: dict[tuple[str, str], str] = {
        (kind, Path(path).name): own_files.read(kind, Path(path))[0].sha256
        for kind, paths in files
        for path in paths
    }
    for point in points:
        for file in point.files:
            if found := present.get((file["kind"], file["name"])):
                _refuse_other(study, file, found)


def _refuse_other(study: Path, listed: OwnFile, found: str) -> None:
    if found != listed["sha256"]:
        raise SessionError(
            f"the {listed['kind']} file {listed['name']} is not the one that study {study.name} was made with (sha256 "
            f"{listed['sha256'][:12]}…, not {found[:12]}…). Restore the original, or choose another name for the study."
        )
