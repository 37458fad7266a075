"""Select sessions by the names, studies, and globs of a command line, and group them by seed."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable
from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import flattened
from simulator.results.analysis.axes import SEEDS, TRIAL
from simulator.results.analysis.run import SessionData
from simulator.studies.folder import linked_session, read_points, refuse_dead, session_of

TAGGED = "tag:"
Selected = tuple[Path, int | None, str]
"""A session's folder, the number of the trial that it is, and the study to which it belongs; '' for none."""


@dataclass(frozen=True)
class Selection:
    """sessions: with a trial's number. waiting: STUDY/POINT without a session. studies: that name or hold a folder."""

    sessions: dict[Path, int | None]
    waiting: tuple[str, ...]
    studies: dict[Path, tuple[str, ...]]

    def __iter__(self) -> Iterator[Path]:
        return iter(self.sessions)


def select(names: Sequence[str], sessions_dir: Path) -> Selection:
    """Find the sessions of these names: of a session or study, 'STUDY/POINT', a path, a glob, or 'tag:NAME'.

    Raises SessionUnreadable for an unknown name, or a glob or tag without sessions; Damaged for a study whose list of
    points is unreadable. The caller checks whether the sessions are readable.
    """
    found, studies = dict[Path, int | None](), dict[Path, dict[str, None]]()
    for folder, trial, study in (each for name in names for each in _named(name, sessions_dir)):
        found[folder] = trial
        studies.setdefault(folder, {}).update({study: None} if study else {})
    waiting = [folder for folder in found if not folder.is_dir()]
    return Selection(
        {folder: trial for folder, trial in found.items() if folder not in waiting},
        tuple(map(checkpoints.name_of, waiting)),
        {folder: tuple(each) for folder, each in studies.items()},
    )


def _named(name: str, sessions_dir: Path) -> list[Selected]:
    for path in (sessions_dir / name, Path(name).expanduser()):
        if name not in ("", ".", "..") and path.is_dir() and path != sessions_dir:
            return list(_sessions(path))
        if linked := linked_session(path):
            return [(linked, _trial(path), path.parent.name)]
    if name.startswith(TAGGED):
        return _tagged(name.removeprefix(TAGGED), sessions_dir)
    if any(each in name for each in "*?["):
        return _matching(name, sessions_dir)
    places = [*checkpoints.session_folders(sessions_dir), *checkpoints.groups(sessions_dir)]
    known = [checkpoints.name_of(path) for path in places]
    raise SessionUnreadable(
        f"no session and no study '{name}' in {sessions_dir}.{nearest(name, known)} See `htfl-sim sessions`."
    )


def _matching(pattern: str, sessions_dir: Path) -> list[Selected]:
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
        each for path in paths if path in there or checkpoints.is_group(path) for each in _sessions(path)
    ]
    if not found:
        raise SessionUnreadable(f"'{pattern}' matches no session in {sessions_dir}. See `htfl-sim sessions`.")
    return found


def _tagged(tag: str, sessions_dir: Path) -> list[Selected]:
    known: set[str] = set()
    found = list[Selected]()
    for folder in checkpoints.session_folders(sessions_dir):
        with suppress(Damaged, DiskError):
            tags = checkpoints.tags_of(folder)
            known.update(tags)
            if tag in tags:
                found += _sessions(folder)
    if not found:
        raise SessionUnreadable(f"no session in {sessions_dir} is marked '{tag}'.{nearest(tag, known)}")
    return found


def _sessions(path: Path) -> Iterator[Selected]:
    """The folder itself, or the sessions of a study's points, begun or not; when tuned, the final runs."""
    if checkpoints.is_group(path):
        points = read_points(path)
        for point in [point for point in points if point.is_final] or points:
            refuse_dead(path, point)
            yield session_of(path, point), point.axes.get(TRIAL), path.name
    else:
        yield path, _trial(path), checkpoints.name_of(path).rpartition("/")[0]


def _trial(place: Path) -> int | None:
    """The number of the trial that STUDY/POINT is; None for another place. A damaged study is read as none."""
    if (place.parent / checkpoints.TUNING).exists():
        with suppress(SessionUnreadable, DiskError):
            return next(
                (each.axes.get(TRIAL) for each in read_points(place.parent) if each.name == place.name), None
            )
    return None


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
    """Sessions of a study that differ only in their seeds, or one; named after what their names share."""

    name: str
    runs: tuple[SessionData, ...]

    @property
    def label(self) -> str:
        return self.name if len(self.runs) == 1 else f"{self.name}, {len(self.runs)} seeds"


def by_seed(runs: Sequence[SessionData], studies: Collection[Path]) -> list[Seeds]:
    """The runs in order; those of a study that differ only in seeds form a group, in the first study with a point."""
    users, trials = dict[Path, Path](), dict[tuple[Path, Path], int | None]()
    for study in reversed(list(studies)):
        with suppress(SessionUnreadable, DiskError):  # an unreadable study, or a session
            for point in read_points(study):
                used = session_of(study, point)
                users[used], trials[study, used] = study, point.axes.get(TRIAL)
    together: dict[object, list[SessionData]] = {}
    for run in runs:
        study = run.folder.parent
        if study not in studies:
            study = users.get(run.folder, study)
        key: object = run.folder
        if study in studies and run.config:
            settings = {
                name: each
                for name, each in flattened(run.config).items()
                if name not in SEEDS and not name.startswith(("runtime.", "checkpoint."))
            }
            key = study, trials.get((study, run.folder)), checkpoints.canonical(settings)
        together.setdefault(key, []).append(run)
    return [
        Seeds(_in_common([run.name for run in each]) if len(each) > 1 else each[0].name, tuple(each))
        for each in together.values()
    ]


def _in_common(names: Sequence[str]) -> str:
    """The study, and the words that all its points' names share."""
    words = zip(*(name.rpartition("/")[2].split("-") for name in names), strict=False)
    point = "-".join(each[0] for each in words if len(set(each)) == 1)
    return "/".join(filter(None, (names[0].rpartition("/")[0], point)))
