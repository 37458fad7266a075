"""Studies: many sessions over methods, settings, and seeds, and their steps: plan, cost, points, a script for Slurm.

`hs.sweep` takes all steps at once. A study is given by its name in the folder of sessions, by its path, by a study
file, or by the name of a study that is shipped with htfl-sim.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import checkpoints
from checkpoints import SessionUnreadable
from htfl_sim import comparing, folders, shown
from htfl_sim.results import Place, Results
from simulator.base.errors import ConfigError, PointsFailed, nearest
from simulator.base.nested import Raw, merged, put, read_toml, with_overrides
from simulator.config.user_files import GROUP, SELECTION, Files, Names
from simulator.results.analysis import comparison, gain
from simulator.results.analysis.comparison import Select, Table
from simulator.results.analysis.feed import read
from simulator.results.analysis.gain import GainTable
from simulator.results.analysis.run import SessionData as Moment
from simulator.studies.executor import Launch as Launch
from simulator.studies.folder import (
    FAILED,
    FINISHED,
    LIVE,
    STUDY,
    WAITING,
    Status,
    read_points,
    read_study,
    session_of,
    status_of,
    time_left,
)
from simulator.studies.selection import select
from simulator.studies.study import StudySpec, axis, origin_of, shipped_file, shipped_studies, values
from simulator.studies.sweep import HERE, SLURM
from simulator.studies.sweep import SweepResult as SweepResult
from simulator.studies.sweep import sweep as carry_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from simulator.config import Config
    from simulator.results.export.sinks import Target
    from simulator.sessions.session import Session
    from simulator.studies.checking import Cost as Cost
    from simulator.studies.sweep import Plan as Plan

__all__ = [
    "FAILED", "FINISHED", "HERE", "LIVE", "SLURM", "WAITING", "Script", "Status", "carry_out", "check",
    "cost", "linked", "open_point", "plan", "status", "time_left", "write_slurm",
]  # fmt: skip

Over = Mapping[str, Iterable[Any]] | Sequence[str]
"""Axes by key, as {"seed": range(3)}, or as on the command line, ["seed=0..2"]."""
QUICKSTART = "quickstart"


def plan(
    study: Place,
    file: Place | None = None,
    *,
    preset: str | None = None,
    settings_from: str | None = None,
    profile: str | None = None,
    tuned: Place | None = None,
    config: "Config | Place | None" = None,
    origin: str | None = None,
    over: Over = (),
    settings: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    plugins: Sequence[Place] = (),
    models: Sequence[Place] = (),
    metrics: Sequence[Place] = (),
    extend: bool = False,
    sessions_dir: Place | None = None,
) -> "Plan":
    """Plan a study: its folder, and all points in order with their configurations. Writes nothing.

    Most arguments are as in `hs.sweep`. file: for a study of this name. tuned: without other axes, the study has the
    methods and final seeds of that one. config: a TOML file, or a whole configuration. settings: by dotted key; None
    has no effect. models: may also be names, for the group. Options are merged into an existing study; a whole
    configuration replaces it.

    Raises ConfigError with the point's name for invalid settings and for a study that would change; SessionUnreadable
    if there is no study and no argument describes one.
    """
    from simulator.studies.sweep import plan as planned

    files, group = named_files(plugins, models, metrics)
    folder, asked, where = _asked(study, file, folders.sessions_dir(sessions_dir))
    if tuned is not None:
        if any([preset, settings_from, profile, config is not None, origin, asked is not None]):
            raise ConfigError(
                "`tuned` describes a whole new study. Leave out presets, files, and `origin`, and choose a new name."
            )
        asked, where = _with_choices(tuned, folder.parent)
    origin = _origin(origin, folder.parent) if origin else None
    settings, axes, is_whole = dict(settings or {}), _axes(over), _is_whole(config)
    measured = () if is_whole else files.metrics
    if asked is not None:
        theirs, named = asked.files, Names(Path())
        named.raw(_settings(settings, (), assignments))
        for key, value in ((key, value) for key, each in axes.items() for value in each):
            named.value(key, value)
        asked = replace(asked, files=theirs.confirmed(files | named.files, where))
        # To name a study's own file again is no new setting.
        measured = measured if _names(measured) - _names(theirs.metrics) else ()
        if _names([str(settings.get(SELECTION))]) <= _names(theirs.selections):
            settings.pop(SELECTION, None)
    given = _settings({**settings, GROUP: group or None}, measured, assignments)
    if any([preset, settings_from, profile, config is not None, origin, over, files != Files(), given]):
        if preset and config is not None:
            raise ConfigError(
                "`preset` and `config` both name a whole run; give one of them, and settings for the rest."
            )
        if asked is None or is_whole:
            asked = StudySpec(preset=None if origin or config is not None else QUICKSTART)
        if origin:
            asked = replace(asked, origin=origin, preset=None, profile=None, settings_from=None)
        if preset:
            asked = replace(asked, preset=preset, origin=None)
        if config is not None:
            raw = read_toml(Path(config)) if isinstance(config, str | Path) else config.to_json()
            whole = merged(asked.config, raw)
            asked = replace(asked, preset=None, settings_from=None, origin=None, config=whole)
        asked = replace(
            asked,
            profile=profile or asked.profile,
            settings_from=settings_from or asked.settings_from,
            config=merged(asked.config, given),
            over={**asked.over, **axes},
            files=asked.files | files,
        )
        asked = _with_datasets_found(asked).with_names(Names(Path()))
    if asked is None:
        known = [*(path.name for path in checkpoints.groups(folder.parent)), *shipped_studies()]
        raise SessionUnreadable(
            f"There is no study '{study}' in {folder.parent}.{nearest(str(study), known)} Begin one: "
            f"`htfl-sim sweep {study} --over seed=0..2`."
        )
    return planned(folder, asked, extend)


def check(planned: "Plan", data_dir: Place | None = None) -> None:
    """Check what the points need before any runs: local data, and models that their methods can run.

    Points that have begun are not checked. Raises ConfigError with the point's name, and DataError.
    """
    if unbegun := planned.unbegun:
        from simulator.studies.checking import check as tried

        tried(unbegun, planned.folder.parent, folders.data_folder(data_dir))


def cost(planned: "Plan", data_dir: Place | None = None) -> "list[Cost]":
    """The remaining cost of every point: rounds, floating-point operations of training, and seconds on this machine.

    Counts the operations of one round of every kind of point, and times one round.
    """
    from simulator.studies.checking import costs

    return costs(planned.folder, planned.points, folders.data_folder(data_dir))


@dataclass(frozen=True)
class Script:
    """A study's script for Slurm. kept: it existed, and only its line --array was updated, if it has one."""

    file: Path
    kept: bool


