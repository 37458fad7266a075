"""Plan the points of a study. Points of an existing study stay as they are listed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import checkpoints
from checkpoints import TUNING, Group, SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw
from simulator.config.user_files import Files
from simulator.results.analysis.axes import SEEDS, group_label
from simulator.results.analysis.caveats import rows_differ
from simulator.studies.folder import STUDY, as_asked, documents, read_points, read_study, refuse_changed
from simulator.studies.links import session_of
from simulator.studies.study import Point, StudySpec


@dataclass(frozen=True)
class Plan:
    """A study, its folder, and all its points in order."""

    folder: Path
    study: StudySpec
    points: tuple[Point, ...]
    listed: bool
    """Whether the folder already holds exactly this study."""

    @property
    def unbegun(self) -> list[Point]:
        """The points that have no session yet and use none of another point."""
        return [point for point in self.points if not checkpoints.is_session(session_of(self.folder, point))]

    def caveats(self) -> list[str]:
        """One sentence about training and data settings that differ between points although they are not axes."""
        axes = [axis for axis in self.study.over if axis not in SEEDS]
        rows: dict[str, list[Raw]] = {}
        for point in self.points:
            label = group_label(axes, tuple(point.axes.get(axis) for axis in axes))
            rows.setdefault(label, []).append(point.config)
        return rows_differ(rows, axes)

    def open(self, waiting: Callable[[], bool] | None = None, *, steal: bool = False) -> Group:
        """Lock the study's folder and write the study. Raises Locked while another sweep runs it, and DiskError.

        `steal` takes the lock over from a dead machine.
        """
        files = {} if self.listed else documents(self.study, self.points)
        return Group.open(self.folder, files, waiting=waiting, steal=steal)


def plan(folder: Path, study: StudySpec | None = None, extend: bool = False) -> Plan:
    """Plan `study` in `folder`. Without `study`, plan the study that is in the folder, if it names no Python files.

    Raises ConfigError for invalid settings, and for a study that would change an existing one; `extend` permits more
    points. Loads the files of `study`, which the user has named. Raises SessionError if one differs from what a point
    lists; SessionUnreadable, PresetError, or DiskError.
    """
    sessions_dir = folder.parent
    there = checkpoints.is_group(folder)
    if study is None:
        if not there:
            raise SessionUnreadable(f"there is no study {folder}.")
        study = read_study(folder)
        study.files.confirmed(Files(), folder / STUDY)
    before = read_points(folder) if there else []
    load(folder, study.files, before)
    if there and (folder / TUNING).exists():
        raise ConfigError(
            f"{folder.name} is a tuning study, and a sweep would run all of its trials to their last rounds. "
            f"Continue it: `htfl-sim tune {folder.name}`."
        )
    if not there:
        return Plan(folder, study, tuple(_points(study, sessions_dir)), listed=False)
    if any(point.files for point in before):
        from simulator.studies.files import refuse_other  # needs torch

        refuse_other(folder, before)
    if as_asked(folder, study):
        return Plan(folder, study, tuple(before), listed=True)
    after = _points(study, sessions_dir)
    refuse_changed(folder, before, after, extend)
    kept = {point.name: point for point in before}
    points = (kept[point.name].placed_as(point) if point.name in kept else point for point in after)
    return Plan(folder, study, tuple(points), listed=False)


def load(folder: Path, files: Files, points: Iterable[Point]) -> None:
    """Run the files that the user has named for a study, once they are those that its points list.

    Raises SessionError for another file, and ConfigError for one that fails.
    """
    if files != Files():
        from simulator.studies.files import refuse_other_code  # needs torch

        refuse_other_code(folder, points, files)
        files.load()


def _points(study: StudySpec, sessions_dir: Path) -> list[Point]:
    """The points of a study and the files that each needs. The study's files are loaded already."""
    found = study.points(sessions_dir)  # refused before torch is imported

    from simulator.studies.files import needed, refuse_unnamed

    points = [replace(point, files=needed(point.config)) for point in found]
    refuse_unnamed(study, points)
    return points
