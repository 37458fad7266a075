"""Growth: an unchanged state costs no disk, retention bounds the rest, and 300 rounds take the memory of ten."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest

import checkpoints
from simulator.engine.progress import Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import COMMAND, configuration

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("generated_images")]


MIB = 2**20
TOLERANCE = 8 * MIB
"""What may come and go. Keeping 28 KiB a round would exceed it; the states of one round are 107 KB."""


def objects(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / "objects").glob("*/*")}


def test_a_round_adds_the_objects_of_its_participants_and_no_other(tmp_path: Path) -> None:
    """Four clients, one of them in a round, in a method whose server keeps nothing."""
    seen = []

    def count(event: Event) -> None:
        if isinstance(event, RoundFinished):
            seen.append(len(objects(tmp_path / "s")))

    sparse = {"federation": {"clients": 4, "participation": 0.25}, "checkpoint": {"keep_last": 99}}
    Session.create(federations.config("standalone", rounds=6, **sparse), tmp_path / "s", tmp_path).run(count)
    assert seen == list(range(seen[0], seen[0] + 6))


def test_twenty_rounds_take_the_space_of_six_and_their_ledger(tmp_path: Path) -> None:
    """The last three and the best are kept: at most four checkpoints of a server and four clients."""
    sizes = {}

    def weigh(event: Event) -> None:
        if isinstance(event, RoundFinished):
            sizes[event.record["round"]] = objects(tmp_path / "s")

    Session.create(federations.config("fedssa", rounds=20), tmp_path / "s", tmp_path).run(weigh)
    assert all(len(held) <= 4 * 5 for held in sizes.values())
    largest_checkpoint = 5 * max(max(held.values()) for held in sizes.values())
    assert all(sum(held.values()) <= 4 * largest_checkpoint for held in sizes.values())
    assert len(checkpoints.SessionReader(tmp_path / "s").records()) == 20
    assert len(checkpoints.SessionReader(tmp_path / "s").rounds()) <= 4


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
    assert max(used[round] for round in range(291, 301)) - used[10] < TOLERANCE
