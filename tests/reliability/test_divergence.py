"""NaN or a diverging client: recorded and named, the others go on; if asked to, the run stops with a checkpoint."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
import simulator
from simulator.engine.progress import Event, Warned
from simulator.sessions.committing import finite
from simulator.sessions.session import Session
from tests import federations
from tests.cli.conftest import TINY, Cli
from tests.federations import generated, on_images

DIVERGING = ("--method=standalone", "--set=training.lr=1e38", "--rounds=3", "--session=x")


def test_a_diverging_client_is_recorded_and_named_and_the_run_goes_on(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, *DIVERGING).code == 0
    session = checkpoints.SessionReader(sessions / "x")
    lost = session.records()[0]["diverged"]
    warned = [e["client"] for e in session.events() if e["event"] == "warning" and e["round"] == 1]
    assert sorted(warned) == lost != []
    assert len(session.records()) == 3


def test_a_run_stopped_by_divergence_says_whose_it_was(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, *DIVERGING, "--set=training.on_divergence=stop")
    session = checkpoints.SessionReader(sessions / "x")
    lost = session.records()[0]["diverged"]
    assert result.code == 6
    assert f"by divergence of client {', '.join(map(str, lost))}" in result.err
    assert (session.rounds(), session.state()) == ([1], "stopped")


def test_numbers_that_are_not_finite_are_recorded_as_null(tmp_path: Path) -> None:
    """FedL2G at a high rate: the norm of the guiding gradients overflows while every loss is finite still."""
    settings = federations.config("fedl2g_f", training={"lr": 1000.0})
    seen: list[Event] = []
    with on_images(generated()):
        Session.create(settings, tmp_path / "s", tmp_path).run(seen.append)
        assert Session.resume(tmp_path / "s", tmp_path).finished
    session = checkpoints.SessionReader(tmp_path / "s")
    assert session.records()[0]["method_metrics"]["gradient_norm"] is None
    said = "Round 1: method_metrics.gradient_norm is inf, which is no number; it is recorded as null."
    warned = [event for event in session.events() if event["event"] == "warning" and "client" not in event]
    assert [(event["round"], event["message"]) for event in warned] == [(1, said)]
    assert [event.message for event in seen if isinstance(event, Warned)] == [said]
    assert checkpoints.verify(tmp_path / "s") == []


@pytest.mark.long
def test_a_fork_runs_such_a_round_again_with_the_same_result(tmp_path: Path) -> None:
    once = {"training": {"lr": 1000.0}, "checkpoint": {"keep_last": 1, "keep_best": False}}
    with on_images(generated()):
        Session.create(federations.config("fedl2g_f", **once), tmp_path / "s", tmp_path).run()
        made = simulator.fork(tmp_path / "s", tmp_path / "fork", tmp_path, 2)
    assert made.replayed == 2


@pytest.mark.long
@given(
    st.recursive(
        st.floats() | st.integers() | st.none() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_whatever_a_record_holds_can_be_sealed_once_it_is_made_finite(value: object) -> None:
    made, lost = finite({"value": value})
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert all(not math.isfinite(number) for number in lost.values())