def write_slurm(planned: "Plan", launched: Launch, jobs: int | None = None) -> Script:
    """Prepare a study for Slurm and write its array script, with at most `jobs` points at once.

    Raises ConfigError for points that Slurm cannot run, and DiskError.
    """
    from simulator.studies import slurm

    slurm.check(planned.folder, planned.points)
    with planned.open() as group:
        return Script(*slurm.write(group, planned.points, launched, jobs, has_gpu()))


def has_gpu() -> bool:
    """Whether this machine has a CUDA device."""
    from simulator.base.tensors import select_device

    return select_device("auto").type == "cuda"


def open_point(planned: "Plan", number: int, launched: Launch) -> "Session | None":
    """The session of one point, counted from 0, to run here; None if it is finished. Raises ConfigError and Locked."""
    name, points = planned.folder.name, planned.points
    if not planned.listed:
        raise ConfigError(
            f"study {name} has no such point yet. Prepare it with `htfl-sim sweep {name} …` and the same options."
        )
    if number >= len(points):
        raise ConfigError(f"study {name} has the points 0 to {len(points) - 1}, and no point {number}.")
    point = points[number]
    if status_of(planned.folder, point).state == FINISHED:
        return None
    from simulator.studies.point import opened

    return opened(planned.folder, point, launched)


def status(study: Place, sessions_dir: Place | None = None) -> list[Status]:
    """The status of every point of a study, from its files alone. Raises SessionUnreadable if there is no study."""
    folder = folders.study_folder(study, sessions_dir)
    if folder is None:
        raise SessionUnreadable(f"there is no study {study}; hs.sweep makes one.")
    return [status_of(folder, point) for point in read_points(folder)]


