"""Bad command: refused with the reason, and the session is untouched, byte for byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import checkpoints
from tests.cli.conftest import Cli, assert_refused
from tests.reliability.sessions import configuration, contents, start, wait_until

pytestmark = pytest.mark.long

IDLE = {
    "pause of a finished session": (["pause"], ["finished with round 3", "--rounds"]),
    "stop of a finished session": (["stop"], ["finished with round 3"]),
    "checkpoint of a finished session": (["checkpoint"], ["finished with round 3"]),
    "a method that is not there": (["switch", "fedgn"], ["'fedgn'", "'fedgen'"]),
    "a method its models cannot run": (["switch", "heteroavg", "--set=rounds=9"], ["nested"]),
    "a setting that cannot change": (["switch", "fedssa", "--set=data.alpha=2"], ["'data' cannot change"]),
    "a setting out of range": (["switch", "fedssa", "--set=training.lr=-1"], ["training.lr"]),
    "a round that is over": (["switch", "fedssa", "--set=rounds=2"], ["round 3 is done"]),
    "a fork of a round that never was": (["fork", "--at-round=9", "--session=y"], ["no round 9"]),
    "a fork onto a name that is taken": (["fork", "--at-round=1", "--session=done"], ["exists already"]),
    "fewer rounds than there are": (["resume", "--rounds=2"], ["has 3 rounds already"]),
}


@pytest.mark.parametrize(("command", "why"), IDLE.values(), ids=IDLE)
def test_a_command_to_a_session_that_nobody_runs_is_refused_and_changes_nothing(
    cli: Cli, done: Path, command: list[str], why: list[str]
) -> None:
    before = contents(done)
    result = cli(command[0], "done", *command[1:])
    assert_refused(result, result.code, *why)
    assert result.code in (2, 4)
    assert contents(done) == before
    assert [path.name for path in done.parent.iterdir()] == ["done"]


@pytest.fixture
def paused(tmp_path: Path, sessions: Path, cli: Cli) -> Iterator[Path]:
    """A real run, paused within a round."""
    sessions.mkdir()
    config = configuration(sessions, "fedlora", 100_000)
    process = start(sessions, "run", "--config", config, "--session", "s")
    try:
        wait_until(lambda: (sessions / "s" / "manifests" / "000002.json").exists(), process)
        assert cli("pause", "s").code == 0
        yield sessions / "s"
    finally:
        process.kill()
        process.wait()


def test_a_command_to_a_live_session_is_refused_and_leaves_its_training_alone(cli: Cli, paused: Path) -> None:
    """Only the command, its answer, the event, and the owner's note are written."""
    telling = ("control/", "tmp/", "posted.json", "owner.json", "events.jsonl")
    before = contents(paused, apart_from=telling)
    assert_refused(cli("pause", "s"), 2, "it is paused already")
    for arguments in ({"method": "heteroavg", "set": []}, {"method": None, "set": ["training.lr=-1"]}, {}):
        command = checkpoints.post(paused, "switch", arguments)
        wait_until(lambda id=command.id: checkpoints.answer(paused, id) is not None)
        answer = checkpoints.answer(paused, command.id)
        assert answer is not None and answer.outcome == "refused" and answer.message
    assert contents(paused, apart_from=telling) == before
    assert len(checkpoints.SessionReader(paused).manifest().history) == 1
