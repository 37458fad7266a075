"""Files that are mostly holes: what is read is bounded by what a session can need, before anything is read."""

import os
import resource
import subprocess
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import checkpoints
from checkpoints.schema import seal, unseal
from tests.cli.conftest import Cli, assert_refused, rewrite
from tests.reliability.sessions import COMMAND

pytestmark = pytest.mark.long

HOLE = 3 << 30
KILOBYTES = 700_000
"""Address space that is enough for a command that only reads, libraries and all."""


def bounded(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that cannot have more memory; what it says is in `stdout`."""
    limited = ["sh", "-c", f'ulimit -v {KILOBYTES}; exec "$@"', "sh", COMMAND, *arguments]
    return subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


HOLES = {
    "ledger.jsonl": {"show": 4, "verify": 4},
    "session.json": {"show": 4, "sessions": 0},
    "events.jsonl": {"show": 0},
    "manifests/000003.json": {"show": 4},
    "objects/*/*.safetensors": {"verify": 4},
    "owner.json": {"show": 0},
}


@pytest.mark.parametrize("name", HOLES)
def test_a_file_with_a_hole_of_three_gigabytes_is_not_read(done: Path, name: str) -> None:
    os.truncate(min(done.glob(name)), HOLE)
    for command, code in HOLES[name].items():
        named = [] if command == "sessions" else ["done"]
        ended = bounded(command, *named, "--sessions-dir", done.parent)
        assert ended.returncode == code and "a bug" not in ended.stdout, ended.stdout


def test_a_sealed_session_json_of_many_small_things_is_refused_by_its_size(cli: Cli, done: Path) -> None:
    """A few bytes on disk are a hundred in memory; the seal is in order, so that nothing else refuses it."""
    rewrite(done, more=[{}] * 400_000)
    size = (done / "session.json").stat().st_size
    assert size < 1_300_000, "a little over the cap"
    for command in ("show", "resume"):
        assert_refused(cli(command, "done"), 4, f"session.json is {size:,} bytes, more than the 1,048,576")


GIANT, LARGE, SMALL = 3_400_000_000, 128 << 20, 64 << 20
"""Bytes of an object that may not be read, of one that can be hashed in a test, and that a command may hold."""


def add_object(session: Path, size: int, *, named: bool) -> Path:
    """An object that is all hole; if `named`, the server's state after round 3, as the newest manifest says."""
    sha256 = "ab" + "0" * 62
    path = session / "objects" / "ab" / f"{sha256}.safetensors"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, size)
    if named:
        manifest = session / "manifests" / "000003.json"
        document = unseal(manifest.read_bytes(), manifest.name)
        document["states"]["server"] = {"sha256": sha256, "size": size}
        manifest.write_bytes(seal(document))
    return path


@contextmanager
def little_memory() -> Iterator[None]:
    """That Python never holds more than 64 MB beside what it held before: a data set takes some 40."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()


def test_a_giant_object_that_nothing_names_is_removed_by_a_resume_and_not_read(cli: Cli, done: Path) -> None:
    giant = add_object(done, GIANT, named=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert cli("fork", "done", "--at-round=3", "--session=y", "--set=rounds=4").code == 0
    assert cli("resume", "done", "--rounds=4").code == 0
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # in KB
    assert grown * 1024 < GIANT // 4
    assert not giant.exists() and checkpoints.verify(done) == []


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_large_object_is_verified_in_pieces(cli: Cli, done: Path, named: bool) -> None:
    add_object(done, LARGE, named=named)
    with little_memory():
        ended = cli("verify", "done")
    assert ended.code == 4 and "is damaged: its bytes do not match its name." in ended.out
    assert ("round 3, server" in ended.out) == named
