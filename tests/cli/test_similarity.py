"""`htfl-sim checkpoint --cka` of a session that nobody runs."""

from pathlib import Path

import checkpoints
from tests.cli.conftest import Cli
from tests.cli.test_bad_input import assert_refused


def test_the_newest_round_is_measured_after_the_fact(cli: Cli, done: Path) -> None:
    before = sorted(path.name for path in done.rglob("*"))
    result = cli("checkpoint", "done", "--cka")
    assert result.code == 0
    assert "CKA between clients of done after round 3" in result.out
    assert "mean over pairs" in result.out
    assert sorted(path.name for path in done.rglob("*")) == before


def test_as_json_it_holds_the_matrices_of_every_layer(cli: Cli, done: Path) -> None:
    kept = checkpoints.SessionReader(done).rounds()[0]
    measured = cli("checkpoint", "done", "--cka", "--round", str(kept), "--json").json()
    assert measured["round"] == kept
    assert measured["order"] == list(dict.fromkeys(measured["order"]))
    assert set(measured["order"]) == set(measured["layers"]) == set(measured["matrix"])
    for name, matrix in measured["matrix"].items():
        assert {row[i] for i, row in enumerate(matrix)} <= {1.0, None}, name
        assert len(matrix) == 4
    assert [row[i] for i, row in enumerate(measured["matrix"][measured["order"][-1]])] == [1.0] * 4


def test_a_round_that_is_not_kept_is_refused(cli: Cli, done: Path) -> None:
    assert_refused(cli("checkpoint", "done", "--cka", "--round", "9"), 4, "no checkpoint of round 9")


def test_a_round_without_cka_is_refused(cli: Cli, done: Path) -> None:
    assert_refused(cli("checkpoint", "done", "--round", "3"), 2, "--round belongs to --cka")