def linked(study: Place, sessions_dir: Place | None = None) -> dict[str, str]:
    """The points of a study that use the session of an identical run, with that session's name."""
    folder = folders.study_folder(study, sessions_dir)
    points = read_points(folder) if folder else ()
    return {
        point.name: point.link["session"]
        for point in points
        if folder and point.link and session_of(folder, point) != folder / point.name
    }


def _asked(study: Place, file: Place | None, sessions_dir: Path) -> tuple[Path, StudySpec | None, Path]:
    """The study's folder, which may not exist yet, the settings in its file or folder, and the path of that file."""
    if file is None and (found := folders.study_folder(study, sessions_dir)):
        return found.absolute(), read_study(found), found / STUDY
    source = str(file or study)
    path = Path(source).expanduser()
    if source in shipped_studies() and not path.is_file():
        path = shipped_file(source)
    elif path.suffix != ".toml" and not path.is_file():
        if file is not None:
            raise ConfigError(
                f"there is no study file '{file}'.{nearest(source, shipped_studies())} "
                f"Shipped with htfl-sim: {', '.join(shipped_studies())}."
            )
        return _new(study, sessions_dir), None, path
    return _new(path.stem if file is None else study, sessions_dir), StudySpec.read(path), path


def _with_choices(tuned: Place, sessions_dir: Path) -> tuple[StudySpec, Path]:
    """The study of a tuning study's choices, and the path of that study's file."""
    from simulator.studies.tuning import with_choices

    folder = folders.study_folder(tuned, sessions_dir)
    if folder is None:
        known = [path.name for path in checkpoints.groups(sessions_dir)]
        raise SessionUnreadable(f"There is no study '{tuned}' in {sessions_dir}.{nearest(str(tuned), known)}")
    return with_choices(folder), folder / STUDY


def _new(study: Place, sessions_dir: Path) -> Path:
    """The folder of a new study: a path, or a name in the folder of sessions."""
    if isinstance(study, Path):
        return study.expanduser().absolute()
    return (sessions_dir / folders.checked_name(study)).absolute()


def _names(files: Iterable[str]) -> set[str]:
    return {Path(file).name for file in files}


def _axes(over: Over) -> dict[str, tuple[Any, ...]]:
    if not isinstance(over, Mapping):
        return dict(axis(each) for each in over)
    found = {}
    for key, each in over.items():
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise ConfigError(f"over['{key}'] is {each!r}; an axis takes a list of values, as [{each!r}].")
        dotted = key.replace("__", ".")
        found[dotted] = values(dotted, list(each))
    return found


def _is_whole(config: "Config | Place | None") -> bool:
    """Whether this configuration is complete, unlike a file, which may leave out keys."""
    return config is not None and not isinstance(config, str | Path)


def _settings(given: Mapping[str, Any], metrics: Sequence[str], assignments: Sequence[str]) -> Raw:
    """The settings as nested values, without those of None. The assignments win."""
    raw: Raw = {}
    for key, value in given.items():
        if value is not None:
            put(raw, key, value)
    if metrics:
        put(raw, "evaluation.metrics", [Path(file).stem for file in metrics])
    return with_overrides(raw, assignments)


def named_files(
    plugins: Sequence[Place],
    models: Sequence[Place],
    metrics: Sequence[Place],
    selections: Sequence[Place] = (),
) -> tuple[Files, list[str]]:
    """The user's named files, and the group of models. A file alone defines no group."""
    names = Names(Path())
    named = [str(each) for each in models]
    group = [names.value(GROUP, each) for each in named if not each.endswith(".py")]
    alone = [each for each in named if each.endswith(".py")]
    given = (
        tuple(names.path(str(each)) for each in files) for files in (plugins, alone, metrics, selections)
    )
    return names.files | Files(*given), group


def _origin(text: str, sessions_dir: Path) -> str:
    """'SESSION@ROUND' of an existing session: by its name in the folder of sessions, or else by its whole path."""
    session, round = origin_of(text)
    folder = folders.session_folder(session, sessions_dir).absolute()
    known = checkpoints.sessions_folder(folder) == sessions_dir
    return f"{checkpoints.name_of(folder) if known else folder}@{round}"


