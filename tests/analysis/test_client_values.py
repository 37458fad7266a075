"""Values by round and client: what is read is what a full table would say, and so are quantiles."""

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.record import check_record
from simulator.metrics.by_client import Values
from simulator.results.analysis import client_values
from simulator.results.analysis.client_values import Array, ClientValues, ClientValuesBuilder, quantiles
from simulator.results.analysis.clients import accuracy_changes, falls, fell_most, lowest_client
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.measures import measured
from simulator.results.analysis.run import SessionData
from tests import sessions

CLIENTS = 5
VALUE = st.none() | st.floats(-1, 1)
ROUNDS = st.lists(
    st.lists(VALUE, min_size=CLIENTS, max_size=CLIENTS)
    | st.dictionaries(st.integers(0, CLIENTS - 1).map(str), VALUE, max_size=CLIENTS),
    max_size=8,
)


def built(*rounds: Values, absent: float = np.nan, carried: bool = False) -> ClientValues:
    builder = ClientValuesBuilder(absent, carried)
    builder.extend(rounds, CLIENTS)
    return builder.taken()


def table(rounds: list[Any], absent: float, carried: bool) -> Array:
    """The same values in a full table, cell by cell."""
    found = np.full((len(rounds), CLIENTS), absent)
    for row, reported in enumerate(rounds):
        if carried and row and isinstance(reported, Mapping):
            found[row] = found[row - 1]
        for client, value in reported.items() if isinstance(reported, Mapping) else enumerate(reported):
            found[row, int(client)] = np.nan if value is None else value
    return found


@given(rounds=ROUNDS, kind=st.sampled_from([(np.nan, True), (np.nan, False), (0.0, False)]), data=st.data())
def test_what_is_read_is_what_a_full_table_says(
    rounds: list[Any], kind: tuple[float, bool], data: st.DataObject
) -> None:
    values, expected = built(*rounds, absent=kind[0], carried=kind[1]), table(rounds, *kind)
    some = data.draw(st.permutations(range(CLIENTS)).map(lambda order: order[:3]))
    first = data.draw(st.integers(0, len(rounds)))
    np.testing.assert_array_equal(values.select(some, first), expected[first:, some])
    np.testing.assert_array_equal(values.upto(first).select(range(CLIENTS)), expected[:first])
    for client in range(CLIENTS):
        np.testing.assert_array_equal(values.of(client), expected[:, client])
    for round in range(1, len(rounds) + 1):
        np.testing.assert_array_equal(values.after(round), expected[round - 1])


@given(ROUNDS)
def test_reductions_are_those_of_a_full_table(rounds: list[Any]) -> None:
    values, expected = built(*rounds), table(rounds, np.nan, carried=False)
    finite = np.isfinite(expected)
    sums, counts = np.where(finite, expected, 0).sum(axis=1), finite.sum(axis=1)
    known = counts > 0
    np.testing.assert_allclose(values.sums()[known], sums[known], atol=1e-12)
    np.testing.assert_allclose(values.means()[known], sums[known] / counts[known], atol=1e-12)
    assert np.isnan(values.sums()[~known]).all() and np.isnan(values.means()[~known]).all()
    sent = built(*rounds, absent=0.0)
    if rounds and not np.isnan(table(rounds, 0.0, carried=False)).any():
        np.testing.assert_allclose(sent.totals(), table(rounds, 0.0, carried=False).sum(axis=0), atol=1e-12)


@given(rounds=ROUNDS, cells=st.sampled_from([1, 10, 1000]))
def test_quantiles_are_those_of_a_full_table_however_many_rounds_are_taken_at_a_time(
    rounds: list[Any], cells: int
) -> None:
    values = built(*rounds, carried=True)
    (expected,) = quantiles(table(rounds, np.nan, carried=True), (0.1,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_values, "CELLS", cells)
        np.testing.assert_array_equal(values.by_round(lambda piece: quantiles(piece, (0.1,))[0]), expected)


@given(ROUNDS)
def test_changes_are_the_differences_between_rows_of_a_full_table(rounds: list[Any]) -> None:
    expected = np.full((len(rounds), CLIENTS), np.nan)
    expected[1:] = np.diff(table(rounds, np.nan, carried=True), axis=0)
    for round, client, found in zip(*built(*rounds, carried=True).changes(), strict=True):
        np.testing.assert_array_equal(found, expected[round - 1, client])
        expected[round - 1, client] = np.nan
    assert not expected[np.isfinite(expected)].any()  # what is not reported does not change


def test_values_of_nobody_are_no_values() -> None:
    for reported, fault in (
        ({"5": 1.0}, "none of the 5 clients"),
        ({"-1": 1.0}, "none of the 5 clients"),
        ([1.0], "of 1 clients, not 5"),
        ({"3": 1.0, "03": 2.0}, "twice"),
    ):
        with pytest.raises(ValueError, match=fault):
            built(reported)


def test_only_reported_values_are_stored() -> None:
    assert built({"2": 0.5}, [None, 1.0, None, None, 2.0]).values.tolist() == [0.5, 1.0, 2.0]
    assert built([0, 7, 0, 0, 0], {"3": 8}, absent=0.0).owners.tolist() == [1, 3]


def test_curves_of_twenty_thousand_clients_take_less_memory_than_one_full_table() -> None:
    clients, rounds, before = 20_000, 50, None
    records = []
    for round in range(1, rounds + 1):
        before = sessions.changes_record(round, clients, 10, before)
        check_record(before, clients)
        records.append(before)
    tracemalloc.start()
    try:
        run = SessionData(Path("large"), ledger=Ledger.of(records))
        curves = run.curves
        assert lowest_client(curves) and not fell_most(curves) and not falls(curves)
        assert np.isfinite([measured(run, "std over clients"), measured(run, "training loss")]).all()
        assert curves.accuracy.select(range(1000)).shape == (rounds, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.isfinite(accuracy_changes(curves)).sum() <= 500
    assert curves.client_up.totals().sum() == curves["bytes_up"].sum()
    assert peak < clients * rounds * 8 // 2


def test_quantiles_lie_between_order_statistics_and_leave_nan_out() -> None:
    values = np.array([[1.0, 2, 3, 4, np.nan], [5, np.nan, np.nan, np.nan, np.nan], [np.nan] * 5])
    low, middle = quantiles(values, (0.1, 0.5))
    # Four values: the 10 % quantile is 0.3 of the way from the first to the second.
    np.testing.assert_allclose(low, [1.3, 5.0, np.nan])
    np.testing.assert_allclose(middle, [2.5, 5.0, np.nan])
