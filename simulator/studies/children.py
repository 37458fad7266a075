"""The processes that run the points of a study, each with its share of the cores."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from simulator.own import Files
from simulator.studies.process import Process
from simulator.studies.study import Point


@dataclass(frozen=True)
class Launch:
    """How points are run. workers: clients at a time in each; None: what its configuration says."""

    data_dir: Path
    workers: int | None = None
    device: str | None = None
    files: Files = field(default_factory=Files)
    allow_inexact: bool = False

    def options(self) -> Iterator[str]:
        """The same as options of `simulator.studies.point`."""
        yield from ("--data-dir", str(self.data_dir))
        for option, value in (("--workers", self.workers), ("--device", self.device)):
            if value is not None:
                yield from (option, str(value))
        yield from self.files.options()
        if self.allow_inexact:
            yield "--allow-inexact"


def share_of_cores(jobs: int, threads_per_client: int) -> int | None:
    """The clients that each of so many processes trains at a time; None, its own choice, for a single one."""
    return None if jobs == 1 else max(1, (os.cpu_count() or 1) // (jobs * threads_per_client))


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, below zero for a signal, and its last words on stderr."""

    code: int
    words: str


class Children:
    """The processes at work, by their points' names.

    They hear nothing of a Ctrl-C in this terminal. They hold the study's lock, and stop by themselves when this
    process is gone: the other end of their lifeline closes.
    """

    def __init__(self, study: Path, lock: int, launch: Launch) -> None:
        """`lock` is the descriptor of the study's lock."""
        self._study, self._lock, self._launch = study, lock, launch
        self._theirs, self._mine = os.pipe()
        self._processes: dict[str, Process] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._processes

    def __len__(self) -> int:
        return len(self._processes)

    def names(self) -> list[str]:
        """The points that processes are at work on."""
        return list(self._processes)

    def start(self, point: Point, workers: int | None) -> None:
        """Have a process run a point. Raises OSError when the system gives none."""
        options = [*self._launch.options(), "--lifeline", str(self._theirs)]
        if workers is not None:
            options += ["--workers", str(workers)]
        self._processes[point.name] = Process(
            "simulator.studies.point", [self._study, point.name, *options], (self._lock, self._theirs)
        )

    def ended(self) -> dict[str, Ended]:
        """The processes that have ended since the last call."""
        found = {}
        for name, process in list(self._processes.items()):
            if (code := process.poll()) is not None:
                del self._processes[name]
                found[name] = Ended(code, process.words())
                process.close()
        return found

    def stop(self) -> None:
        """Ask all to stop at their next client boundary."""
        for process in self._processes.values():
            process.send(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the lifeline: whoever is still at work stops at the next client boundary. Waits for that."""
        os.close(self._mine)
        for process in self._processes.values():
            process.wait()
            process.close()
        os.close(self._theirs)