def _with_datasets_found(study: StudySpec) -> StudySpec:
    """A user's own data by their absolute paths, so that a resume from another folder finds them."""
    from simulator.data import datasets

    over, config = dict(study.over), merged(study.config, {})
    for key in ("dataset", "public"):
        if (axis := f"data.{key}") in over:
            over[axis] = tuple(
                datasets.absolute(each) if isinstance(each, str) else each for each in over[axis]
            )
        if isinstance(data := config.get("data"), dict) and isinstance(name := data.get(key), str):
            data[key] = datasets.absolute(name)
    return replace(study, over=over, config=config)


Progress = bool | Callable[[Sequence[Status]], None]
"""False: no output. True: one line per finished point, or a bar in a notebook.

A function often receives the points' states.
"""


class Study:
    """An existing study, as its files have it now. Its sessions are read without torch.

    `place` is its folder, or its name in $HTFL_SESSIONS, or else in ./sessions. Raises SessionUnreadable of the room
    `checkpoints` if there is none.
    """

    def __init__(self, place: Place, data_dir: Place | None = None) -> None:
        self.path = folders.place_of(place)
        self._data_dir = data_dir
        if not checkpoints.is_group(self.path):
            raise checkpoints.SessionUnreadable(f"there is no study {self.path}; hs.sweep makes one.")

    def __repr__(self) -> str:
        begun = self.sessions.values()
        done = sum(each.state == "finished" for each in begun)
        return f"<Study {self.path}: {done} of {len(self.points)} points finished>"

    @property
    def points(self) -> list[str]:
        """The points' names, in the study's order."""
        return [point.name for point in read_points(self.path)]

    @property
    def sessions(self) -> dict[str, Results]:
        """The sessions of the points that have begun, by the points' names."""
        folders = {point.name: session_of(self.path, point) for point in read_points(self.path)}
        return {
            name: Results(folder, self._data_dir)
            for name, folder in folders.items()
            if checkpoints.is_session(folder)
        }

    def table(
        self,
        by: str | Sequence[str] = (),
        target: float | None = None,
        baseline: str | None = None,
        select: Select | None = None,
    ) -> Table:
        """The points as one table, as `htfl-sim compare` prints it: `.rows`, `.to_latex()`, `.to_markdown()`, …

        by: 'method', or any setting; by default, the settings that differ. Raises ConfigError.
        """
        return comparison.table(self._moments(), by, target, baseline, select)

    def gains(self, by: str | Sequence[str] = (), baseline: str = "standalone", **options: Any) -> GainTable:
        """Who gains over a baseline method, as `hs.gains` says it; options: last, margin, test, correct.

        Raises ConfigError.
        """
        return gain.gains(self._moments(), by, baseline, **options)

    def records(self) -> "DataFrame":
        """One row per point and round: `point`, the study's axes, and the columns of `Results.records`."""
        import pandas

        axes = {point.name: point.axes for point in read_points(self.path)}
        frames = []
        for name, session in self.sessions.items():
            frame = session.records()
            for place, (column, value) in enumerate({"point": name, **axes[name]}.items()):
                shown = value if not isinstance(value, list) else tuple(value)
                if column in frame.columns:
                    frame = frame.drop(columns=column)
                frame.insert(place, column, [shown] * len(frame))
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()

    @property
    def status(self) -> list[Status]:
        """The status of every point, also of those that have not begun."""
        return status(self.path)

    def plot(self, kind: comparing.Kind = "accuracy", **options: Any) -> "Figure":
        """A matplotlib figure of the points, as `hs.plot` draws it. Each kind has its own options, such as `by` and
        `x`.

        Warns if groups differ in training or data settings, and if a group is a mean over several settings. Raises
        ConfigError.
        """
        return comparing.plot_runs(kind, self._moments(), options, self._data_dir)

    def export(
        self,
        out: Place | None = None,
        to: "Target" = "csv",
        *,
        what: Literal["rounds", "clients", "cka"] = "rounds",
        project: str = "htfl-sim",
    ) -> dict[str, int]:
        """Export the rounds of every point that has begun. Returns their numbers by the points' names.

        `out` is a folder, by default with the study's name. Each point becomes POINT.csv or, for TensorBoard, a folder.
        For W&B and MLflow, each point is a run of `project`. Raises like `Results.export`.
        """
        folder = Path(out or self.path.name)
        places: dict[str, Path | None] = dict.fromkeys(self.sessions)
        if to in ("csv", "tensorboard"):
            folder.mkdir(parents=True, exist_ok=True)
            places = {name: folder / (f"{name}.csv" if to == "csv" else name) for name in places}
        return {
            name: each.export(to, places[name], what=what, project=project)
            for name, each in self.sessions.items()
        }

    def _moments(self) -> list[Moment]:
        found = select([str(self.path)], self.path.parent)
        runs = [
            replace(read(path), trial=trial, studies=found.studies[path])
            for path, trial in found.sessions.items()
        ]
        begun = [each for each in runs if each.round]
        if not begun:
            raise ConfigError(f"no point of {self.path} has finished a round yet.")
        return begun


