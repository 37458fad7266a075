"""What carries out the points of a study: how they are begun, looked at, steered and ended, wherever that is."""

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

    def workers_of(self, point: Point) -> int | None:
        """The clients that are to be trained at a time in a point, as far as that is said."""
        said: int | None = point.config["runtime"]["workers"]
        return said if self.workers is None else self.workers


@dataclass(frozen=True)
class Ended:
    """How a point's process ended: its exit code, below zero for a signal, and its last words on stderr.

    `lost`: not by itself, and not by its own fault: who carried it out is gone.
    """

    code: int
    words: str
    lost: bool = False


class Executor(ABC):
    """Points at work, by their names. What it says of one is read in the study's folder, unless it knows better."""

    takes_over = False
    """Whether a point begun here waits for whoever still has its session, and takes it from a machine that is gone."""

    def __init__(self, study: Path) -> None:
        self._study = study

    @property
    @abstractmethod
    def room(self) -> int:
        """How many points there is room for at once, now."""

    @abstractmethod
    def names(self) -> list[str]:
        """The points that are at work."""

    @abstractmethod
    def start(self, point: Point) -> None:
        """Begin, or go on with, a point. Raises OSError where no process is to be had."""

    @abstractmethod
    def ended(self) -> dict[str, Ended]:
        """The points that have ended since the last call."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all to stop at their next client boundary."""

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def __len__(self) -> int:
        return len(self.names())

    def read(self, status: Status) -> Status:
        """A point that is at work, now."""
        return status.read(self._study / status.name)

    def state(self, name: str) -> str | None:
        """What the session of a point that is at work is doing; None where it has none that can be read."""
        with suppress(SessionUnreadable, DiskError):
            return SessionReader(self._study / name).state()
        return None

    def tell(self, name: str, command: str) -> None:
        """Give the session of a point that is at work a command: 'pause' or 'resume'."""
        with suppress(SessionUnreadable, DiskError):  # it has ended meanwhile, or will say what is amiss
            checkpoints.post(self._study / name, command)

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have whoever is still at work stop at the next client boundary, and wait for that."""


class Backend(AbstractContextManager["Backend"]):
    """Where points are to be carried out, got ready before anything is written."""

    warnings: Sequence[str] = ()
    """Settings that change nothing there, in words."""

    @abstractmethod
    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        """`jobs` points at once at most. Raises ConfigError where they cannot be carried out there."""

    @abstractmethod
    def executor(self, group: Group) -> Executor:
        """What carries out the points of the study in this folder."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it."""
        return
