"""Summarize a study from its sessions, and group its sessions by seed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import checkpoints
from checkpoints import DiskError, GroupReader, SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened
from simulator.results.analysis.axes import SEEDS, TRIAL
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.folder import read_points
from simulator.studies.links import session_of
from simulator.studies.study import Point


@dataclass(frozen=True)
class Setting:
    """The sessions of a study that differ only in their seeds. name: the values on the study's other axes.

    points: the number of its points, which may have no session yet.
    """

    name: str
    sessions: tuple[Summary, ...]
    points: int = 0

    @property
    def level(self) -> list[Summary]:
        """The sessions with the most rounds: a mean over different rounds would be that of none."""
        most = max((each.round or 0 for each in self.sessions), default=0)
        return [each for each in self.sessions if (each.round or 0) == most]

    @property
    def is_untrained(self) -> bool:
        """Whether every client of a session diverged in every round, so that a mean would hide the failure."""
        return any(each.untrained for each in self.sessions)

    @property
    def is_finished(self) -> bool:
        """Whether all its points have finished sessions, of their own or of identical runs."""
        return 0 < self.points == sum(each.state == "finished" for each in self.sessions)

    @property
    def accuracy(self) -> float | None:
        """The mean over the sessions with the most rounds; None if one of the sessions has no score."""
        return None if self.is_untrained else _mean(each.accuracy for each in self.level)

    @property
    def best(self) -> float | None:
        """The mean over these sessions, in their best rounds."""
        return None if self.is_untrained else _mean(each.best for each in self.level)


@dataclass(frozen=True)
class StudySummary:
    """The progress of a study. sessions, settings: in the order of its points."""

    name: str
    path: str
    state: str
    points: int
    sessions: tuple[Summary, ...]
    linked: int = 0
    """The number of points that use the session of an identical run."""
    settings: tuple[Setting, ...] = ()
    is_tuning: bool = False
    """Whether `htfl-sim tune` runs it, and not `htfl-sim sweep`."""

    @classmethod
    def of(cls, folder: Path, sessions: Sequence[Summary]) -> "StudySummary":
        """Summarize the study in a folder that has these sessions. The state of an unreadable study is 'damaged'."""
        try:
            points = points_of(folder)
            reader = GroupReader(folder)
            note = reader.owner() or {} if reader.alive() else {}
        except (SessionUnreadable, DiskError, OSError):
            return cls(folder.name, str(folder), "damaged", len(sessions), tuple(sessions))
        place = {name: number for number, name in enumerate(point.name for point in points)}
        ordered = sorted(sessions, key=lambda each: place.get(Path(each.path).name, len(place)))
        used = {
            each.name: session
            for each in points
            if (session := session_of(folder, each)) != folder / each.name
        }
        is_tuning = (folder / checkpoints.TUNING).exists()
        ended = _have_ended(folder, points, ordered, is_tuning)
        state = str(note.get("state", "finished" if ended else "stopped"))
        shown = [each for each in points if not is_tuning or each.axes.get("stage") == "final"]
        of_points = {Path(each.path).name: each for each in ordered}
        of_points |= {each.name: Summary.read(used[each.name]) for each in shown if each.name in used}
        settings = _settings(shown, of_points)
        return cls(
            folder.name, str(folder), state, len(points), tuple(ordered), len(used), settings, is_tuning
        )

    @property
    def finished(self) -> int:
        """The number of finished points."""
        return sum(each.state == "finished" for each in self.sessions) + self.linked

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of its sessions."""
        return tuple(dict.fromkeys(each.method for each in self.sessions if each.method))

    @property
    def dataset(self) -> str | None:
        """Its sessions' data set; None if they have several."""
        found = {each.dataset for each in self.sessions}
        return found.pop() if len(found) == 1 else None

    @property
    def ranked(self) -> list[Setting]:
        """The settings that can be compared: the finished ones, or the only one."""
        known = [each for each in self.settings if each.accuracy is not None]
        return [each for each in known if each.is_finished or len(self.settings) == 1]

    @property
    def best_setting(self) -> Setting | None:
        """The ranked setting with the highest accuracy, the first of equals; None if there is none."""
        return max(self.ranked, key=lambda each: each.accuracy or 0.0, default=None)

    @property
    def accuracy(self) -> float | None:
        """That of its best setting: a mean over several settings would be that of none."""
        return None if self.best_setting is None else self.best_setting.accuracy

    @property
    def best(self) -> float | None:
        """The accuracy of the best setting in the best rounds of its sessions."""
        return None if self.best_setting is None else self.best_setting.best

    @property
    def created(self) -> str | None:
        """The time its first session was made."""
        return min((each.created for each in self.sessions if each.created), default=None)


