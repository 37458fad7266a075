"""Studies: many sessions over methods, settings, and seeds. They run as processes, and are read as one."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import checkpoints
from htfl_sim import comparing, shown, studies
from htfl_sim.folders import place_of
from htfl_sim.interrupts import heeded
from htfl_sim.results import Place, Results
from simulator.base.errors import ConfigError, PointsFailed
from simulator.results.analysis.comparison import table
from simulator.results.analysis.feed import read
from simulator.results.analysis.gain import GainTable, gains
from simulator.results.analysis.run import SessionData as Moment
from simulator.results.analysis.table import Select, Table
from simulator.studies.folder import read_points, session_of
from simulator.studies.selection import select

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from htfl_sim.studies import Over
    from simulator.config import Config
    from simulator.results.export.sinks import Target
    from simulator.studies.folder import Status

Progress = bool | Callable[[Sequence["Status"]], None]
"""False: no output. True: one line per finished point, or a bar in a notebook.

A function often receives the points' states.
"""


class Study:
    """An existing study, as its files have it now. Its sessions are read without torch.

    `place` is its folder, or its name in $HTFL_SESSIONS, or else in ./sessions. Raises SessionUnreadable of the room
    `checkpoints` if there is none.
    """

    def __init__(self, place: Place, data_dir: Place | None = None) -> None:
        self.path = place_of(place)
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
        return table(self._moments(), by, target, baseline, select)

    def gains(self, by: str | Sequence[str] = (), baseline: str = "standalone", **options: Any) -> GainTable:
        """Who gains over a baseline method, as `hs.gains` says it; options: last, margin, test, correct.

        Raises ConfigError.
        """
        return gains(self._moments(), by, baseline, **options)

    def records(self) -> "DataFrame":
        """One row per point and round: `point`, the study's axes, and the columns of `Results.records`."""
        import pandas

        axes = {point.name: point.axes for point in read_points(self.path)}
        frames = []
        for name, session in self.sessions.items():
            frame = session.records()
            for place, (axis, value) in enumerate({"point": name, **axes[name]}.items()):
                shown = value if not isinstance(value, list) else tuple(value)
                if axis in frame.columns:
                    frame = frame.drop(columns=axis)
                frame.insert(place, axis, [shown] * len(frame))
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()

    @property
    def status(self) -> "list[Status]":
        """The status of every point, also of those that have not begun."""
        return studies.status(self.path)

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
    over: "Over" = (),
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
    planned = studies.plan(
        _asked(place),
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
    studies.check(planned, data_dir)
    launched = studies.launch(
        planned, workers=workers, device=device, allow_inexact=allow_inexact, data_dir=data_dir, reuse=reuse
    )
    with heeded() as interrupt, shown.points(progress) as observe:
        outcome = studies.carry_out(
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


def _asked(place: Place) -> Place:
    """A study's name or file, unchanged; anything else is a path."""
    is_name = isinstance(place, str) and (Path(place).name == place or place.endswith(".toml"))
    return place if is_name else Path(place)
