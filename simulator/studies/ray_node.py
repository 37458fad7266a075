"""Code on a node: an actor that watches one point, which runs in its own process.

Unless its node shares the study's folder, it receives what the point needs into a private one, and sends the session
back.
"""

import fcntl
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import checkpoints
from checkpoints import Arrival, DiskError, Parcel, SessionReader, SessionUnreadable
from simulator.config.user_files import Files
from simulator.studies.executor import Ended, Launch, Process
from simulator.studies.folder import Status

_PREFIX = "htfl-sim-point-"
_YOUNG = 60.0
"""Seconds for which a new private folder counts as used, even if nobody holds it."""


class PointActor:
    """Watches a point. While `run` waits for its process, other threads call the other methods."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._process: Process | None = None
        self._stopped = False
        self._home: Path | None = None
        """A private folder on this node, locked while a process uses it."""
        self._lock = -1
        self._files: Files | None = None
        self._arriving: dict[str, Arrival] = {}
        self._packed: Iterator[Parcel] | None = None

    def host(self) -> str:
        return socket.gethostname()

    def sees(self, folder: Path, shown: str) -> bool:
        """Whether this node shares the study's folder, which has a file of that name."""
        return (folder / shown).is_file()

    def lodge(self, study: str, points: bytes, files: Sequence[tuple[str, str, bytes]]) -> Path:
        """Make a private folder for the study, and return its path. files: the users', as kind, name, and contents."""
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_if_left(path)
        self._home = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self._home, os.O_RDONLY)  # held by processes that inherit it
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (folder := self._home / study).mkdir()
        (folder / checkpoints.POINTS).write_bytes(points)
        kept: dict[str, list[str]] = {kind: [] for kind, _ in Files()}
        for number, (kind, name, data) in enumerate(files):
            file = self._home / "files" / str(number) / name
            file.parent.mkdir(parents=True)
            file.write_bytes(data)
            kept[kind].append(str(file))
        self._files = Files(*(tuple(kept[kind]) for kind, _ in Files()))
        return folder

    def receive(self, name: str, parcel: Parcel | None) -> None:
        """Receive a piece of a session, whose name may begin with that of a group; None ends it."""
        assert self._home is not None
        if name not in self._arriving:
            group, _, own = name.rpartition("/")
            place = self._home / group
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
        """Run the point to its end. parent: the received session that it branches off. Raises OSError."""
        launch = replace(launch, workers=workers, files=self._files or launch.files, reuse=False)
        theirs, mine = os.pipe()
        about = {"lifeline": theirs, "node": self.host()}
        if parent is not None and self._home is not None:
            about["parent"] = str(self._home / parent)
        environment = {name: each for name, each in os.environ.items() if name != "OMP_NUM_THREADS"}
        try:
            with self._guard:
                if self._stopped:
                    return Ended(0, "")
                self._process = process = Process(
                    "simulator.studies.point",
                    [study, point, launch.to_json(**about)],
                    [theirs] if self._home is None else [theirs, self._lock],
                    {**environment, **variables},
                )
            process.wait()
            with self._guard:
                self._process = None
            how = process.ended()
            assert how is not None
            return how
        finally:
            os.close(theirs)
            os.close(mine)

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            if self._process is not None:
                self._process.stop()

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
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)


def _remove_if_left(path: Path) -> None:
    """Remove a private folder that no process holds."""
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
