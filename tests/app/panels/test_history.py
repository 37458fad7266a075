"""What the panels compute, with numbers by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.app import sessions
from tests.app.panels.stage import read
from tui.app.curves import Curves, Grower
from tui.app.feed import Run
from tui.app.panels import history


def curves(
    *means: float | None, up: int = 100, down: int = 50, flops: float = 7, seconds: float = 2
) -> Curves:
    """One client; every round costs the same."""
    grower = Grower()
    grower.extend(
        [
            sessions.record(round, 1)
            | {
                "accuracy": sessions.record(round, 1)["accuracy"]
                | {"mean": mean, "weighted": mean, "best_mean": mean, "per_client": [mean]},
                "bytes": {
                    "up": up,
                    "down": down,
                    "up_total": up * round,
                    "down_total": down * round,
                    "per_client_up": [up],
                    "per_client_down": [down],
                    "by_tensor": {},
                },
                "flops": {"clients": flops, "server": 0, "total": flops},
                "timing": {"seconds": seconds},
            }
            for round, mean in enumerate(means, 1)
        ]
    )
    return grower.curves()


def run_of(events: list[dict[str, object]], kept: tuple[int, ...] = (), keep_last: int = 3) -> Run:
    config = {"method": {"name": "fedlora"}, "checkpoint": {"keep_last": keep_last}}
    return Run(Path("x"), config=config, events=tuple(events), checkpoints=kept)


def test_a_target_costs_what_all_rounds_up_to_it_cost() -> None:
    took = history.reached(curves(0.2, 0.5, 0.6, 0.4), 0.6)
    assert took == history.Reached(round=3, bytes=450.0, flops=21.0, seconds=6.0)


def test_a_target_is_reached_when_it_is_first_reached_exactly_or_passed() -> None:
    assert history.reached(curves(0.2, 0.7, 0.5, 0.9), 0.5) == history.Reached(2, 300.0, 14.0, 4.0)


def test_a_target_that_was_never_reached_has_no_cost() -> None:
    assert history.reached(curves(0.2, 0.5), 0.51) is None
    assert history.reached(Grower().curves(), 0.0) is None


def test_rounds_without_an_evaluation_reach_nothing_and_are_not_drawn() -> None:
    some = curves(None, 0.3, None, 0.5)
    assert history.evaluated(some).tolist() == [2, 4]
    assert history.first_at(some.mean, 0.1) == 2


def test_quantiles_lie_between_order_statistics_and_leave_nan_out() -> None:
    values = np.array([[1.0, 2, 3, 4, np.nan], [5, np.nan, np.nan, np.nan, np.nan], [np.nan] * 5])
    low, middle = history.quantiles(values, (0.1, 0.5))
    # Four values: the 10 % quantile is 0.3 of the way from the first to the second.
    np.testing.assert_allclose(low, [1.3, 5.0, np.nan])
    np.testing.assert_allclose(middle, [2.5, 5.0, np.nan])


@given(arrays.arrays(float, (3, 7), elements=st.floats(-1e6, 1e6)), st.floats(0, 1))
def test_quantiles_are_numpys_where_nothing_is_missing(values: np.ndarray, share: float) -> None:
    (mine,) = history.quantiles(values, (share,))
    np.testing.assert_allclose(mine, np.quantile(values, share, axis=1), rtol=1e-9, atol=1e-9)


def test_a_switch_is_marked_between_the_rounds_and_names_the_method() -> None:
    switch = {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"}
    settings = {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"}
    fork = {"event": "forked", "round": 4, "name": "parent", "method": "fedlora"}
    found = [(mark.x, mark.label) for mark in history.marks(run_of([switch, settings, fork]))]
    assert found == [(4.5, "fork"), (12.5, "fedssa"), (15.5, "settings")]


def test_only_checkpoints_that_outlast_the_newest_are_marked() -> None:
    found = history.marks(run_of([], kept=(0, 10, 20, 38, 39, 40)))
    assert [(mark.x, mark.label) for mark in found] == [(10, "kept"), (20, "kept")]


def test_checkpoints_by_the_dozen_are_no_marks() -> None:
    assert history.marks(run_of([], kept=tuple(range(10, 160, 10)))) == []


def test_a_fork_at_the_beginning_needs_no_mark() -> None:
    assert history.marks(run_of([{"event": "forked", "round": 0, "name": "p", "method": "fd"}])) == []


def test_cka_is_that_of_the_last_round_measured(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=12, clients=3, cka_every=5))
    assert [one.round for one in history.measurements(run)] == [5, 10]
    assert history.last_measured(run, 4) is None
    assert history.last_measured(run, 9) is history.measurements(run)[0]
    found = history.last_measured(run, 12)
    assert found is not None
    assert (found.round, found.layers) == (10, sessions.LAYERS)
    assert found.matrix("fc2").shape == (3, 3)


def test_a_pair_without_cka_is_nan_and_a_layer_without_one_is_empty() -> None:
    cka = {"order": ["a"], "layers": {"a": None}, "matrix": {"a": [[1.0, None], [None, 1.0]]}}
    found = history.Measured(1, ("a",), cka)
    np.testing.assert_array_equal(found.matrix("a"), [[1.0, np.nan], [np.nan, 1.0]])
    assert np.isnan(found.mean("a"))
    assert found.matrix("b").size == 0


def test_the_methods_are_those_of_the_ledger_and_the_one_that_is_next(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=6, clients=2, switch=(4, "fedssa")))
    assert history.methods(run) == ((1, "fedlora"), (5, "fedssa"))
    asked = {"event": "switched", "round": 6, "method": "fedgh"}
    assert history.methods(replace(run, events=(*run.events, asked)))[-1] == (7, "fedgh")


def test_the_change_is_that_to_the_round_before() -> None:
    some = curves(0.2, 0.5, 0.4)
    assert history.change(some, 3) == pytest.approx([-0.1])
    assert np.isnan(history.change(some, 1)).all()


def test_an_axis_of_amounts_begins_at_nothing() -> None:
    assert history.from_zero(np.array([np.nan, 2.0]), np.array([4.0])) == (0.0, 4.2)
    assert history.from_zero(np.zeros(3)) == (0.0, 1.0)
