"""Code on a node: an actor that watches one point, which runs in its own process.

Unless its node shares the study's folder, it receives what the point needs into a private one, and sends it back.
"""

import fcntl
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import checkpoints
from checkpoints import Arrival, DiskError, Parcel, SessionReader, SessionUnreadable
from simulator.config.user_files import Files
from simulator.studies.executor import Ended, Launch, Process
from simulator.studies.folder import Status

_PREFIX = "htfl-sim-point-"
_YOUNG = 60.0
"""Seconds for which a new private folder counts as used, even if nobody holds it."""


@dataclass(frozen=True)
class Bundle:
    """The files that a point needs besides sessions: the list of points, and kind, name, and contents of users'
    files.
    """

    study: str
    points: bytes
    files: Sequence[tuple[str, str, bytes]]


class PointActor:
    """Watches a point. While `run` waits for its process, other threads call the other methods."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._process: Process | None = None
        self._stopped = False
        self._lodging: Lodging | None = None
        self._files: Files | None = None
        self._arriving: dict[str, Arrival] = {}
        self._packed: Iterator[Parcel] | None = None

    def host(self) -> str:
        return socket.gethostname()

    def sees(self, folder: Path, shown: str) -> bool:
        """Whether this node shares the study's folder, which has a file of that name."""
        return (folder / shown).is_file()

    def lodge(self, bundle: Bundle) -> Path:
        """Make a private folder for the study, and return its path."""
        self._lodging = Lodging()
        study = self._lodging.folder / bundle.study
        study.mkdir()
        (study / checkpoints.POINTS).write_bytes(bundle.points)
        kept: dict[str, list[str]] = {kind: [] for kind, _ in Files()}
        for number, (kind, name, data) in enumerate(bundle.files):
            file = self._lodging.folder / "files" / str(number) / name
            file.parent.mkdir(parents=True)
            file.write_bytes(data)
            kept[kind].append(str(file))
        self._files = Files(*(tuple(kept[kind]) for kind, _ in Files()))
        return study

    def receive(self, name: str, parcel: Parcel | None) -> None:
        """Receive a piece of a session, whose name may begin with that of a group; None ends it."""
        assert self._lodging is not None
        if name not in self._arriving:
            group, _, own = name.rpartition("/")
            place = self._lodging.folder / group
            place.mkdir(exist_ok=True)
            if group and not checkpoints.is_group(place):
                (place / checkpoints.POINTS).write_text("[]")
            self._arriving[name] = Arrival(place, own)
        if parcel is None:
            self._arriving.pop(name).settle()
        else:
            self._arriving[name].take(parcel)

    def run(
        self,
        study: Path,
        point: str,
        launch: Launch,
        workers: int,
        parent: str | None,
        variables: Mapping[str, str],
    ) -> Ended:
        """Run the point, and wait for its end. Raises OSError if the node cannot start a process.

        parent: the session it branches off, as it was received. variables: of the environment, in place of Ray's.
        """
        if self._files is not None:
            launch = replace(launch, files=self._files)
        theirs, mine = os.pipe()
        inherited = [theirs] if self._lodging is None else [theirs, self._lodging.lock]
        about = ["--lifeline", str(theirs), "--workers", str(workers), "--node", self.host()]
        if parent is not None and self._lodging is not None:
            about += ["--parent", str(self._lodging.folder / parent)]
        environment = {name: each for name, each in os.environ.items() if name != "OMP_NUM_THREADS"}
        try:
            with self._guard:
                if self._stopped:
                    return Ended(0, "")
                options = [*replace(launch, workers=None).options(), *about]
                self._process = process = Process(
                    "simulator.studies.point",
                    [study, point, *options],
                    inherited,
                    {**environment, **variables},
                )
            process.wait()
            with self._guard:
                code = process.poll()
                self._process = None
            assert code is not None
            words = process.words()
            process.close()
            return Ended(code, words)
        finally:
            os.close(theirs)
            os.close(mine)

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            if self._process is not None:
                self._process.send(signal.SIGTERM)

    def look(self, folder: Path, status: Status) -> tuple[Status, str | None]:
        with suppress(SessionUnreadable, DiskError):
            return status.read(folder), SessionReader(folder).state()
        return status, None

    def tell(self, folder: Path, command: str) -> None:
        with suppress(SessionUnreadable, DiskError):
            checkpoints.post(folder, command)

    def next_parcel(self, folder: Path) -> Parcel | None:
        """The next piece of the session to copy back; None after the last."""
        if self._packed is None:
            self._packed = checkpoints.pack(folder) if checkpoints.is_session(folder) else iter(())
        return next(self._packed, None)

    def leave(self) -> None:
        if self._lodging is not None:
            self._lodging.leave()


class Lodging:
    """A private folder on this node, locked while a process uses it. Unlocked older ones are removed."""

    def __init__(self) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_if_left(path)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.lock = os.open(self.folder, os.O_RDONLY)
        """The descriptor of its lock. A process that inherits it holds the lock too."""
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def leave(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):
        found = path.lstat()
        if found.st_uid != os.getuid() or time.time() - found.st_mtime < _YOUNG:
            return
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(held)
