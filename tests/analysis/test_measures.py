"""What sessions are compared by, also on the parts of the split, by hand."""

from dataclasses import replace
from functools import partial

import numpy as np

from simulator.results.analysis.measures import (
    accuracy_of,
    after_fork,
    averaged,
    client_on_part,
    measured,
    part_measures,
)
from tests.analysis.runs import chosen, of, record, run

NAN = float("nan")
TWO_CLIENTS = of("a", [
    record(1, 0.5, clients=[0.4, 0.6], loss={"mean": 2.0, "per_client": [3.0, 1.0]}),
    record(2, None, clients=[None, None], loss={"mean": None, "per_client": [None, None]}),
    record(3, 0.8, clients=[0.8, None], loss={"mean": 0.5, "per_client": [None, 0.5]}),
])  # fmt: skip
CKA = {"order": ["conv", "fc"], "layers": {"conv": 0.9, "fc": 0.4}, "matrix": {}}


def same(found: object, expected: list[float]) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def test_a_measure_is_one_number_a_round_and_nan_where_nobody_has_it() -> None:
    for session, name, expected in (
        (TWO_CLIENTS, "mean accuracy", [0.5, NAN, 0.8]),
        (TWO_CLIENTS, "worst client", [0.4, NAN, 0.8]),
        (TWO_CLIENTS, "std over clients", [0.1, NAN, 0.0]),  # of 0.4 and 0.6, as of all there are
        (TWO_CLIENTS, "training loss", [2.0, NAN, 0.5]),
        # of the deepest layer
        (of("a", [record(1, 0.5), record(2, 0.5, cka=CKA), record(3, 0.5)]), "CKA", [NAN, 0.4, NAN]),
        # only where eval becomes better
        (chosen("a", [(0.5, 0.6), (0.9, 0.5), (0.4, 0.7), (0.8, 0.7), (0.3, 0.8)]), "selected on eval",
         [0.5, 0.5, 0.4, 0.4, 0.3]),
        (run("a", [0.5, 0.6]), "selected on eval", [NAN, NAN]),
        (of("a", [record(1, 0.5), record(2, 0.6, on_eval=0.1), record(3, 0.7)]), "selected on eval", [NAN, 0.6, 0.6]),
        (of("a", RECORDS), "test loss", [NAN, 1.5, NAN, 0.5]),
        (of("a", RECORDS), "test F1", [NAN, 1.5, NAN, 0.5]),
        (of("a", RECORDS), "accord", [NAN, NAN, 0.25, NAN]),
    ):  # fmt: skip
        same(measured(session, name), expected)


def test_a_client_that_a_session_does_not_have_was_never_evaluated() -> None:
    same(accuracy_of(TWO_CLIENTS, 0), [0.4, NAN, 0.8])
    same(accuracy_of(TWO_CLIENTS, 2), [NAN, NAN, NAN])


def test_a_fork_begins_at_the_round_in_which_it_left_a_session_that_is_there() -> None:
    fork = replace(run("b", [0.1, 0.2, 0.7, 0.8]), document={"parent": {"id": "a", "name": "a", "round": 2}})
    mean = partial(measured, measure="mean accuracy")
    same(after_fork(mean, {"a"})(fork), [NAN, 0.2, 0.7, 0.8])
    same(after_fork(mean, {"c"})(fork), [0.1, 0.2, 0.7, 0.8])
    same(after_fork(mean, {"a"})(run("a", [0.1, 0.2])), [0.1, 0.2])


def test_sessions_become_a_line_over_the_rounds_and_costs_that_all_have() -> None:
    mean, runs = partial(measured, measure="mean accuracy"), [run("a", [0.1, 0.3, 0.5]), run("b", [0.3, 0.5])]
    line = averaged("both", runs, mean, "bytes")
    same(line.x, [150, 300])
    same(line.mean, [0.2, 0.4])
    assert line.std is not None
    same(line.std, [0.02**0.5, 0.02**0.5])  # of a sample: √(2 · 0.1² / 1)
    assert averaged("a", runs[:1], mean).std is None


def on_test(mean: float | None, per_client: object, **own: float) -> dict[str, object]:
    """The key `evaluation` of a record."""
    figures = {"mean": mean, "weighted": mean, "per_client": per_client}
    named = {name: {**figures, "mean": value} for name, value in own.items()}
    part = {"accuracy": figures, "loss": figures, "f1": figures, **({"metrics": named} if own else {})}
    return {"evaluation": {"test": part}}


RECORDS = [
    record(1, 0.5),  # of an early version
    record(2, 0.5, **on_test(1.5, {"0": 1.0, "7": 2.0})),
    record(3, 0.5, **on_test(None, {"7": None}, zeal=4.0, accord=0.25)),
    record(4, 0.5, **on_test(0.5, [0.25] * 8, zeal=5.0)),
]


def test_loss_and_f1_come_first_and_then_own_metrics_by_name() -> None:
    assert part_measures(RECORDS) == ("loss", "f1", "accord", "zeal")
    assert part_measures(RECORDS[:1]) == ()


def test_a_client_keeps_its_value_until_it_is_measured_again_or_absent() -> None:
    np.testing.assert_equal(client_on_part(RECORDS, "test", "loss", 0), [np.nan, 1.0, 1.0, 0.25])
    np.testing.assert_equal(client_on_part(RECORDS, "test", "f1", 7), [np.nan, 2.0, np.nan, 0.25])
