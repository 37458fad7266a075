"""A run steered by other processes: paused, switched, forked, stopped, resumed, with nothing lost."""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from tests import federations
from tests.reliability.sessions import COMMAND, AnyProcess, configuration, messages, rounds, start, wait_until

ROUNDS = 4000
"""More than the run will get to: it is brought to its end by a smaller number."""


def ask(folder: Path, *arguments: object) -> str:
    """Another process's command, done: what it said."""
    result = command(folder, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stderr


def command(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    line = [str(argument) for argument in (COMMAND, *arguments, "--sessions-dir", folder)]
    return subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)


def begun(folder: Path, *more: str) -> tuple[AnyProcess, Path]:
    """A run in a process of its own that has finished two rounds; `more` are lines of its configuration."""
    config = configuration(folder, "fedlora", ROUNDS, *more)
    process = start(folder, "run", "--config", config, "--session", "s", "--workers", "1")
    wait_until(lambda: rounds(folder / "s") >= 2, process)
    return process, folder / "s"


def at_work(session: Path) -> tuple[bytes, Any]:
    """What moves while clients train: the ledger, and the owner's progress."""
    owner = checkpoints.SessionReader(session).owner()
    assert owner is not None
    return (session / "ledger.jsonl").read_bytes(), owner["progress"]


def events(session: Path, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in checkpoints.SessionReader(session).events() if event["event"] in kinds]


@pytest.mark.slow
def test_a_run_is_paused_switched_forked_stopped_and_resumed_to_its_end(tmp_path: Path) -> None:
    process, session = begun(tmp_path)

    # paused, no client trains
    assert "no client trains" in ask(tmp_path, "pause", "s")
    time.sleep(1)  # the note follows by a beat
    before = at_work(session)
    heartbeat = (checkpoints.SessionReader(session).owner() or {})["heartbeat"]
    time.sleep(1.2)
    assert at_work(session) == before
    owner = checkpoints.SessionReader(session).owner() or {}
    assert owner["state"] == "paused" and owner["heartbeat"] > heartbeat
    assert command(tmp_path, "pause", "s").returncode == 2

    # a fork of the paused run, at a round it has
    forks = {"first": 1, "second": 2}
    ask(tmp_path, "fork", "s", "--at-round", 1, "--session", "first", "--rounds", 3, "--workers", 1)

    ask(tmp_path, "resume", "s")
    wait_until(lambda: at_work(session) != before, process)

    # other settings, then three other methods
    ask(tmp_path, "switch", "s", "fedlora", "--set", "training.lr=0.02")
    for method in ("fedssa", "fedproto", "standalone"):
        said = ask(tmp_path, "switch", "s", method)
        assert "switched after round" in said
    ask(tmp_path, "fork", "s", "--at-round", 2, "--session", "second", "--rounds", 4, "--method", "fedgh")

    # refused, and nothing changes
    refused = command(tmp_path, "switch", "s", "heteroavg")
    assert refused.returncode == 2 and "client 0 (tiny_cnn)" in refused.stderr

    ask(tmp_path, "stop", "s")
    assert process.wait(timeout=600) == 0, messages(tmp_path)
    reader = checkpoints.SessionReader(session)
    done = reader.rounds()[-1]
    forks["third"] = done - 1
    ask(tmp_path, "fork", "s", "--at-round", done - 1, "--session", "third", "--run", "--rounds", done + 1)

    ask(tmp_path, "resume", "s", "--rounds", done + 2)
    assert reader.state() == "finished"

    # the ledger shows every step
    records = reader.records()
    assert [record["round"] for record in records] == list(range(1, done + 3))
    switches = [entry for entry in reader.manifest().history if "before" in entry]
    assert [entry["method"]["name"] for entry in switches] == [
        "fedlora", "fedssa", "fedproto", "standalone", "standalone",
    ]  # fmt: skip
    in_force = {entry["from_round"]: entry["method"]["name"] for entry in switches}
    method = "fedlora"
    for record in records:
        method = in_force.get(record["round"], method)
        assert record["method"] == method
    assert [event["event"] for event in events(session, "paused", "continued", "refused", "stopped")] == [
        "paused", "refused", "continued", "refused", "stopped", "stopped",
    ]  # fmt: skip
    for name, round in forks.items():
        parent = checkpoints.SessionReader(tmp_path / name).parent
        assert parent and (parent["name"], parent["round"]) == ("s", round)
        common = checkpoints.SessionReader(tmp_path / name).records()[:round]
        assert list(map(federations.untimed, common)) == list(map(federations.untimed, records[:round]))
    for name in ("s", *forks):
        assert checkpoints.verify(tmp_path / name) == []
