"""Executors start, watch, steer, and stop the points of a study: the interface, and processes on this machine."""

import os
import signal
import subprocess
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import checkpoints
from checkpoints import DiskError, Group, SessionReader, SessionUnreadable
from simulator.config.user_files import Files
from simulator.studies.folder import IN_SESSIONS, IN_STUDY, Status
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
        said: int | None = point.config["runtime"]["workers"]
        return said if self.workers is None else self.workers


@dataclass(frozen=True)
class Ended:
    """How a point's process ended: its exit code, below zero for a signal, and the end of its stderr.

    lost: its actor or node is gone, which is not the point's own failure.
    """

    code: int
    words: str
    lost: bool = False


class Executor(AbstractContextManager["Executor"]):
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
        return status.read(self._study / status.name)

    def state(self, name: str) -> str | None:
        """What the session of a running point is doing; None if it cannot be read yet."""
        with suppress(SessionUnreadable, DiskError):
            return SessionReader(self._study / name).state()
        return None

    def tell(self, name: str, command: str) -> None:
        """Send 'pause' or 'resume' to the session of a running point."""
        with suppress(SessionUnreadable, DiskError):  # it has just ended, or will report the problem itself
            checkpoints.post(self._study / name, command)

    @abstractmethod
    def __exit__(self, *failure: object) -> None:
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

    def __exit__(self, *failure: object) -> None:
        """Release the backend."""


_ROOT = Path(__file__).parents[2]
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "from {module} import main; sys.exit(main(sys.argv[1:]))"
)
"""A process runs the code that starts it, whatever is installed or in the current folder."""
_TAIL = 1 << 14
"""Bytes read from the end of a process's stderr."""


class Process:
    """An independent process: it continues when its parent dies."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        pass_fds: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run `main` of a module with these arguments and environment. Raises OSError."""
        # An unnamed file: a pipe would break if its reader died first.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEGIN.format(module=module), _ROOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=pass_fds,
                env=variables,
                start_new_session=True,
            )
        except BaseException:
            self._words.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, below zero for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """What `poll` returns, after its end or the timeout."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, signal: int) -> None:
        self._process.send_signal(signal)

    def words(self) -> str:
        """The end of its stderr."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - _TAIL, 0))
        return self._words.read().decode(errors="replace").strip()

    def close(self) -> None:
        self._words.close()


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
        if self._jobs > 1 and self._launch.workers_of(point) is None:  # a single process chooses itself
            threads = self._jobs * point.config["runtime"]["threads_per_client"]
            options += ["--workers", str(max(1, (os.cpu_count() or 1) // threads))]
        if self._launch.reuse is not False:
            options += ["--reuse", IN_SESSIONS if self._launch.reuse else IN_STUDY]
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

    def __exit__(self, *failure: object) -> None:
        os.close(self._mine)  # the lifeline
        for process in self._processes.values():
            process.wait()
            process.close()
        os.close(self._theirs)
