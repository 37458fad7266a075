"""Rounds as arrays."""

import numpy as np
import pytest

from simulator.results.analysis.ledger import CurvesBuilder, LedgerBuilder
from tests import sessions


def test_rows_are_rounds_and_columns_are_clients() -> None:
    records = [sessions.record(round, 5) for round in range(1, 9)]
    builder = CurvesBuilder()
    builder.extend(records)
    curves = builder.curves()
    assert (curves.rounds, curves.clients) == (8, 5)
    assert curves["accuracy"].tolist() == [record["accuracy"]["mean"] for record in records]
    assert curves.accuracy.after(7).tolist() == records[6]["accuracy"]["per_client"]
    assert np.flatnonzero(curves.participated.of(3) == 0).tolist() == [3, 7]  # it misses every fourth round
    assert np.isnan(curves.loss.after(5)[4])  # it diverged in round 5


def test_what_was_taken_earlier_stays_as_it_was_while_rounds_come() -> None:
    builder = CurvesBuilder()
    taken = []
    for round in range(1, 40):
        builder.extend([sessions.record(round, 2)])
        taken.append(builder.curves())
    for rounds, curves in enumerate(taken, 1):
        assert curves.rounds == rounds
        assert curves["accuracy"].tolist() == taken[-1]["accuracy"][:rounds].tolist()


def test_a_part_of_the_rounds_is_no_copy() -> None:
    builder = CurvesBuilder()
    builder.extend([sessions.record(round, 2) for round in (1, 2, 3)])
    curves = builder.curves()
    assert np.shares_memory(curves.upto(2).accuracy.values, curves.accuracy.values)
    assert curves.upto(2).participated.select([0, 1]).shape == (2, 2)


def test_a_round_that_is_missing_is_named() -> None:
    builder = LedgerBuilder()
    builder.extend([sessions.record(1, 2)])
    with pytest.raises(ValueError, match="round 2 is missing"):
        builder.extend([sessions.record(3, 2)])