def sweep(
    place: Place,
    config: "Config | Place | None" = None,
    over: Over = (),
    *,
    file: Place | None = None,
    preset: str | None = None,
    settings_from: str | None = None,
    profile: str | None = None,
    tuned: Place | None = None,
    origin: str | None = None,
    on: Literal["here", "ray"] = "here",
    jobs: int | None = None,
    extend: bool = False,
    plugins: Sequence[Place] = (),
    models: Sequence[Place] = (),
    metrics: Sequence[Place] = (),
    workers: int | None = None,
    device: str | None = None,
    allow_inexact: bool = False,
    steal: bool = False,
    reuse: bool | None = None,
    data_dir: Place | None = None,
    progress: Progress = False,
    **settings: Any,
) -> Study:
    """Run a study: one session for every combination of values, each in its own process, as `htfl-sim sweep` does.

    over: values by key, as {"method": ["fedgh", "fedssa"], "method__mu": [0.5, 0.7], "seed": range(3)}. A method's own
    settings in `config` apply to the points of that method. Instead of `config`, give one of these. `preset` may name
    axes, as '{method}_htm5'; `settings_from` is then a preset whose training, data, and federation settings all points
    take. `tuned` is a tuning study whose chosen values the methods have. `file` is a study file, or the name of a
    shipped study. `origin`, 'SESSION@ROUND', is where every point
    branches off. `settings` override all of these, with two underscores for the dot.

    Another call continues the study: finished points are skipped, others resumed. `hs.sweep(place)` alone does the
    same. `extend` permits more points. plugins, models, metrics: your own files with methods, models, and metrics. Each
    process loads them, and the study stores their SHA-256. An axis may name one as `run` does. on, jobs: on this
    machine, one point runs at a time, or `jobs` at once. On a Ray cluster, as many as fit run at once, or at most
    `jobs`.

    reuse: a point uses the finished session of an identical run instead of computing it. None: only a
    session of this study. True: any session in the sessions folder. Points on Ray always compute.

    An interrupt stops every point between two clients and raises KeyboardInterrupt. The same call continues. Raises
    ConfigError, before anything runs, for invalid settings and for another study of this name. Raises PointsFailed, a
    SessionError with their `reasons` by name, if points failed, after the others have run.
    """
    is_name = isinstance(place, str) and (Path(place).name == place or place.endswith(".toml"))
    planned = plan(
        place if is_name else Path(place),
        file,
        preset=preset,
        settings_from=settings_from,
        profile=profile,
        tuned=tuned,
        config=config,
        origin=origin,
        over=over,
        settings={key.replace("__", "."): each for key, each in settings.items()},
        plugins=plugins,
        models=models,
        metrics=metrics,
        extend=extend,
    )
    check(planned, data_dir)
    data = folders.data_folder(data_dir).absolute()
    launched = Launch(data, workers, device, planned.study.files, allow_inexact, reuse)
    with shown.heeded() as interrupt, shown.points(progress) as observe:
        outcome = carry_out(
            planned,
            launched,
            on=on,
            jobs=jobs,
            observe=observe,
            stop=interrupt.reason,
            say=warnings.warn,
            steal=steal,
        )
    if interrupt.came:
        raise KeyboardInterrupt
    if outcome.failed:
        raise PointsFailed({each.name: each.reason for each in outcome.failed}, len(planned.points))
    return Study(planned.folder, data_dir)
