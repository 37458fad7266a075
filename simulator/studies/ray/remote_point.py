"""One point on Ray from start to end, watched by a thread of the sweep."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import ray
from ray import exceptions

import checkpoints
from checkpoints import Arrival, DiskError, SessionUnreadable
from simulator.base.errors import HtflError
from simulator.base.reading import read_bytes
from simulator.runners.ray.cluster import DEATHS, Needs, short_message
from simulator.studies.executor import Ended, Launch
from simulator.studies.ray.node import Bundle, PointActor
from simulator.studies.status import STARTING, Status
from simulator.studies.study import Point

POLL_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""Seconds between two questions to a node whose folder is private."""
PATIENCE = 15.0
"""Seconds without an answer from a node before the user reads that no node has room."""
CALLS = 8
"""Threads of an actor: one waits for the point's process, the others answer."""
LEAVE_SECONDS = 30.0
"""Seconds that an actor has to remove its private folder."""
FAILED = 1


class RemoteStatus(NamedTuple):
    """The last known status of a point whose session is on its node, or that has no node yet."""

    status: Status
    state: str | None


class _Unbegun(Exception):
    """A stop came before the point started."""


class RemotePoint(threading.Thread):
    """Runs a point on a node, steers it, and copies its session back if the node does not share the study's folder."""

    def __init__(self, point: Point, study: Path, shown: str, launch: Launch, needs: Needs) -> None:
        """`shown`: path of a file in the study's folder. A node that has it shares that folder."""
        super().__init__(name=f"point {point.name}", daemon=True)
        self.how: Ended | None = None
        """How it ended, once it has."""
        self.known: RemoteStatus | None = None
        """None while its session is in the study's folder."""
        self._point, self._study, self._shown, self._launch = point, study, shown, launch
        self._needs = needs
        self._stopping = threading.Event()
        self._commands: SimpleQueue[str] = SimpleQueue()
        self._host: str | None = None

    def stop(self) -> None:
        """Stop it at its next client boundary."""
        self._stopping.set()

    def tell(self, command: str) -> None:
        """Send its session a command, if the sweep cannot reach its files."""
        self._commands.put(command)

    def run(self) -> None:
        try:
            self.how = self._carried_out()
        except _Unbegun:
            self.how = Ended(0, "")
        except DEATHS as death:
            who = f"the node {self._host}, or the actor on it," if self._host else "the actor for it"
            self.how = Ended(FAILED, f"{who} died ({short_message(death)})", lost=True)
        except exceptions.RayTaskError as fault:
            where = f"node {self._host}: " if self._host else ""
            self.how = Ended(FAILED, f"error: {where}{short_message(fault.cause)}")
        except (exceptions.RayError, ConnectionError) as lost:
            self.how = Ended(
                FAILED, f"error: the Ray cluster can no longer be reached ({short_message(lost)})"
            )
        except (HtflError, SessionUnreadable, DiskError) as error:
            self.how = Ended(FAILED, f"error: {error}")
        except Exception as error:
            self.how = Ended(FAILED, f"error: {type(error).__name__}: {short_message(error)}")

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
            self._host = self._when_there_is_room(actor.host.remote())
            if self._of(actor.sees.remote(self._study, self._shown)):
                self.known = None
                return self._run_at(actor, self._study, None)
            lodged = True
            study = self._taken_there(actor)
            how = self._run_at(actor, study, self._parent())
            self._bring_back(actor, study / self._point.name)
            return how
        finally:
            _end(actor, lodged)

    def _when_there_is_room(self, ref: Any) -> str:
        before, since = Status(self._point.name, self._point.rounds, last=self._launch.last), time.monotonic()
        status = replace(before.read(self._study / self._point.name), state=STARTING)
        self.known = RemoteStatus(status, None)
        while not ray.wait([ref], timeout=POLL_SECONDS)[0]:
            if self._stopping.is_set():
                raise _Unbegun
            if time.monotonic() - since > PATIENCE:
                self.known = RemoteStatus(
                    replace(status, reason=f"waits for a node with {self._needs}"), None
                )
        return str(ray.get(ref))

    def _of(self, ref: Any) -> Any:
        """An actor's answer. Raises _Unbegun if a stop comes first."""
        while not ray.wait([ref], timeout=POLL_SECONDS)[0]:
            if self._stopping.is_set():
                raise _Unbegun
        return ray.get(ref)

    def _run_at(self, actor: Any, study: Path, parent: str | None) -> Ended:
        """Run the point in a folder of the node, and steer it meanwhile."""
        variables = {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
        workers = self._needs.cpus // int(self._point.config["runtime"]["threads_per_client"])
        ref = actor.run.remote(study, self._point.name, self._launch, workers, parent, variables)
        folder, looked, told = study / self._point.name, 0.0, False
        while not ray.wait([ref], timeout=POLL_SECONDS)[0]:
            if self._stopping.is_set() and not told:
                told = True
                ray.get(actor.stop.remote())
            while not self._commands.empty():
                ray.get(actor.tell.remote(folder, self._commands.get()))
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
        listed = checkpoints.GroupReader(self._study).document(checkpoints.POINTS)
        bundle = Bundle(self._study.name, listed, own)
        there: Path = self._of(actor.lodge.remote(bundle))
        if checkpoints.is_session(self._study / self._point.name):
            self._send(actor, self._study / self._point.name, f"{self._study.name}/{self._point.name}")
        elif (parent := self._parent()) is not None:
            assert self._point.branch is not None
            self._send(actor, self._study.parent / self._point.branch["parent"], parent, live=True)
        return there

    def _parent(self) -> str | None:
        """The node's name for the session that the point branches off."""
        branch = self._point.branch
        return None if branch is None else checkpoints.name_of(self._study.parent / branch["parent"])

    def _send(self, actor: Any, session: Path, name: str, *, live: bool = False) -> None:
        for parcel in checkpoints.pack(session, live=live):
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


def _end(actor: Any, lodged: bool) -> None:
    with suppress(Exception):  # it, or Ray itself, may be gone
        if lodged:
            ray.get(actor.leave.remote(), timeout=LEAVE_SECONDS)
        ray.kill(actor)
