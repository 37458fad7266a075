"""Single clients, by hand."""

import numpy as np
import pytest

from simulator.analysis.clients import Incidents, best, change, incidents
from tests import sessions
from tests.analysis.rounds import ledger


def test_the_change_is_that_to_the_round_before() -> None:
    curves = ledger(0.2, 0.5, 0.4).curves
    assert change(curves) == pytest.approx([-0.1])
    assert change(curves.upto(2)) == pytest.approx([0.3])
    assert np.isnan(change(curves.upto(1))).all()


def test_the_best_is_the_first_of_equals_and_leaves_gaps_out() -> None:
    assert best(np.array([0.1, np.nan, 0.7, 0.7])) == (0.7, 3)
    value, round = best(np.array([np.nan]))
    assert np.isnan(value) and round == 0


def test_incidents_are_listed_by_round() -> None:
    # Client 4 diverges in round 5, client 3 takes no part in every fourth round.
    records = [sessions.record(round, 5) for round in range(1, 9)]
    records[1] |= {"dropped": [3]}
    assert incidents(records, 3) == Incidents(diverged=(), dropped=(2,), absent=(4, 8))
    assert incidents(records, 4) == Incidents(diverged=(5,), dropped=(), absent=())
    assert incidents(records, 0) == Incidents((), (), ())
