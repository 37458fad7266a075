"""The Ray cluster that runs the points of a study, the resources of each point, and whether nodes give the same bits.

Points of a study are compared with each other, so the nodes must compute the same bits. A thread of this process
watches each point.
"""

import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from checkpoints import Group
from simulator.base.environment import environment, inexact
from simulator.base.errors import ConfigError, HtflError
from simulator.runners.ray import cluster
from simulator.runners.ray.cluster import Needs
from simulator.studies.executor import Backend, Ended, Executor, Launch
from simulator.studies.ray.remote_point import RemotePoint
from simulator.studies.status import Status
from simulator.studies.study import Point

COUNT_SECONDS = 5.0
"""Seconds between two counts of the nodes."""
ANSWER_SECONDS = 120.0
"""Seconds that nodes have to report their libraries: each loads torch."""


class OnNodes(Executor):
    """Runs points on Ray.

    Sessions are in the study's folder, or on the node until the point ends and they are copied.
    """

    takes_over = True

    def __init__(
        self, group: Group, launch: Launch, needs: Mapping[str, Needs], has_room: Callable[[], int]
    ) -> None:
        """needs: resources of each point on a node; has_room: how many points fit."""
        super().__init__(group.folder)
        self._launch, self._needs, self._has_room = launch, needs, has_room
        self._showing = group.shown()
        self._shown = ""
        self._remote: dict[str, RemotePoint] = {}

    @property
    def room(self) -> int:
        return self._has_room()

    def names(self) -> list[str]:
        return list(self._remote)

    def start(self, point: Point) -> None:
        remote_point = RemotePoint(point, self._study, self._shown, self._launch, self._needs[point.name])
        self._remote[point.name] = remote_point
        remote_point.start()

    def ended(self) -> dict[str, Ended]:
        found = {}
        for name, remote_point in list(self._remote.items()):
            if remote_point.how is not None and not remote_point.is_alive():
                del self._remote[name]
                found[name] = remote_point.how
        return found

    def stop(self) -> None:
        for remote_point in self._remote.values():
            remote_point.stop()

    def read(self, status: Status) -> Status:
        known = self._remote[status.name].known
        return super().read(status) if known is None else known.status

    def state(self, name: str) -> str | None:
        known = self._remote[name].known
        return super().state(name) if known is None else known.state

    def tell(self, name: str, command: str) -> None:
        remote_point = self._remote.get(name)
        if remote_point is not None and remote_point.known is not None:
            remote_point.tell(command)
        else:
            super().tell(name, command)

    def __enter__(self) -> Self:
        self._shown = self._showing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for remote_point in self._remote.values():
            remote_point.join()
        self._showing.__exit__(kind, error, trace)


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


class NodeInfo(NamedTuple):
    """A node's name, and what its bits depend on; or why it cannot tell."""

    host: str
    environment: Mapping[str, Any]
    refusal: str = ""


def refuse_mixed(needs: Needs) -> None:
    """Raise ConfigError if nodes that fit a point would give different bits."""
    nodes = cluster.nodes_with_room(needs)
    if len(nodes) < 2:
        return
    device = "cuda" if needs.gpus else "cpu"
    asked = [
        ray.remote(node_info)
        .options(
            num_cpus=0,
            num_gpus=needs.gpus,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        .remote(device)
        for node in nodes
    ]
    answered, found = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_SECONDS)[0], []
    for ref in answered:
        try:
            found.append(ray.get(ref))
        except exceptions.RayTaskError as fault:
            raise ConfigError(
                f"a node of the Ray cluster cannot report its versions ({cluster.short_message(fault.cause)}). "
                "Install the same version of htfl-sim on every node."
            ) from fault
        except exceptions.RayError:
            continue  # it has just left the cluster
    refuse_unlike(found)


def node_info(device: str) -> NodeInfo:
    """The facts about this node that bits depend on."""
    from simulator.base.tensors import select_device

    host = socket.gethostname()
    try:
        return NodeInfo(host, environment(select_device(device), 1))
    except HtflError as error:
        return NodeInfo(host, {}, str(error))


def refuse_unlike(nodes: list[NodeInfo]) -> None:
    """Raise ConfigError with two nodes and their differences unless all are equal."""
    for node in nodes:
        if node.refusal:
            raise ConfigError(f"node {node.host}: {node.refusal}")
    for node in nodes[1:]:
        if differences := inexact(dict(nodes[0].environment), dict(node.environment)):
            raise ConfigError(
                f"nodes {nodes[0].host} and {node.host} would not give the same bits ({'; '.join(differences)}). Use "
                "equal nodes, or `allow_inexact=True`. Each session records its node."
            )
