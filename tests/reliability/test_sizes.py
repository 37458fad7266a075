"""Files that are mostly holes: what is read is bounded by what a session can need, before anything is read."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_bad_input import assert_refused
from tests.reliability.sessions import COMMAND

HOLE = 3 << 30
KILOBYTES = 700_000
"""Address space that is enough for a command that only reads, libraries and all."""


def bounded(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that cannot have more memory; what it says is in `stdout`."""
    limited = ["sh", "-c", f'ulimit -v {KILOBYTES}; exec "$@"', "sh", COMMAND, *arguments]
    return subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def lengthened(session: Path, name: str) -> None:
    path = next(iter(sorted(session.glob(name))))
    os.truncate(path, HOLE)


@pytest.mark.parametrize(
    ("name", "command", "code"),
    [
        ("ledger.jsonl", "show", 4),
        ("ledger.jsonl", "verify", 4),
        ("session.json", "show", 4),
        ("session.json", "sessions", 0),
        ("events.jsonl", "show", 0),
        ("manifests/000003.json", "show", 4),
        ("objects/*/*.safetensors", "verify", 4),
        ("owner.json", "show", 0),
    ],
)
def test_a_file_with_a_hole_of_three_gigabytes_is_not_read(
    done: Path, name: str, command: str, code: int
) -> None:
    lengthened(done, name)
    named = [] if command == "sessions" else ["done"]
    ended = bounded(command, *named, "--sessions-dir", done.parent)
    assert ended.returncode == code and "a bug" not in ended.stdout, ended.stdout


def test_a_resume_reads_no_such_ledger_either(cli: Cli, done: Path) -> None:
    lengthened(done, "ledger.jsonl")
    assert_refused(cli("resume", "done"), 4, "ledger.jsonl", "more than the")
