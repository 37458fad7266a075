"""Read-only folder: found before round 1; `show`, `verify`, `sessions` and `fork` still read it."""

from pathlib import Path

import pytest

import checkpoints
from tests.cli.conftest import TINY, Cli
from tests.reliability.sessions import contents, read_only


def test_a_run_into_a_read_only_folder_ends_before_its_first_round(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    with read_only(folder):
        result = cli("run", *TINY, "--sessions-dir", folder)
    assert (result.code, result.out) == (5, "")
    assert str(folder) in result.err and "writing is not allowed" in result.err
    assert "round 1" not in result.err and "Traceback" not in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.long
def test_what_must_write_is_refused_and_what_reads_still_does(cli: Cli, done: Path) -> None:
    before = contents(done)
    with read_only(done):
        for command in ("resume done", "pause done", "switch done fedssa --set=rounds=9", "prune done"):
            result = cli(*command.split())
            assert result.code in (4, 5) and "Traceback" not in result.err
        for command in ("show done", "sessions", "verify done"):
            assert cli(*command.split()).code == 0
    assert contents(done) == before


@pytest.mark.long
def test_a_session_that_cannot_be_written_is_forked_into_a_folder_that_can(
    cli: Cli, done: Path, tmp_path: Path
) -> None:
    with read_only(done):
        other = tmp_path / "other"
        result = cli("fork", done, "--at-round=2", "--session=child", "--sessions-dir", other, "--run")
        assert result.code == 0, result.err
    child = checkpoints.SessionReader(other / "child")
    assert child.manifest().states == checkpoints.SessionReader(done).manifest().states
