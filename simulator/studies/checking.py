"""Check what points need before any of them runs, and estimate what they cost.

Costs are operations counted by step, and seconds from one timed round, or from a point's ledger. A client takes one
step of every kind (phase, batch size); the other steps cost as many. All rounds of a point count like its first.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import checkpoints
from simulator.base import own_files
from simulator.base.documents import OwnFile
from simulator.base.errors import ConfigError, MethodError, SessionError
from simulator.base.nested import Raw, merged
from simulator.base.record import Record
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.progress import unobserved
from simulator.engine.round import Engine
from simulator.metrics.evaluation import measured_parts
from simulator.runners import LocalUpdate, Work, local
from simulator.runners.in_process import SequentialRunner
from simulator.sessions import metadata
from simulator.sessions.reader import CheckedReader
from simulator.studies.folder import Status, session_of, status_of
from simulator.studies.study import Point, StudySpec, settings_after
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Phase


def needed(config: Raw) -> tuple[OwnFile, ...]:
    """Kind, name, and SHA-256 of each file that a point lists. The files must be loaded."""
    return tuple(metadata.needed_files(Config.read(config)))


def refuse_unnamed(study: StudySpec, points: Iterable[Point]) -> None:
    """Raise ConfigError if a point needs a loaded file that the study does not name, so that its process lacks it."""
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
    """Raise SessionError unless every file in a point's list is loaded, or exists with the same bytes."""
    for point in points:
        files = needed(point.config) if point.files else ()
        present = {(file["kind"], file["name"]): file["sha256"] for file in files}
        _refuse_unlike(study, point, present)
        for file in point.files:
            kind, name = file["kind"], file["name"]
            if (kind, name) not in present:
                raise SessionError(
                    f"the points of study {study.name} need the {kind} file {name}, which is missing. "
                    "Put it back."
                )


def refuse_other_code(study: Path, points: Iterable[Point], files: Files) -> None:
    """Raise SessionError for a Python file with other bytes than a point's list says. Runs nothing."""
    present: dict[tuple[str, str], str] = {
        (kind, Path(path).name): own_files.read(kind, Path(path))[0].sha256
        for kind, paths in files
        for path in paths
    }
    for point in points:
        _refuse_unlike(study, point, present)


def _refuse_unlike(study: Path, point: Point, present: Mapping[tuple[str, str], str]) -> None:
    for file in point.files:
        kind, name, listed = file["kind"], file["name"], file["sha256"]
        if (found := present.get((kind, name), listed)) != listed:
            raise SessionError(
                f"the {kind} file {name} is not the one that study {study.name} was made with (sha256 {listed[:12]}…, "
                f"not {found[:12]}…). Restore the original, or choose another name for the study."
            )


def check(points: Iterable[Point], sessions_dir: Path, data_dir: Path, *, on_eval: bool = False) -> None:
    """Build every kind of point. on_eval: it must measure eval. Raises ConfigError with the point's name, DataError."""
    kinds: dict[bytes, Point] = {}
    for point in points:
        kinds.setdefault(_kind(point), point)
    builder = Builder(sessions_dir, data_dir)
    for point in kinds.values():
        config = on_cpu(point)
        try:
            built = builder.built(point, config, foundation(config))
            metadata.check_recordable(config, built)
            if point.branch is None:
                metadata.check_read(config, built.data)
            if on_eval:
                _check_eval(config, built)
        except ConfigError as error:
            raise ConfigError(f"point {point.name}: {error}") from error


def _check_eval(config: Config, built: Built) -> None:
    """Raise ConfigError if a trial has no eval accuracy."""
    if "eval" in measured_parts(config.evaluation, built.data):
        return
    if any(len(client.part("eval")) for client in built.data.clients):
        raise ConfigError(
            "evaluation.parts leaves out eval, on which trials are scored. Test data decide nothing. Use "
            '`evaluation.parts=["eval", "test"]`, or leave it out.'
        )
    raise ConfigError(
        f"data.split = '{config.data.split}' has no eval part, on which trials are scored. Test data decide nothing. "
        "Use a split of three parts: `data.split=8:1:1`."
    )


def begun(point: Point, config: Config, sessions_dir: Path, data_dir: Path) -> Built:
    """Check where a point starts. Raises ConfigError, DataError, and SessionError if its parent used other data."""
    if point.branch is None:
        return build(config, data_dir)
    parent = CheckedReader(sessions_dir / point.branch["parent"])
    before, since = settings_after(parent, point.branch["round"])
    before = Config.read(merged(before.to_json(), {"runtime": {"device": config.runtime.device}}))
    built = build(before, data_dir, since)
    metadata.check_data(parent, before, built.data)
    built.engine.close()
    replaced = config.method.name != before.method.name
    return rebuild(built, config, point.branch["round"] if replaced else None)


def on_cpu(point: Point) -> Config:
    return Config.read(merged(point.config, {"runtime": {"device": "cpu"}}))


def _kind(point: Point) -> bytes:
    branch = point.branch
    if branch is not None:
        others = [each for each in branch["set"] if not each.startswith(("seed=", "seed."))]
        branch = {**branch, "set": others}
    return checkpoints.canonical({**point.config, "seed": None, "preset": None, "branch": branch})


def foundation(config: Config) -> bytes:
    raw = config.to_json()
    return checkpoints.canonical(
        {**{key: raw[key] for key in ("data", "federation", "models")}, "seed": config.data_seed}
    )


