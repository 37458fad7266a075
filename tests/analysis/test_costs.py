"""What rounds cost, what a target took, where time goes, and what is left, by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.base.errors import ConfigError
from simulator.results.analysis import costs, feed
from simulator.results.analysis.comparison import table
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import NOTHING, SessionData
from simulator.results.figures import accuracy, gains
from tests import sessions
from tests.analysis.runs import clocked, ledger, run


def test_a_target_costs_what_all_rounds_up_to_the_first_at_it_cost() -> None:
    for means, target, cost in (
        ((0.2, 0.5, 0.6, 0.4), 0.6, [3, 450.0, 21.0, 6.0]),
        ((0.2, 0.7, 0.5, 0.9), 0.5, [2, 300.0, 14.0, 4.0]),
    ):
        assert list((costs.reached(ledger(*means).curves, target) or {}).values())[:4] == cost
    assert costs.reached(ledger(0.2, 0.5).curves, 0.51) is costs.reached(NOTHING.curves, 0.0) is None
    assert ledger(None, 0.3, None, 0.5).curves.evaluated.tolist() == [2, 4]


def test_a_place_is_on_another_axis_where_the_nearest_round_is() -> None:
    for place, cost, there in (
        (("rounds", 2.0), "bytes", 300.0),
        (("bytes", 299.0), "rounds", 2.0),
        (("bytes", 375.0), "rounds", 2.0),  # as near to 450 as to 300
        (("bytes", 376.0), "seconds", 6.0),
        (("FLOPs", 1e9), "rounds", 3.0),
        (("rounds", 0.0), "FLOPs", 7.0),
        (("rounds", 12.0), "rounds", 12.0),  # another session may have more rounds
    ):
        assert costs.elsewhere(ledger(0.1, 0.2, 0.3).curves, place, cost) == there  # type: ignore[arg-type]
    assert math.isnan(costs.elsewhere(NOTHING.curves, ("bytes", 5.0), "rounds"))


def counted(name: str, costs: str = "actual", schedule: str = "synchronous") -> SessionData:
    """A session on the clock of one round and 3 joules, which are counted by this rule."""
    made = clocked(name, [(10, 0.5)], method=name)
    made.config["system"] = {"costs": costs, "schedule": schedule}
    return made


OF_TODAY = [counted("a"), counted("b", schedule="buffered")]
OF_BEFORE = [counted("c", "planned"), counted("d", "planned", "buffered")]
"""Sessions of before count waiting in synchronous rounds, and not in buffered ones."""


def test_joules_of_different_rules_are_never_drawn_on_one_axis() -> None:
    for runs, comparable in (
        (OF_TODAY, True),
        ([OF_BEFORE[0], counted("e", "planned", "deadline")], True),
        (OF_BEFORE, False),
        ([OF_TODAY[0], OF_BEFORE[0]], False),
    ):
        assert costs.comparable_costs(runs) == (*costs.COSTS, *costs.SIMULATED[: 1 + comparable])
        shown = [plot.get_xlabel() for plot in gains.pareto(runs, by="method").axes if plot.get_visible()]
        assert (shown[-1] == "energy, J") == comparable
        if comparable:
            accuracy.over(runs, by="method", x="joules")
        else:
            with pytest.raises(ConfigError, match=r"Do not compare joules.*Choose another x axis"):
                accuracy.over(runs, by="method", x="joules")


def test_a_table_says_which_rows_count_joules_by_another_rule() -> None:
    rules = "as they happened (a); as planned, without waiting (d)"
    about = f"Do not compare joules. They are counted by different rules: {rules}."
    runs = [OF_TODAY[0], OF_BEFORE[1]]
    assert about in table(runs, "method", target=0.5).remarks()
    assert about in table(runs, "method", columns=["joules"]).remarks()
    assert about not in table(runs, "method").remarks()
    assert not any("joules" in each for each in table(OF_TODAY, "method", target=0.5).remarks())
    timeless = [*OF_BEFORE[:1], run("e", [0.5], method="e")]
    assert not any("joules" in each for each in table(timeless, "method", target=0.5).remarks())


@pytest.fixture
def half(tmp_path: Path) -> SessionData:
    """Stopped after 12 of 20 rounds, with checkpoints of rounds 5, 10 and 12."""
    return feed.read(sessions.make(tmp_path / "half", rounds=12, of=20, clients=2, state="stopped"))


def test_the_estimate_is_the_latest_rounds_mean_times_what_is_left(half: SessionData) -> None:
    assert costs.seconds_left(half.curves, 8) == pytest.approx(8 * 2.5)
    assert costs.seconds_left(half.curves, 0) is None
    assert costs.seconds_left(half.curves.upto(0), 8) is None


def test_a_state_is_computed_again_from_the_nearest_checkpoint_before(half: SessionData) -> None:
    for round, rounds in ((9, 4), (10, 0), (4, 4), (0, 0)):
        assert costs.rounds_again(half, round) == (rounds, rounds * 2.5)


def test_a_run_that_ends_at_a_simulated_time_has_the_rounds_left_that_this_takes() -> None:
    for until_time, simulated, left in (
        (0.0, None, 90),  # no clock
        (0.0, 20.0, 90),
        (50.0, 20.0, 15),  # ten rounds took 20 s, so 30 s more take 15
        (49.0, 20.0, 15),  # a round that has begun ends
        (1000.0, 20.0, 90),  # the last round comes first
        (20.0, 20.0, 0),
        (50.0, float("nan"), 90),
    ):
        assert costs.rounds_left(100, 10, until_time, simulated) == left


TIMING = {
    "seconds": 9.0, "train": 6.0, "server": 2.0, "evaluate": 3.0, "checkpoint": 0.5, "waited": 60.0, "workers": 2,
    "per_client": [1.0, 2.0, None, 3.0], "cpu": 13.5, "memory": 1 << 30, "at": "",
}  # fmt: skip
OLD = {"seconds": 9.0, "train": 6.0, "evaluate": 3.0, "checkpoint": 0.5, "at": ""}


def timed(timing: dict[str, Any]) -> Ledger:
    return Ledger.of([sessions.record(1, 4, timing=timing)])


def test_training_is_split_into_clients_and_server_and_a_pause_is_waiting() -> None:
    for timing, expected in ((TIMING, [4, 2, 3, 0.5, 60]), (OLD, [6, np.nan, 3, 0.5, np.nan])):
        parts = costs.seconds_by_part(timed(timing).curves)
        assert list(parts) == ["clients", "server", "evaluation", "checkpoint", "waiting"]
        np.testing.assert_array_equal([values[0] for values in parts.values()], expected)
    curves = timed(OLD).curves
    assert np.isnan([curves["seconds_cpu"][0], curves["memory"][0]]).all()
    assert not curves.client_seconds.values.size


def test_two_workers_that_had_six_of_eight_seconds_of_clients_were_busy_three_quarters() -> None:
    """Clients that were kept of an interrupted round make no worker busier than it can be."""
    for timing, share in ((TIMING, 0.75), (TIMING | {"train": 2.5}, 1.0), (OLD, np.nan)):
        np.testing.assert_allclose(costs.busy_share(timed(timing).curves), [share])


def test_figures_of_the_method_are_gaps_where_a_round_lacks_them_and_texts_are_none() -> None:
    one = sessions.record(1, 4, method_metrics={"spread": 2, "note": "x"})
    two = sessions.record(2, 4, method_metrics={"spread": 3.5, "late_loss": 0.25})
    found = costs.method_metrics([one, two])
    assert list(found) == ["spread", "late_loss"]
    np.testing.assert_array_equal(found["late_loss"], [np.nan, 0.25])
    np.testing.assert_array_equal(found["spread"], [2, 3.5])


def test_the_owner_s_letters_are_where_the_clients_are_or_nowhere_where_no_round_is_under_way() -> None:
    progress = {"round": 2, "rounds": 5, "phase": "train", "each": "dtw-", "memory": 1 << 20, "cpu": 1.5}
    live = SessionData(Path("x"), ledger=timed(TIMING), state="running", progress=progress)
    assert costs.at_work(live) == ("done", "training", "waiting", "")
    assert costs.machine_use(live) == {"memory": 1 << 20, "cpu": 1.5}
    for changes in (
        {"state": "interrupted"},
        {"progress": {"round": 1, "each": "dddd"}},  # the round is over
        {"progress": {"round": 2, "each": "dd"}},  # of other clients
        {"progress": {"round": 2}},  # an earlier version's
    ):
        assert costs.at_work(replace(live, **changes)) == ()  # type: ignore[arg-type]


def test_a_tensor_that_no_longer_travels_keeps_its_total_and_one_that_never_did_is_left_out() -> None:
    travelled: list[dict[str, int]] = [{"up/head": 300, "down/unused": 0}, {"up/adapter": 100}]
    assert costs.by_tensor([{"bytes": {"by_tensor": each}} for each in travelled]) == [  # type: ignore[typeddict-item]
        costs.TensorTraffic("head", "up", 0, 0.0, 300),
        costs.TensorTraffic("adapter", "up", 100, 1.0, 100),
    ]
    assert costs.by_tensor([]) == []
