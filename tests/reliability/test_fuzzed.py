"""Whatever becomes of a file, and whatever a stranger seals: no other bits, and each command ends with a sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.fuzz import make_sessions

pytestmark = pytest.mark.long

MEGABYTES = 500
"""What a command that only reads may have in all, and one that runs beyond what it has on sound sessions."""


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions with a switch that waits."""
    folder = tmp_path_factory.mktemp("sealed")
    make_sessions(folder, ("switch", {"method": None, "set": ["training.lr=0.02"]}))
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions with a checkpoint that waits."""
    folder = tmp_path_factory.mktemp("stopped")
    make_sessions(folder, ("checkpoint", {}))
    return folder


def tried(base: Path, kind: str, count: int) -> dict[str, Any]:
    """How so many cases went, tried by a process of their own, none of which may have gone wrong."""
    command = [sys.executable, "-m", "tests.reliability.fuzz", str(base), kind, "0", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, last = map(json.loads, done.stdout.splitlines())
    assert wrong == []
    assert kind != "reading" or not last["torch"], "what only reads needs no torch"
    return dict(last)


def test_some_sessions_with_a_mangled_file_are_refused_or_give_the_same_bits(stopped: Path) -> None:
    assert "refused" in tried(stopped, "mangled", 6)["tally"]


@pytest.mark.parametrize(("kind", "count"), [("reading", 8), ("running", 2)])
def test_some_commands_on_sealed_files_end_with_a_sentence(sealed: Path, kind: str, count: int) -> None:
    tried(sealed, kind, count)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_sessions_with_a_mangled_file_are_refused_or_give_the_same_bits(stopped: Path) -> None:
    tally = tried(stopped, "mangled", 1000)["tally"]
    assert min(tally.values()) > 20, "every way of going on is among them"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_four_thousand_reading_commands_end_with_a_sentence(sealed: Path) -> None:
    assert tried(sealed, "reading", 4000)["megabytes"] < MEGABYTES


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_running_commands_end_with_a_sentence(sealed: Path) -> None:
    usually = tried(sealed, "running", 0)["megabytes"]
    assert tried(sealed, "running", 1000)["megabytes"] - usually < MEGABYTES