_LITTLE = {"evaluation": {"clients": 1}, "cka": {"every": 0}}
"""Settings of a counted round, which is not timed. The count excludes evaluation."""


@dataclass(frozen=True)
class Cost:
    """The remaining cost of a point: rounds, floating-point operations of training, and seconds on this machine."""

    name: str
    rounds: int
    flops: float
    seconds: float


def costs(folder: Path, points: Sequence[Point], data_dir: Path) -> list[Cost]:
    """Of every point, in order; finished rounds cost nothing. Raises ConfigError or DataError."""
    statuses = [status_of(folder, point) for point in points]
    left = [max(status.rounds - status.round, 0) for status in statuses]
    kinds, counted = [_counted_kind(point) for point in points], dict[bytes, float]()
    builder = Builder(folder.parent, data_dir)
    for point, rounds, kind in zip(points, left, kinds, strict=True):
        if rounds and kind not in counted:
            counted[kind] = builder.flops(point)
    rate = rate_of(folder, points, statuses, data_dir) if counted else 1.0
    flops = [rounds * counted[kind] if rounds else 0.0 for rounds, kind in zip(left, kinds, strict=True)]
    return [
        Cost(point.name, rounds, each, each / rate)
        for point, rounds, each in zip(points, left, flops, strict=True)
    ]


def rate_of(folder: Path, points: Sequence[Point], statuses: Sequence[Status], data_dir: Path) -> float:
    """Operations per second: of a point's last round, or of a trial round of the first point."""
    for point, status in zip(points, statuses, strict=True):
        if not status.round:
            continue
        session = CheckedReader(session_of(folder, point))
        record = session.last_record(session.newest())
        if record and record["flops"]["total"]:
            return float(record["flops"]["total"] / record["timing"]["seconds"])
    config = Config.read(points[0].config)
    record, seconds = _round(begun(points[0], config, folder.parent, data_dir))
    return float(record["flops"]["total"]) / seconds or 1.0


class Builder:
    """Builds points, and loads the data of those with one key once."""

    def __init__(self, sessions_dir: Path, data_dir: Path) -> None:
        self._sessions_dir, self._data_dir = sessions_dir, data_dir
        self._built: dict[bytes, Built] = {}

    def built(self, point: Point, config: Config, key: bytes) -> Built:
        """A point's parts; its engine is closed."""
        if key in self._built:
            built = rebuild(self._built[key], config)
        else:
            built = begun(point, config, self._sessions_dir, self._data_dir)
            self._built = {key: built}  # one data set at a time
        built.engine.close()
        return built

    def flops(self, point: Point) -> float:
        """The operations in a round."""
        config = Config.read(merged(point.config, {**_LITTLE, "runtime": {"device": "cpu"}}))
        key = foundation(config) if point.branch is None else point.name.encode()
        return _counted(config, self.built(point, config, key))


def _counted(config: Config, built: Built) -> float:
    counting = _CountingEngine(config, built.federation, built.data, built.method)
    try:
        record, _ = _round(built._replace(engine=counting))
    except MethodError:
        # the method needs more of a round than one step of each kind
        record, _ = _round(built._replace(engine=Engine(config, built.federation, built.data, built.method)))
    return float(record["flops"]["total"])


def _round(built: Built) -> tuple[Record, float]:
    state = built.engine.initial_state()
    began = time.perf_counter()
    record = built.engine.round(state, unobserved).record
    seconds = time.perf_counter() - began
    built.engine.close()
    assert record is not None
    return record, seconds


def _counted_kind(point: Point) -> bytes:
    """The settings that determine the operations of a round."""
    others = ("seed", "rounds", "preset", "runtime")
    return checkpoints.canonical({key: each for key, each in point.config.items() if key not in others})


class _CountingEngine(Engine):
    """An engine whose clients take one step of each kind."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._runner.close()
        self._runner = _CountingRunner(self._runner.context, self._config.runtime)


class _CountingRunner(SequentialRunner):
    def compute(self, work: Work, client: int) -> LocalUpdate:
        job = work.jobs[client]
        local_client = _CountingClient(self.context, self.info(client), work.round, job.tensors)
        if job.payload is not None:
            work.hooks.receive(local_client, job.payload)
        phases = [replace(phase, collect_after=0) for phase in work.hooks.phases(local_client)]
        prepared = local.Prepared(work.hooks, job, local_client, phases)
        for _ in local.train(prepared):
            pass
        return local.finish(prepared)


class _CountingClient(LocalClient):
    """A client that takes one step for all steps of a phase with the same size."""

    _steps: Mapping[Hashable, int] = {}

    def batches(self, phase: Phase) -> Iterator[Batch]:
        if phase.batches is not None:
            firsts = {len(batch.y): batch for batch in reversed(phase.batches)}
            counts = Counter(len(batch.y) for batch in phase.batches)
        else:
            samples, counts = self.samples(phase), Counter(self.sizes(phase))
            firsts = {size: self.batch(samples[:size]) for size in counts}
        self._steps = {(phase.name, size): count for size, count in counts.items()}
        yield from firsts.values()

    @contextlib.contextmanager
    def step(self, name: str, batch_size: int) -> Iterator[None]:
        before = self.flops
        with super().step(name, batch_size):
            yield
        self.flops += (self._steps.get((name, batch_size), 1) - 1) * (self.flops - before)
