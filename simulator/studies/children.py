"""Run the points of a study as processes on this machine, each with its share of the cores."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from checkpoints import Group
from simulator.studies.executor import Backend, Ended, Executor, Launch
from simulator.studies.links import SESSIONS, STUDY
from simulator.studies.process import Process
from simulator.studies.study import Point


def share_of_cores(jobs: int, threads_per_client: int) -> int | None:
    """Clients that each of `processes` trains at a time. None lets a single process choose."""
    return None if jobs == 1 else max(1, (os.cpu_count() or 1) // (jobs * threads_per_client))


class Here(Backend):
    """This machine. It runs one point at a time by default; all points use the same GPU if there is one."""

    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        self._launch, self._jobs = launch, jobs or 1
        shares = [point.config["runtime"].get("gpus_per_point", 1.0) for point in points]
        if shares and min(shares) != 1.0:
            self.warnings = [
                f"runtime.gpus_per_point = {min(shares):g} changes nothing here: points on this machine share its GPU, "
                "as many at once as `jobs` says."
            ]

    def executor(self, group: Group) -> "Children":
        return Children(group.folder, group.descriptor, self._launch, self._jobs)


class Children(Executor):
    """The running processes, by their points' names.

    They do not receive a Ctrl-C of this terminal. They hold the study's lock. If this process dies, its end of their
    lifeline closes, and they stop.
    """

    def __init__(self, study: Path, lock: int, launch: Launch, jobs: int) -> None:
        """`lock` is the descriptor of the study's lock."""
        super().__init__(study)
        self._lock, self._launch, self._jobs = lock, launch, jobs
        self._theirs, self._mine = os.pipe()
        self._processes: dict[str, Process] = {}

    @property
    def room(self) -> int:
        return self._jobs

    def names(self) -> list[str]:
        return list(self._processes)

    def start(self, point: Point) -> None:
        options = [*self._launch.options(), "--lifeline", str(self._theirs)]
        if self._launch.workers_of(point) is None:
            share = share_of_cores(self._jobs, point.config["runtime"]["threads_per_client"])
            options += [] if share is None else ["--workers", str(share)]
        if self._launch.reuse is not False:
            options += ["--reuse", SESSIONS if self._launch.reuse else STUDY]
        self._processes[point.name] = Process(
            "simulator.studies.point", [self._study, point.name, *options], (self._lock, self._theirs)
        )

    def ended(self) -> dict[str, Ended]:
        found = {}
        for name, process in list(self._processes.items()):
            if (code := process.poll()) is not None:
                del self._processes[name]
                found[name] = Ended(code, process.words())
                process.close()
        return found

    def stop(self) -> None:
        for process in self._processes.values():
            process.send(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._mine)  # the lifeline
        for process in self._processes.values():
            process.wait()
            process.close()
        os.close(self._theirs)
