"""Points on Ray: each has an actor on a node, which watches a process like those of a local sweep.

Points of a study are compared with each other, so the nodes must compute the same bits.
"""

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import checkpoints
from checkpoints import Arrival, DiskError, Group, SessionUnreadable
from simulator.base.environment import environment, inexact
from simulator.base.errors import ConfigError, HtflError
from simulator.base.reading import read_bytes
from simulator.runners.ray import cluster
from simulator.runners.ray.cluster import DEATHS, Needs, short_message
from simulator.studies.executor import Ended, Executor, Launch
from simulator.studies.folder import STARTING, Status
from simulator.studies.ray_node import PointActor
from simulator.studies.study import Point

POLL_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""Seconds between two questions to a node whose folder is private."""
PATIENCE = 15.0
"""Seconds without an answer from a node before the user reads that no node has room."""
CALLS = 8
"""One waits for the point's process, the others answer."""
LEAVE_SECONDS = 30.0
FAILED = 1


class RemoteStatus(NamedTuple):
    """The last known status of a point whose session is on its node, or that has no node yet."""

    status: Status
    state: str | None


class _Unbegun(Exception):
    """A stop came before the point started."""


class RemotePoint(threading.Thread):
    """Runs a point on a node, steers it, and copies its session back unless the node shares the folder."""

    def __init__(self, point: Point, study: Path, shown: str, launch: Launch, needs: Needs) -> None:
        """`shown`: path of a file in the study's folder. A node that has it shares that folder."""
        super().__init__(name=f"point {point.name}", daemon=True)
        self.known: RemoteStatus | None = None
        """None while its session is in the study's folder."""
        self.commands: SimpleQueue[str] = SimpleQueue()
        """For its session, if the sweep cannot reach its files."""
        self._how: Ended | None = None
        self._point, self._study, self._shown, self._launch = point, study, shown, launch
        self._needs = needs
        self._stopping = threading.Event()
        self._host: str | None = None

    def ended(self) -> Ended | None:
        return None if self.is_alive() else self._how

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            self._how = self._carried_out()
        except _Unbegun:
            self._how = Ended(0, "")
        except DEATHS as death:
            who = f"the node {self._host}, or the actor on it," if self._host else "the actor for it"
            self._how = Ended(FAILED, f"{who} died ({short_message(death)})", lost=True)
        except Exception as error:
            self._how = Ended(FAILED, f"error: {self._words(error)}")

    def _words(self, error: Exception) -> str:
        match error:
            case exceptions.RayTaskError():
                return (f"node {self._host}: " if self._host else "") + short_message(error.cause)
            case exceptions.RayError() | ConnectionError():
                return f"the Ray cluster can no longer be reached ({short_message(error)})"
            case HtflError() | SessionUnreadable() | DiskError():
                return str(error)
        return f"{type(error).__name__}: {short_message(error)}"

    def _carried_out(self) -> Ended:
        kind = ray.remote(PointActor).options(
            num_cpus=self._needs.cpus,
            num_gpus=self._needs.gpus,
            max_restarts=0,
            max_concurrency=CALLS,
            scheduling_strategy="SPREAD",
        )
        actor, lodged = kind.remote(), False
        try:
            self._host = str(self._when_there_is_room(actor.host.remote()))
            if self._of(actor.sees.remote(self._study, self._shown)):
                self.known = None
                return self._run_at(actor, self._study, None)
            lodged = True
            study = self._taken_there(actor)
            how = self._run_at(actor, study, self._parent())
            self._bring_back(actor, study / self._point.name)
            return how
        finally:
            with suppress(Exception):  # it, or Ray itself, may be gone
                if lodged:
                    ray.get(actor.leave.remote(), timeout=LEAVE_SECONDS)
                ray.kill(actor)

    def _when_there_is_room(self, ref: Any) -> Any:
        before, since = Status(self._point.name, self._point.rounds, last=self._launch.last), time.monotonic()
        status = replace(before.read(self._study / self._point.name), state=STARTING)
        self.known = RemoteStatus(status, None)

        def look() -> None:
            if time.monotonic() - since > PATIENCE:
                waits = replace(status, reason=f"waits for a node with {self._needs}")
                self.known = RemoteStatus(waits, None)

        return self._of(ref, look)

    def _of(self, ref: Any, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """An actor's answer. Raises _Unbegun if a stop comes first."""
        while not ray.wait([ref], timeout=POLL_SECONDS)[0]:
            if self._stopping.is_set():
                raise _Unbegun
            meanwhile()
        return ray.get(ref)

    def _run_at(self, actor: Any, study: Path, parent: str | None) -> Ended:
        variables = {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
        workers = self._needs.cpus // int(self._point.config["runtime"]["threads_per_client"])
        ref = actor.run.remote(study, self._point.name, self._launch, workers, parent, variables)
        folder, looked, told = study / self._point.name, 0.0, False
        while not ray.wait([ref], timeout=POLL_SECONDS)[0]:
            if self._stopping.is_set() and not told:
                told = True
                ray.get(actor.stop.remote())
            while not self.commands.empty():
                ray.get(actor.tell.remote(folder, self.commands.get()))
            if self.known is not None and time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                self.known = RemoteStatus(*ray.get(actor.look.remote(folder, self.known.status)))
        how: Ended = ray.get(ref)
        return how

    def _taken_there(self, actor: Any) -> Path:
        """Prepare the study's folder on the node with everything that the point needs."""
        own = [
            (kind, Path(file).name, read_bytes(Path(file)))
            for kind, files in self._launch.files
            for file in files
        ]
        name, session = self._study.name, self._study / self._point.name
        listed = checkpoints.GroupReader(self._study).document(checkpoints.POINTS)
        there: Path = self._of(actor.lodge.remote(name, listed, own))
        if checkpoints.is_session(session):
            self._send(actor, session, f"{name}/{self._point.name}")
        elif (parent := self._parent()) is not None:
            assert self._point.branch is not None
            self._send(actor, self._study.parent / self._point.branch["parent"], parent, live=True)
        return there

    def _parent(self) -> str | None:
        """The node's name for the session that the point branches off."""
        branch = self._point.branch
        return None if branch is None else checkpoints.name_of(self._study.parent / branch["parent"])

    def _send(self, actor: Any, session: Path, name: str, *, live: bool = False) -> None:
        for parcel in checkpoints.pack(session, live=live):  # one in memory at a time
            self._of(actor.receive.remote(name, parcel))
        self._of(actor.receive.remote(name, None))

    def _bring_back(self, actor: Any, folder: Path) -> None:
        arrival = Arrival(self._study, self._point.name)
        try:
            while (parcel := ray.get(actor.next_parcel.remote(folder))) is not None:
                arrival.take(parcel)
            arrival.settle()
        except BaseException:
            arrival.discard()
            raise


COUNT_SECONDS = 5.0
ANSWER_SECONDS = 120.0
"""Seconds that nodes have to report their libraries: each loads torch."""


class OnRay(Executor):
    """Actors of a cluster, or of a Ray that the sweep starts. Sessions may be on nodes until their points end."""

    takes_over = True

    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        self.running, self._launch, self._jobs = {}, launch, jobs
        self._counted, self._room = -math.inf, 1
        self._shares: dict[tuple[int, float], int] = {}
        addresses = dict.fromkeys(str(point.config["runtime"]["address"]) for point in points)
        if len(addresses) > 1:
            raise ConfigError(
                f"the points name {len(addresses)} clusters ({', '.join(addresses)}), but a sweep uses one. Choose it "
                "with `runtime.address=ADDRESS`."
            )
        address = next(iter(addresses), cluster.LOCAL)
        for point in points:
            if point.config["runtime"]["runner"] == "ray":
                raise ConfigError(
                    f"point {point.name} trains its clients on Ray (runtime.runner), so it cannot run on Ray itself. "
                    "Leave out `on='ray'`, or use another runner."
                )
        self._started = cluster.connect(address)
        try:
            self._has_gpus = cluster.has_gpus()
            self._needs = {point.name: self._needed(point, len(points)) for point in points}
            self._refuse_unfit(address)
        except BaseException:
            self.__exit__()
            raise
        shares = {point.config["runtime"].get("gpus_per_point", 1.0) for point in points}
        if shares - {1.0} and not any(needs.gpus for needs in self._needs.values()):
            self.warnings = [
                f"runtime.gpus_per_point = {min(shares):g} changes nothing here: no point computes on a GPU."
            ]

    def __exit__(self, *failure: object) -> None:
        if self._started:
            self._started = False
            cluster.disconnect()

    @contextmanager
    def at(self, group: Group) -> Iterator[None]:
        self.folder = group.folder
        with group.shown() as self._shown:
            try:
                yield
            finally:
                self.stop()
                for remote_point in self.running.values():
                    remote_point.join()

    @property
    def room(self) -> int:
        """At least one, which then waits until it fits."""
        if (now := time.monotonic()) - self._counted > COUNT_SECONDS:
            self._counted = now
            with suppress(Exception):  # if Ray is gone, the running points report it
                self._room = max(1, *map(cluster.room, set(self._needs.values())))
        return self._room if self._jobs is None else min(self._jobs, self._room)

    def start(self, point: Point) -> None:
        remote_point = RemotePoint(point, self.folder, self._shown, self._launch, self._needs[point.name])
        self.running[point.name] = remote_point
        remote_point.start()

    def read(self, status: Status) -> Status:
        known = self.running[status.name].known
        return super().read(status) if known is None else known.status

    def state(self, name: str) -> str | None:
        known = self.running[name].known
        return super().state(name) if known is None else known.state

    def tell(self, name: str, command: str) -> None:
        remote_point = self.running.get(name)
        if remote_point is not None and remote_point.known is not None:
            remote_point.commands.put(command)
        else:
            super().tell(name, command)

    def _refuse_unfit(self, address: str) -> None:
        for needs, name in {needs: name for name, needs in self._needs.items()}.items():
            if not cluster.room(needs):
                raise ConfigError(
                    f"the Ray cluster at '{address}' is too small: no node has {needs} for point {name}. Use a smaller "
                    "runtime.workers, a smaller runtime.gpus_per_point, or another cluster."
                )
            if not self._launch.allow_inexact:
                refuse_mixed(needs)

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
    from simulator.base.tensors import select_device

    host = socket.gethostname()
    try:
        return NodeInfo(host, environment(select_device(device), 1))
    except HtflError as error:
        return NodeInfo(host, {}, str(error))


def refuse_unlike(nodes: list[NodeInfo]) -> None:
    for node in nodes:
        if node.refusal:
            raise ConfigError(f"node {node.host}: {node.refusal}")
    for node in nodes[1:]:
        if differences := inexact(dict(nodes[0].environment), dict(node.environment)):
            raise ConfigError(
                f"nodes {nodes[0].host} and {node.host} would not give the same bits ({'; '.join(differences)}). Use "
                "equal nodes, or `allow_inexact=True`. Each session records its node."
            )
