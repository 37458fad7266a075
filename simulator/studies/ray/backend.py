"""The Ray cluster that runs the points of a study, and the resources of each point."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from checkpoints import Group
from simulator.base.errors import ConfigError
from simulator.runners.ray import cluster
from simulator.runners.ray.cluster import Needs
from simulator.studies.executor import Backend, Launch
from simulator.studies.ray.consistency import refuse_mixed
from simulator.studies.ray.executor import OnNodes
from simulator.studies.study import Point

COUNT_SECONDS = 5.0
"""Seconds between two counts of the nodes."""


class OnRay(Backend):
    """A cluster, or a Ray instance that the sweep starts on this machine."""

    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        self._launch, self._jobs = launch, jobs
        self._counted, self._room = -math.inf, 1
        self._started = False
        self._shares: dict[tuple[int, float], int] = {}
        address = _address(points)
        _refuse_ray_in_ray(points)
        self._started = cluster.connect(address)
        try:
            self._has_gpus = cluster.has_gpus()
            self._needs = {point.name: self._needed(point, len(points)) for point in points}
            for needs, name in {needs: name for name, needs in self._needs.items()}.items():
                _refuse_too_small(address, needs, name)
                if not launch.allow_inexact:
                    refuse_mixed(needs)
        except BaseException:
            self._let_go()
            raise
        shares = {point.config["runtime"].get("gpus_per_point", 1.0) for point in points}
        if shares - {1.0} and not any(needs.gpus for needs in self._needs.values()):
            self.warnings = [
                f"runtime.gpus_per_point = {min(shares):g} changes nothing here: no point computes on a GPU."
            ]

    def executor(self, group: Group) -> OnNodes:
        return OnNodes(group, self._launch, self._needs, self.room)

    def room(self) -> int:
        """The number of points that fit. At least one, which then waits until it fits."""
        if (now := time.monotonic()) - self._counted > COUNT_SECONDS:
            self._counted = now
            with suppress(Exception):  # if Ray is gone, the running points report it
                self._room = max(1, *map(cluster.room, set(self._needs.values())))
        return self._room if self._jobs is None else min(self._jobs, self._room)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _needed(self, point: Point, points: int) -> Needs:
        runtime = point.config["runtime"]
        threads = int(runtime["threads_per_client"])
        device = self._launch.device or runtime["device"]
        on_gpu = device == "cuda" or (device == "auto" and self._has_gpus)
        gpus = float(runtime.get("gpus_per_point", 1.0)) if on_gpu else 0.0
        workers = self._launch.workers_of(point)
        if workers is None:
            workers = self._share(threads, gpus, min(self._jobs, points)) if self._jobs else 1
        return Needs(workers * threads, gpus)

    def _share(self, threads: int, gpus: float, at_once: int) -> int:
        """Clients to train at a time so that this number of points fits."""
        if (threads, gpus) not in self._shares:
            most = cluster.most_cores() // threads
            fitting = (
                each for each in range(most, 1, -1) if cluster.room(Needs(each * threads, gpus)) >= at_once
            )
            self._shares[threads, gpus] = next(fitting, 1)
        return self._shares[threads, gpus]

    def _let_go(self) -> None:
        if self._started:
            self._started = False
            cluster.disconnect()


def _address(points: Sequence[Point]) -> str:
    addresses = dict.fromkeys(str(point.config["runtime"]["address"]) for point in points)
    if len(addresses) > 1:
        raise ConfigError(
            f"the points name {len(addresses)} clusters ({', '.join(addresses)}), but a sweep uses one. Choose it "
            "with `runtime.address=ADDRESS`."
        )
    return next(iter(addresses), cluster.LOCAL)


def _refuse_too_small(address: str, needs: Needs, point: str) -> None:
    if not cluster.room(needs):
        raise ConfigError(
            f"the Ray cluster at '{address}' is too small: no node has {needs} for point {point}. Use "
            "a smaller runtime.workers, a smaller runtime.gpus_per_point, or another cluster."
        )


def _refuse_ray_in_ray(points: Sequence[Point]) -> None:
    for point in points:
        if point.config["runtime"]["runner"] == "ray":
            raise ConfigError(
                f"point {point.name} trains its clients on Ray (runtime.runner), so it cannot run on Ray itself. Leave "
                "out `on='ray'`, or use another runner."
            )