def _have_ended(study: Path, points: Sequence[Point], sessions: Sequence[Summary], is_tuning: bool) -> bool:
    """Whether all points have finished. Of tuning, the final seeds: most trials end before their last round."""
    wanted = [each for each in points if not is_tuning or each.axes.get("stage") == "final"]
    finished = {study / point.name for point in points if session_of(study, point) != study / point.name}
    finished |= {Path(each.path) for each in sessions if each.state == "finished"}
    return bool(wanted) and all(study / point.name in finished for point in wanted)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None


def _settings(points: Sequence[Point], sessions: Mapping[str, Summary]) -> tuple[Setting, ...]:
    """The settings of the points, with their sessions so far, which are given by point."""
    found: dict[str, list[Summary]] = {}
    number = Counter[str]()
    for point in points:
        values = {axis: value for axis, value in point.axes.items() if axis not in (*SEEDS, "stage")}
        name = ", ".join(
            str(value) if axis == "method" else f"{axis}={value}" for axis, value in values.items()
        )
        number[name] += 1
        found.setdefault(name, []).extend([sessions[point.name]] if point.name in sessions else [])
    return tuple(Setting(name, tuple(each), number[name]) for name, each in found.items())


def points_of(folder: Path) -> tuple[Point, ...]:
    """A study's points, read again only if its file has changed. Raises SessionUnreadable, DiskError, or OSError."""
    return _points(folder, (folder / checkpoints.POINTS).stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _points(folder: Path, changed: int) -> tuple[Point, ...]:
    return tuple(read_points(folder))


def study_axes(runs: Iterable[SessionData], studies: Collection[Path]) -> tuple[str, ...]:
    """The axes of the studies that these sessions belong to. An unreadable study has none."""
    found: dict[str, None] = {}
    for folder in dict.fromkeys(run.folder.parent for run in runs):
        if folder in studies:
            with suppress(SessionUnreadable, DiskError, ConfigError, OSError):
                found |= dict.fromkeys(axis for point in read_points(folder) for axis in point.axes)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Seeds:
    """Sessions of a study that differ only in their seeds, or a single session.

    It is named after the common part of their names.
    """

    name: str
    runs: tuple[SessionData, ...]

    @property
    def label(self) -> str:
        """The name, and the number of seeds."""
        return self.name if len(self.runs) == 1 else f"{self.name}, {len(self.runs)} seeds"


def by_seed(runs: Sequence[SessionData], studies: Collection[Path]) -> list[Seeds]:
    """The runs in order. Runs of these studies that differ only in their seed form one group.

    The session of an identical run belongs to the first study that has a point for it.
    """
    users = {folder: study for study in reversed(list(studies)) for folder in _used(study)}
    trials = {folder: trial for study in studies for folder, trial in _used(study).items()}
    together: dict[object, list[SessionData]] = {}
    for run in runs:
        study = run.folder.parent
        if study not in studies:
            study = users.get(run.folder, study)
        key: object = run.folder
        if study in studies and run.config:
            flat = {name: each for name, each in flattened(run.config).items() if name not in SEEDS}
            settings = checkpoints.canonical({name: each for name, each in flat.items() if _matters(name)})
            key = study, trials.get(run.folder), settings
        together.setdefault(key, []).append(run)
    return [
        Seeds(_in_common([run.name for run in each]) if len(each) > 1 else each[0].name, tuple(each))
        for each in together.values()
    ]


def _matters(setting: str) -> bool:
    return not setting.startswith(("runtime.", "checkpoint."))


def _used(study: Path) -> dict[Path, int | None]:
    """The sessions that a study's points use, each with its number as a trial; none of an unreadable study, or of a
    session."""
    with suppress(SessionUnreadable, DiskError, OSError):
        return _sessions_of(study, (study / checkpoints.POINTS).stat().st_mtime_ns)
    return {}


@lru_cache(maxsize=256)
def _sessions_of(study: Path, changed: int) -> dict[Path, int | None]:
    return {session_of(study, point): point.axes.get(TRIAL) for point in _points(study, changed)}


def _in_common(names: Sequence[str]) -> str:
    """The study, and the words that all its points' names share."""
    words = zip(*(name.rpartition("/")[2].split("-") for name in names), strict=False)
    point = "-".join(each[0] for each in words if len(set(each)) == 1)
    return "/".join(filter(None, (names[0].rpartition("/")[0], point)))
