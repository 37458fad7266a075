"""JSON that is sealed and says anything: every command ends with a sentence, in time, within bounds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.strangers import SWITCH, make_sessions

pytestmark = pytest.mark.long

MEGABYTES = 500
"""What a command that only reads may have in all, and one that runs beyond what it has on sound sessions."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions with a switch that waits."""
    folder = tmp_path_factory.mktemp("resealed")
    make_sessions(folder, SWITCH)
    return folder


def tried(base: Path, kind: str, count: int, first: int = 0) -> tuple[list[dict[str, Any]], int]:
    """What went wrong in so many cases, tried by a process of their own, and the most memory it had, in MB."""
    command = [sys.executable, "-m", "tests.reliability.resealed", str(base), kind, str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, last = map(json.loads, done.stdout.splitlines())
    assert kind == "running" or not last["torch"], "what only reads needs no torch"
    return wrong, last["megabytes"]


@pytest.mark.parametrize(("kind", "count"), [("reading", 8), ("running", 2)])
def test_some_commands_on_what_a_stranger_sealed_end_with_a_sentence(
    base: Path, kind: str, count: int
) -> None:
    wrong, _ = tried(base, kind, count)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_four_thousand_commands_that_read_what_a_stranger_sealed_end_with_a_sentence(base: Path) -> None:
    wrong, megabytes = tried(base, "reading", 4000)
    assert wrong == []
    assert megabytes < MEGABYTES


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_commands_that_run_what_a_stranger_sealed_end_with_a_sentence(base: Path) -> None:
    _, usually = tried(base, "running", 0)
    wrong, megabytes = tried(base, "running", 1000)
    assert wrong == []
    assert megabytes - usually < MEGABYTES
