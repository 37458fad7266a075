"""Real `htfl-sim` processes on a tiny federation, the disk under them, and what to compare afterwards."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import checkpoints
from checkpoints import lock
from tests.processes import Process

COMMAND = Path(sys.executable).with_name("htfl-sim")
AnyProcess = Process | subprocess.Popen[bytes]


def configuration(folder: Path, method: str, rounds: int, *more: str, group: str = "tiny") -> str:
    """A tiny federation on real digits, as a file for `--config`; `more` are further lines of it."""
    path = folder / "tiny.toml"
    lines = [
        f"rounds = {rounds}",
        f'method.name = "{method}"',
        "data.limit = 300",
        f'federation = {{ clients = 4, participation = 0.75, group = "{group}" }}',
        "training = { batch_size = 16, epochs = 2 }",
        'runtime = { workers = 2, device = "cpu" }',
        *more,
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def start(
    folder: Path, *arguments: str, before: tuple[str, ...] = (), machine: str | None = None
) -> AnyProcess:
    """`htfl-sim` at work on sessions in `folder`, its messages in `folder/log`.

    With `before`, what is to start it, it begins at the beginning; else it is forked, as if on another `machine`.
    """
    given = [*arguments, "--sessions-dir", str(folder)]
    if not before:
        return Process(given, folder / "log", machine)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([*before, COMMAND, *given], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextmanager
def running(folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> Iterator[AnyProcess]:
    """The same, killed at the end if it still runs."""
    process = start(folder, *arguments, before=before)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def finish(folder: Path, *arguments: str) -> None:
    """Let a command end, which must go well; how long it may take is up to the test."""
    assert start(folder, *arguments).wait() == 0, messages(folder)


def messages(folder: Path) -> str:
    """All that the commands so far have said."""
    return (folder / "log").read_text(encoding="utf-8")


def wait_until(true: Callable[[], bool], process: AnyProcess | None = None) -> None:
    """Wait for something to come true while a process, if one is given, is alive; fail after a minute."""
    deadline = time.monotonic() + 600
    while not true():
        assert process is None or process.poll() is None, "the process ended"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def events(session: Path) -> int:
    """How many things have happened to the session: begun, resumed, rounds committed."""
    try:
        return (session / "events.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def rounds(session: Path) -> int:
    """How many lines the ledger has."""
    try:
        return (session / "ledger.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def kinds(session: Path) -> list[str]:
    """The operator events in order, without the checkpoints."""
    found = [event["event"] for event in checkpoints.SessionReader(session).events()]
    return [kind for kind in found if kind != "checkpoint"]


def contents(session: Path, apart_from: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Every file of a session with its bytes; what the owner of a live one removes must be in `apart_from`."""
    paths = (path for path in session.rglob("*") if path.is_file())
    names = (path.relative_to(session).as_posix() for path in paths)
    return {name: (session / name).read_bytes() for name in names if not name.startswith(apart_from)}


@contextmanager
def mounted(at: Path, *options: str) -> Iterator[None]:
    """A file system mounted for a while; skips the test where this process may not mount."""
    at.mkdir(exist_ok=True)
    mount = shutil.which("mount")
    if not mount or subprocess.run([mount, *options, at], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", at], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder and all in it, not to be written to: by rights, which root ignores, else by a read-only mount."""
    if os.geteuid() == 0:
        with mounted(folder, "--bind", str(folder)):
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
            yield
        return
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for each in folders:
        each.chmod(0o500)
    try:
        yield
    finally:
        for each in folders:
            each.chmod(0o700)


def pretend_to_be(name: str) -> None:
    """From now on this process runs on a machine of that name that shares folders, over which no lock reaches."""
    lock.host = lambda: name
    lock.machine_id = lambda: name
    lock.boot_id = lambda: f"the boot of {name}"
    lock.fcntl.flock = lambda *_: None
    # Whoever is displaced here has been stopped or killed; a real share may also show a heartbeat late.
    lock.WATCH_SECONDS, lock.SETTLE_SECONDS = 0.02, 0.02
