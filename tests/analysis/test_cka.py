"""CKA as the ledger has it."""

from pathlib import Path

import numpy as np

from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import CkaMeasurement, last_measured, least_similar
from simulator.results.analysis.tidy import cka_rows
from tests import sessions


def test_cka_is_that_of_the_last_round_measured(tmp_path: Path) -> None:
    measured = read(sessions.make(tmp_path / "s", rounds=12, clients=3, cka_every=5)).ledger.measured
    assert [one.round for one in measured] == [5, 10]
    assert last_measured(measured, 4) is None
    assert last_measured(measured, 9) is measured[0]
    found = last_measured(measured, 12)
    assert found is not None
    assert (found.round, found.layers) == (10, sessions.LAYERS)
    assert found.matrix("fc2").shape == (3, 3)


def test_pairs_are_listed_the_least_alike_first_without_those_that_have_no_value() -> None:
    matrix = np.array([[1.0, 0.4, np.nan], [0.4, 1.0, 0.2], [np.nan, 0.2, 1.0]])
    assert least_similar(matrix) == [(1, 2), (0, 1)]
    assert least_similar(np.empty((0, 0))) == []


def test_a_pair_without_cka_is_nan_and_a_layer_without_one_is_empty() -> None:
    cka = {"order": ["a"], "layers": {"a": None}, "matrix": {"a": [[1.0, None], [None, 1.0]]}}
    found = CkaMeasurement.of({"round": 1, "cka": cka})
    assert found is not None
    np.testing.assert_array_equal(found.matrix("a"), [[1.0, np.nan], [np.nan, 1.0]])
    assert np.isnan(found.mean("a"))
    assert found.matrix("b").size == 0


def test_a_client_alone_has_no_measurement() -> None:
    assert CkaMeasurement.of({"round": 1, "cka": {"order": [], "layers": {}, "matrix": {}}}) is None


def test_of_clients_that_were_drawn_the_rows_are_theirs() -> None:
    cka = {"order": ["a"], "layers": {"a": 0.3}, "matrix": {"a": [[1.0, 0.3], [0.3, 1.0]]}}
    everybody, drawn = (
        CkaMeasurement.of({"round": 1, "cka": cka | extra}) for extra in ({}, {"clients": [4, 1500]})
    )
    assert everybody is not None
    assert drawn is not None
    assert (list(everybody.clients), everybody.whom, everybody.between(0, 1, "a")) == ([0, 1], "", 0.3)
    assert (list(drawn.clients), drawn.whom, drawn.between(4, 1500, "a")) == (
        [4, 1500],
        ", 2 clients drawn",
        0.3,
    )
    assert np.isnan(drawn.between(0, 1, "a"))
    rows = [(row["client"], row["other"]) for row in cka_rows({"round": 1, "cka": drawn.cka})]
    assert rows == [(4, 1500)]
