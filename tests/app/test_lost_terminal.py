"""A real pseudo-terminal whose other end is closed under the app: no process is left spinning, no round is lost."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import checkpoints
from tests import federations
from tests.reliability.sessions import wait_until

COMMAND = Path(sys.executable).with_name("htfl-sim")
SETTINGS = ["--set", "data.limit=300", "--set", "federation.group=tiny", "--clients", "4", "--device", "cpu"]
SETTINGS += ["--set", "training.epochs=2", "--workers", "1"]


class Terminal:
    """A program in a pseudo-terminal of 80 × 24; what it writes is read and dropped."""

    def __init__(self, *arguments: object, ignores_hangup: bool = False) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

        def begin() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if ignores_hangup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        environment = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=begin,
            env=environment,
        )
        os.close(slave)
        self._open = True
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close the other end, as a dropped connection does."""
        self._open = False
        self._reader.join()
        os.close(self._master)

    def _drain(self) -> None:
        os.set_blocking(self._master, False)
        while self._open:
            with suppress(OSError):
                os.read(self._master, 65536)
            time.sleep(0.02)


@contextmanager
def terminal(*arguments: object, ignores_hangup: bool = False) -> Iterator[Terminal]:
    opened = Terminal(*arguments, ignores_hangup=ignores_hangup)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
        opened.process.wait()


def wait_for_round(folder: Path, round: int) -> None:
    def reached() -> bool:
        with suppress(checkpoints.SessionUnreadable, checkpoints.DiskError):
            return len(checkpoints.SessionReader(folder).records()) >= round
        return False

    wait_until(reached)


def busy_after_five_seconds(process: subprocess.Popen[bytes]) -> float:
    """Per cent of a core the process uses five seconds from now; 0 if it has ended."""
    time.sleep(5)
    try:
        watched = psutil.Process(process.pid)
        return 0.0 if watched.status() == psutil.STATUS_ZOMBIE else watched.cpu_percent(1.0)
    except psutil.NoSuchProcess:
        return 0.0


def headless(folder: Path, *arguments: str) -> None:
    command = [COMMAND, *arguments, "--sessions-dir", folder]
    assert subprocess.run(command, capture_output=True, timeout=600).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("ignores_hangup", [False, True])
def test_a_run_whose_terminal_closes_stops_and_resumes(ignores_hangup: bool, tmp_path: Path) -> None:
    run = ["tui", "--session", "cut", "--rounds", "40", *SETTINGS, "--sessions-dir", tmp_path]
    with terminal(*run, ignores_hangup=ignores_hangup) as opened:
        wait_for_round(tmp_path / "cut", 2)
        opened.close()
        assert busy_after_five_seconds(opened.process) < 5
        opened.process.wait(timeout=600)

    cut = checkpoints.SessionReader(tmp_path / "cut")
    done = len(cut.records())
    assert cut.state() == "stopped"
    assert cut.events()[-1]["reason"] == "SIGHUP"
    headless(tmp_path, "resume", "cut")
    headless(tmp_path, "run", "--session", "alone", "--rounds", "40", *SETTINGS)
    assert 2 <= done < 40
    assert federations.committed(tmp_path / "cut") == federations.committed(tmp_path / "alone")


@pytest.mark.long
@pytest.mark.parametrize("ignores_hangup", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_watcher_whose_terminal_closes_ends_alone(ignores_hangup: bool, tmp_path: Path) -> None:
    headless(tmp_path, "run", "--session", "done", "--rounds", "1", *SETTINGS)
    before = (tmp_path / "done" / "events.jsonl").read_bytes()
    watch = ["tui", "--session", "done", "--sessions-dir", tmp_path]
    with terminal(*watch, ignores_hangup=ignores_hangup) as opened:
        time.sleep(3)
        assert opened.process.poll() is None
        opened.close()
        opened.process.wait(timeout=600)
    assert (tmp_path / "done" / "events.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_run_told_to_terminate_leaves_a_checkpoint_and_the_signals_exit_code(tmp_path: Path) -> None:
    run = ["tui", "--session", "ended", "--rounds", "40", *SETTINGS, "--sessions-dir", tmp_path]
    with terminal(*run) as opened:
        wait_for_round(tmp_path / "ended", 1)
        opened.process.send_signal(signal.SIGTERM)
        assert opened.process.wait(timeout=600) == 128 + signal.SIGTERM
    assert checkpoints.SessionReader(tmp_path / "ended").state() == "stopped"
