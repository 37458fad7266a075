"""What a process can run out of, or may not write, each said in its own sentence and with its own exit code."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import checkpoints
from checkpoints import Store, files
from tests import federations
from tests.checkpoints.disk import Recording
from tests.cli.conftest import TINY, Cli, call
from tests.reliability.sessions import (
    COMMAND,
    configuration,
    contents,
    messages,
    mounted,
    read_only,
    rounds,
    running,
    start,
    wait_until,
)
from tui.common.errors import explain

RUN = ("run", *TINY, "--rounds=3", "--session=s", "--method=fedlora")


@pytest.mark.slow
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """700 KB are more than one round takes, and less than twelve."""
    small = tmp_path / "small"
    assert call(*RUN, "--rounds=12", "--sessions-dir", tmp_path).code == 0
    with mounted(small, "-t", "tmpfs", "-o", "size=700k", "tmpfs"):
        with (tmp_path / "log").open("wb") as log:  # the messages have room
            process = subprocess.Popen(
                [COMMAND, *RUN, "--rounds=12", "--set=checkpoint.keep_last=99", "--sessions-dir", small],
                stderr=log,
            )
        assert process.wait(timeout=600) == 5
        said = (tmp_path / "log").read_text().splitlines()[-1]
        assert said.startswith("error: ") and str(small / "s") in said and "no space left" in said
        assert re.search(r"[\d,]+ bytes were needed", said)
        assert "Traceback" not in (tmp_path / "log").read_text()

        reached = checkpoints.SessionReader(small / "s").rounds()[-1]
        assert 1 <= reached < 12
        assert [f for f in checkpoints.verify(small / "s") if f.severity == "damage"] == []
        assert call("show", "s", "--sessions-dir", small).code == 0
        assert call("resume", "s", "--sessions-dir", small).code == 5, "there is still no room"

        subprocess.run(["mount", "-o", "remount,size=100m", small], check=True)
        assert call("resume", "s", "--sessions-dir", small).code == 0
        assert federations.committed(small / "s") == federations.committed(tmp_path / "s")
        assert checkpoints.verify(small / "s") == []
        assert list((small / "s" / "tmp").iterdir()) == []


@pytest.mark.long
def test_a_file_system_without_inodes_is_not_called_full(tmp_path: Path) -> None:
    """Room for bytes there is; a round of this run makes some files, and eighty is what there can be."""
    small = tmp_path / "small"
    assert call(*RUN, "--sessions-dir", tmp_path).code == 0
    with mounted(small, "-t", "tmpfs", "-o", "size=100m,nr_inodes=80", "tmpfs"):
        keep_all = "--set=checkpoint.keep_last=99"
        result = call(*RUN, "--rounds=60", keep_all, "--sessions-dir", small)
        assert result.code == 5
        said = result.err.splitlines()[-1]
        assert "the file system can hold no more files: its inodes are used up" in said
        assert "no space left" not in said and "Remove some files" in said
        assert checkpoints.SessionReader(small / "s").rounds()[-1] >= 1

        subprocess.run(["mount", "-o", "remount,nr_inodes=10000", small], check=True)
        assert call("resume", "s", "--rounds=3", "--sessions-dir", small).code in (0, 2)
        assert [f for f in checkpoints.verify(small / "s") if f.severity == "damage"] == []


ROOM = [
    (0, 1000, "inodes are used up"),
    (3, 1000, "inodes are used up"),
    (1000, 1000, "no space left"),
    (0, 0, "no space left"),
]


def test_inodes_that_were_given_back_are_still_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    for inodes, free, message in ROOM:
        found = SimpleNamespace(f_files=80, f_favail=inodes, f_bavail=free, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _path, found=found: found)
        assert message in str(checkpoints.DiskError.of(OSError(errno.ENOSPC, "full"), Path("/s"), 10))


@pytest.mark.slow
def test_memory_that_does_not_suffice_is_said_with_what_to_do(tmp_path: Path) -> None:
    """Digits scaled to 6,000 pixels would take 65 GB; the process may have 1 GB more than it begins with."""
    probe = "import simulator.engine.builder, sklearn.datasets; print(open('/proc/self/status').read())"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    begins_with = int(found.split("VmPeak:")[1].split()[0])  # KiB
    limited = ("bash", "-c", f'ulimit -v {begins_with + (1 << 20)}; exec "$@"', "bash")
    process = start(tmp_path, *RUN, "--set=data.size=6000", "--set=data.rgb=true", before=limited)
    assert process.wait(timeout=600) == 7, messages(tmp_path)
    said = messages(tmp_path).splitlines()[-1]
    assert said.startswith("error: not enough memory (") and "fewer --workers" in said


ERRORS = [
    MemoryError(),
    OSError(12, "Cannot allocate memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried…"),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("can't start new thread"),
]


def test_whoever_says_that_memory_is_short_it_is_no_bug() -> None:
    for error in ERRORS:
        message, code = explain(error)
        assert code == 7 and message.startswith("not enough memory (")


def closed(*redirections: str) -> tuple[str, ...]:
    return ("bash", "-c", f'exec "$@" {" ".join(redirections)}', "bash")


@pytest.mark.long
def test_a_closed_standard_output_is_said_where_something_was_to_go_there(tmp_path: Path) -> None:
    assert call(*RUN, "--sessions-dir", tmp_path).code == 0
    for command in (["sessions"], ["show", "s", "--json"]):
        assert start(tmp_path, *command, before=closed(">&-")).wait(timeout=600) == 141
        assert messages(tmp_path).splitlines()[-1].startswith("error: standard output is closed")
    assert "bug" not in messages(tmp_path)


@pytest.mark.long
def test_a_run_with_all_standard_streams_closed_writes_into_no_file_of_its_own(tmp_path: Path) -> None:
    """Its first files would get the numbers 0, 1 and 2, and whatever prints would print into them."""
    assert call(*RUN, "--session=alone", "--sessions-dir", tmp_path).code == 0
    assert start(tmp_path, *RUN, before=closed("<&-", ">&-", "2>&-")).wait(timeout=600) == 0
    assert checkpoints.verify(tmp_path / "s") == []
    assert federations.committed(tmp_path / "s") == federations.committed(tmp_path / "alone")


@pytest.mark.slow
def test_a_heartbeat_that_stands_still_is_not_said_to_move(tmp_path: Path) -> None:
    config = configuration(tmp_path, "fedlora", 100_000)
    with running(tmp_path, "run", "--config", config, "--session", "s") as run:
        wait_until(lambda: rounds(tmp_path / "s") >= 1, run)
        run.send_signal(signal.SIGSTOP)
        result = call("pause", "s", "--timeout=4", "--sessions-dir", tmp_path)
        run.send_signal(signal.SIGCONT)
    assert result.code == 4
    assert "its heartbeat stands still at " in result.err and "still moves" not in result.err


@pytest.mark.long
def test_the_folder_of_a_new_folder_is_flushed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that keeps what was flushed and nothing else has the session, at the end of all its folders."""
    disk = Recording(tmp_path, 10**9)
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", disk)
        Store.create(tmp_path / "new" / "sessions" / "s", {}).close()
    disk.crash_into(tmp_path / "after", lambda _: 0)
    assert (tmp_path / "after" / "new" / "sessions" / "s" / "session.json").is_file()
    with Store.open(tmp_path / "after" / "new" / "sessions" / "s") as store:
        assert store.round is None


def test_a_run_into_a_read_only_folder_ends_before_its_first_round(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    with read_only(folder):
        result = cli("run", *TINY, "--sessions-dir", folder)
    assert (result.code, result.out) == (5, "")
    assert str(folder) in result.err and "writing is not allowed" in result.err
    assert "round 1" not in result.err and "Traceback" not in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.long
def test_what_must_write_is_refused_and_what_reads_still_does(cli: Cli, done: Path) -> None:
    before = contents(done)
    with read_only(done):
        for command in ("resume done", "pause done", "switch done fedssa --set=rounds=9", "prune done"):
            result = cli(*command.split())
            assert result.code in (4, 5) and "Traceback" not in result.err
        for command in ("show done", "sessions", "verify done"):
            assert cli(*command.split()).code == 0
    assert contents(done) == before


@pytest.mark.long
def test_a_read_only_session_is_forked_elsewhere(cli: Cli, done: Path, tmp_path: Path) -> None:
    with read_only(done):
        other = tmp_path / "other"
        result = cli("fork", done, "--at-round=2", "--session=child", "--sessions-dir", other, "--run")
        assert result.code == 0, result.err
    child = checkpoints.SessionReader(other / "child")
    assert child.manifest().states == checkpoints.SessionReader(done).manifest().states
