"""Bad command: refused with the reason, and the session is untouched, byte for byte."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, assert_refused
from tests.reliability.sessions import contents

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


def test_a_command_to_a_session_that_nobody_runs_is_refused_and_changes_nothing(cli: Cli, done: Path) -> None:
    before = contents(done)
    for command, why in IDLE.values():
        result = cli(command[0], "done", *command[1:])
        assert_refused(result, result.code, *why)
        assert result.code in (2, 4)
        assert contents(done) == before
        assert [path.name for path in done.parent.iterdir()] == ["done"]
