"""Whatever becomes of one file: `verify` finds it or it does no harm, and a resume refuses or gives the same bits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def tried(folder: Path, first: int, count: int) -> dict[str, int]:
    """How so many cases went, tried by a process of their own, none of which may have gone wrong."""
    command = [sys.executable, "-m", "tests.reliability.mangled", str(folder), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, tally = map(json.loads, done.stdout.splitlines())
    assert wrong == []
    return dict(tally)


def test_some_sessions_with_a_mangled_file_are_refused_or_give_the_same_bits(tmp_path: Path) -> None:
    assert "refused" in tried(tmp_path, 0, 6)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_sessions_with_a_mangled_file_are_refused_or_give_the_same_bits(tmp_path: Path) -> None:
    assert min(tried(tmp_path, 0, 1000).values()) > 20, "every way of going on is among them"
