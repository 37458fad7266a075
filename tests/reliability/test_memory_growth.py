"""Memory growth: a run of 300 rounds ends with the memory it had at round 10."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.reliability.sessions import COMMAND, configuration

MIB = 2**20
TOLERANCE = 8 * MIB
"""What may come and go. Keeping 28 KiB a round would exceed it; the states of one round are 107 KB."""


@pytest.mark.slow
def test_a_run_of_300_rounds_ends_with_the_memory_of_round_10(tmp_path: Path) -> None:
    """Seen from outside, in a real `htfl-sim run` with checkpoints in every round and CKA in every tenth."""
    more = ("cka = { every = 10, probe = 64 }",)
    config = configuration(tmp_path, "fedssa", 300, *more)
    command = [COMMAND, "run", "--config", config, "--json", "--no-progress", "--sessions-dir", tmp_path]
    used: dict[int, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        watched = psutil.Process(process.pid)
        for line in process.stdout:
            used[json.loads(line)["round"]] = watched.memory_info().rss
    assert process.returncode == 0 and len(used) == 300
    print(
        {round: f"{bytes / MIB:.1f} MiB" for round, bytes in used.items() if round in (1, 10, 100, 200, 300)}
    )
    assert max(used[round] for round in range(291, 301)) - used[10] < TOLERANCE
