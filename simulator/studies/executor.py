"""Executors start, watch, steer, and stop the points of a study: the interface, and processes on this machine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import DiskError, Group, SessionReader, SessionUnreadable
from simulator.config.user_files import Files
from simulator.studies.folder import Status
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

    def to_json(self, **about: Any) -> str:
        """This, and what else `simulator.studies.point` is told of its process."""

        def plain(value: Any) -> Any:
            """Of a path, a number of NumPy's, or a device of torch's."""
            return value.item() if hasattr(value, "item") else str(value)

        return json.dumps({"launch": asdict(self), **about}, default=plain)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> "Launch":
        files = Files(**{kind: tuple(paths) for kind, paths in raw["files"].items()})
        return cls(**raw | {"data_dir": Path(raw["data_dir"]), "files": files})

    def workers_of(self, point: Point) -> int | None:
        said: int | None = point.config["runtime"]["workers"]
        return said if self.workers is None else self.workers


@dataclass(frozen=True)
class Ended:
    """How a point's process ended: exit code (below zero: a signal), end of stderr. lost: its node or actor is gone."""

    code: int
    words: str
    lost: bool = False


class Executor(ABC):
    """Where points run: prepared before anything is written, and released at its end."""

    takes_over = False
    """Whether a point waits until another process releases its session, and takes it over from a dead machine."""
    warnings: Sequence[str] = ()
    """Descriptions of the settings that have no effect there."""
    folder: Path
    running: dict[str, Any]
    """Points at work, by their names. `ended()` says how one ended; None while it runs. `stop()` asks it to stop."""

    @abstractmethod
    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        """Run at most `jobs` points at once. Raises ConfigError if this is unavailable."""

    @property
    @abstractmethod
    def room(self) -> int:
        """The number of points that fit at once, now."""

    @abstractmethod
    def start(self, point: Point) -> None:
        """Start or resume a point. Raises OSError if the system cannot start a process."""

    @abstractmethod
    def at(self, group: Group) -> AbstractContextManager[object]:
        """Within it, points run in this folder. Its end stops all of them, and waits for them."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *failure: object) -> None:
        """Release what was prepared."""
        return

    def ended(self) -> dict[str, Ended]:
        """The points that have ended since the last call."""
        found = {name: how for name, each in self.running.items() if (how := each.ended()) is not None}
        self.running = {name: each for name, each in self.running.items() if name not in found}
        return found

    def stop(self) -> None:
        """Ask all points to stop at their next client boundary."""
        for each in self.running.values():
            each.stop()

    def read(self, status: Status) -> Status:
        """The current status of a running point."""
        return status.read(self.folder / status.name)

    def state(self, name: str) -> str | None:
        """What the session of a running point is doing; None if it cannot be read yet."""
        with suppress(SessionUnreadable, DiskError):
            return SessionReader(self.folder / name).state()
        return None

    def tell(self, name: str, command: str) -> None:
        """Send 'pause' or 'resume' to the session of a running point."""
        with suppress(SessionUnreadable, DiskError):  # it has just ended, or will report the problem itself
            checkpoints.post(self.folder / name, command)


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
        """Run `main` of a module with these arguments and environment variables, which replace the present ones.

        Raises OSError if the system cannot start a process.
        """
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
        """Wait for its end, or until the timeout. Returns what `poll` returns."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, signal: int) -> None:
        """Send it a signal. Does nothing if it has ended."""
        self._process.send_signal(signal)

    def words(self) -> str:
        """The end of its stderr."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - _TAIL, 0))
        return self._words.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Close the file of its stderr."""
        self._words.close()

    def ended(self) -> Ended | None:
        if (code := self.poll()) is None:
            return None
        how = Ended(code, self.words())
        self.close()
        return how

    def stop(self) -> None:
        self.send(signal.SIGTERM)


class Here(Executor):
    """Processes on this machine, which share its GPU, and hold the study's lock. They get no Ctrl-C of this terminal.

    If this process dies, its end of their lifeline closes, and they stop.
    """

    def __init__(self, points: Sequence[Point], launch: Launch, jobs: int | None) -> None:
        self.running, self._launch, self._jobs = {}, launch, jobs or 1
        shares = [point.config["runtime"].get("gpus_per_point", 1.0) for point in points]
        if shares and min(shares) != 1.0:
            self.warnings = [
                f"runtime.gpus_per_point = {min(shares):g} changes nothing here: points on this machine share its GPU, "
                "as many at once as `jobs` says."
            ]

    @property
    def room(self) -> int:
        return self._jobs

    def start(self, point: Point) -> None:
        launch = self._launch
        if self._jobs > 1 and launch.workers_of(point) is None:  # a single process chooses itself
            threads = self._jobs * point.config["runtime"]["threads_per_client"]
            launch = replace(launch, workers=max(1, (os.cpu_count() or 1) // threads))
        about = launch.to_json(lifeline=self._lifeline)
        self.running[point.name] = Process(
            "simulator.studies.point", [self.folder, point.name, about], (self._lock, self._lifeline)
        )

    @contextmanager
    def at(self, group: Group) -> Iterator[None]:
        self.folder, self._lock = group.folder, group.descriptor
        self._lifeline, mine = os.pipe()
        try:
            yield
        finally:
            os.close(mine)
            for process in self.running.values():
                process.wait()
                process.close()
            os.close(self._lifeline)
