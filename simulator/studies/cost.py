"""Estimate the cost of a study's points before they run: operations counted by step, seconds from one timed round.

A client takes one step of every kind (phase, batch size); the other steps cost as many operations. One full round is
timed, or read from a point's ledger. All other operations are assumed to take the same time each. All rounds of a
point count like its first.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import checkpoints
from simulator.base.errors import MethodError
from simulator.base.nested import merged
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import Built, rebuild
from simulator.engine.progress import unobserved
from simulator.engine.round import Engine
from simulator.runners import LocalUpdate, Work, local
from simulator.runners.sequential import SequentialRunner
from simulator.sessions.reader import CheckedReader
from simulator.studies.checking import begun, foundation
from simulator.studies.links import session_of
from simulator.studies.status import Status
from simulator.studies.study import Point
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Phase

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
    """The cost of every point of the study in `folder`, in order. Finished rounds cost nothing.

    Raises ConfigError or DataError for a point that cannot run.
    """
    statuses = [Status(point.name, point.rounds).read(session_of(folder, point)) for point in points]
    left = [max(status.rounds - status.round, 0) for status in statuses]
    counted: dict[bytes, float] = {}
    counter = RoundCounter(folder.parent, data_dir)
    for point, rounds in zip(points, left, strict=True):
        if rounds and (kind := _kind(point)) not in counted:
            counted[kind] = counter.flops(point)
    rate = rate_of(folder, points, statuses, data_dir) if counted else 1.0
    found = []
    for point, rounds in zip(points, left, strict=True):
        flops = rounds * counted[_kind(point)] if rounds else 0.0
        found.append(Cost(point.name, rounds, flops, flops / rate))
    return found


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


class RoundCounter:
    """Counts the operations in a round of points, and loads the data of equal ones once."""

    def __init__(self, sessions_dir: Path, data_dir: Path) -> None:
        self._sessions_dir, self._data_dir = sessions_dir, data_dir
        self._built: dict[bytes, Built] = {}

    def flops(self, point: Point) -> float:
        """Operations in a round of a point."""
        config = Config.read(merged(point.config, {**_LITTLE, "runtime": {"device": "cpu"}}))
        key = foundation(config) if point.branch is None else b""
        if point.branch is None and key in self._built:
            built = rebuild(self._built[key], config)
        else:
            built = begun(point, config, self._sessions_dir, self._data_dir)
            self._built = {key: built}  # one data set at a time
        built.engine.close()
        return _counted(config, built)


def _counted(config: Config, built: Built) -> float:
    counting = _CountingEngine(config, built.federation, built.data, built.method)
    try:
        record, _ = _round(built._replace(engine=counting))
    except MethodError:
        # the method needs more of a round than one step of each kind
        record, _ = _round(built._replace(engine=Engine(config, built.federation, built.data, built.method)))
    return float(record["flops"]["total"])


def _round(built: Built) -> tuple[Record, float]:
    """The first round's record and seconds."""
    state = built.engine.initial_state()
    began = time.perf_counter()
    record = built.engine.round(state, unobserved).record
    seconds = time.perf_counter() - began
    built.engine.close()
    assert record is not None
    return record, seconds


def _kind(point: Point) -> bytes:
    """The settings that determine the operations of a round."""
    kept = {
        key: value
        for key, value in point.config.items()
        if key not in ("seed", "rounds", "preset", "runtime")
    }
    return checkpoints.canonical(kept)


class _CountingEngine(Engine):
    """An engine whose clients take one step of each kind."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._runner.close()
        self._runner = _CountingRunner(self._runner.context, self._config.runtime)


class _CountingRunner(SequentialRunner):
    """Runs clients in order and counts the operations of each."""

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
