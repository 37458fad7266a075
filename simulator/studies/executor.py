"""The interface of an executor: it starts, watches, steers, and stops the points of a study, on any machine."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import checkpoints
from checkpoints import DiskError, Group, SessionReader, SessionUnreadable
from simulator.config.user_files import Files
from simulator.studies.status import Status
from simulator.studies.study import Point

DIVERGED = 6
REUSED = 9
"""The exit code of a point that found the finished session of an identical run. stderr ends with the link as JSON."""
WATCHED = 10
"""The exit code if a watcher stopped the run."""


@dataclass(frozen=True)
class Launch:
    """How to run points. workers: clients trained at a time in each point; None: as the point's configuration says."""

    data_dir: Path
    workers: int | None = None
    device: str | None = None
    files: Files = field(default_factory=Files)
    allow_inexact: bool = False
    reuse: bool | None = None
    """Whether points use finished sessions of identical runs; None: only those of the same study."""
    upto: int | None = None
    """The round after which a point stops, with a checkpoint; None: its last."""

    last: int = 0
    """The last rounds over which trials are scored, for their progress; 0: the points are no trials."""

    def options(self) -> Iterator[str]:
        """The same as options of `simulator.studies.point`."""
        yield from ("--data-dir", str(self.data_dir))
        for option, value in (("--workers", self.workers), ("--device", self.device)):
            if value is not None:
                yield from (option, str(value))
        yield from self.files.options()
        if self.allow_inexact:
            yield "--allow-inexact"
        if self.upto is not None:
            yield from ("--upto", str(self.upto))

    def workers_of(self, point: Point) -> int | None:
        """The clients that a point trains at a time, if that is set."""
        said: int | None = point.config["runtime"]["workers"]
        return said if self.workers is None else self.workers


@dataclass(frozen=True)
class Ended:
    """How a point's process ended: its exit code, below zero for a signal, and the end of its stderr.

    `lost`: its actor or node is gone, which is not the point's own failure.
    """

    code: int
    words: str
    lost: bool = False


class Executor(ABC):
    """Running points, by their names. Their status comes from their files, or from a node that does not share them."""

    takes_over = False
    """Whether a point waits until another process releases its session, and takes it over from a dead machine."""

    def __init__(self, study: Path) -> None:
        self._study = study

    @property
    @abstractmethod
    def room(self) -> int:
        """The number of points that fit at once, now."""

    @abstractmethod
    def names(self) -> list[str]:
        """The running points."""

    @abstractmethod
    def start(self, point: Point) -> None:
        """Start or resume a point. Raises OSError if the system cannot start a process."""

    @abstractmethod
    def ended(self) -> dict[str, Ended]:
        """The points that have ended since the last call."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all points to stop at their next client boundary."""

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def __len__(self) -> int:
        return len(self.names())

    def read(self, status: Status) -> Status:
        """The current status of a running point."""
        return status.read(self._study / status.name)

    def state(self, name: str) -> str | None:
        """What the session of a running point is doing; None if it cannot be read yet."""
        with suppress(SessionUnreadable, DiskError):
            return SessionReader(self._study / name).state()
        return None

    def tell(self, name: str, command: str) -> None:
        """Send a command to the session of a running point: 'pause' or 'resume'."""
        with suppress(SessionUnreadable, DiskError):  # it has just ended, or will report the problem itself
            checkpoints.post(self._study / name, command)

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all running points at their next client boundary, and wait for them."""


class Backend(AbstractContextManager["Backend"]):
    """A kind of executor. It is prepared before anything is written."""

    warnings: Sequence[str] = ()
    """Descriptions of the settings that have no effect there."""

    @abstractmethod
    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        """Run at most `jobs` points at once. Raises ConfigError if the backend is unavailable."""

    @abstractmethod
    def executor(self, group: Group) -> Executor:
        """The executor of the points in this folder."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the backend."""
        return
