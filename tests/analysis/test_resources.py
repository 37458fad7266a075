"""Where a round's time goes, by numbers one can work out in one's head."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.results.analysis.costs import (
    at_work,
    busy_share,
    machine_use,
    method_metrics,
    seconds_by_part,
)
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions

TIMING = {
    "seconds": 9.0,
    "train": 6.0,
    "server": 2.0,
    "evaluate": 3.0,
    "checkpoint": 0.5,
    "waited": 60.0,
    "workers": 2,
    "per_client": [1.0, 2.0, None, 3.0],
    "cpu": 13.5,
    "memory": 1 << 30,
    "at": "",
}
OLD = {"seconds": 9.0, "train": 6.0, "evaluate": 3.0, "checkpoint": 0.5, "at": ""}


def ledger(*timings: dict[str, Any], **changes: Any) -> Ledger:
    return Ledger.of(
        [sessions.record(round, 4, timing=timing, **changes) for round, timing in enumerate(timings, 1)]
    )


def test_training_is_split_into_clients_and_server_and_a_pause_is_waiting() -> None:
    spent = {name: values.tolist() for name, values in seconds_by_part(ledger(TIMING).curves).items()}
    assert spent == {
        "clients": [4.0],
        "server": [2.0],
        "evaluation": [3.0],
        "checkpoint": [0.5],
        "waiting": [60.0],
    }


def test_an_earlier_version_s_round_has_its_server_with_the_clients_and_no_more() -> None:
    curves = ledger(OLD).curves
    spent = {name: values[0] for name, values in seconds_by_part(curves).items()}
    assert spent["clients"] == 6.0
    assert np.isnan(
        [
            spent["server"],
            spent["waiting"],
            curves["seconds_cpu"][0],
            curves["memory"][0],
            busy_share(curves)[0],
        ]
    ).all()
    assert not curves.client_seconds.values.size


def test_two_workers_that_had_six_of_eight_seconds_of_clients_were_busy_three_quarters() -> None:
    np.testing.assert_allclose(busy_share(ledger(TIMING).curves), [0.75])


def test_clients_kept_of_an_interrupted_round_make_no_worker_busier_than_it_can_be() -> None:
    np.testing.assert_allclose(busy_share(ledger(TIMING | {"train": 2.5}).curves), [1.0])


def test_figures_of_the_method_are_gaps_where_a_round_lacks_them_and_texts_are_none() -> None:
    one = sessions.record(1, 4, method_metrics={"spread": 2, "note": "x"})
    two = sessions.record(2, 4, method_metrics={"spread": 3.5, "late_loss": 0.25})
    found = method_metrics([one, two])
    assert list(found) == ["spread", "late_loss"]
    np.testing.assert_array_equal(found["late_loss"], [np.nan, 0.25])
    np.testing.assert_array_equal(found["spread"], [2, 3.5])


@pytest.fixture
def run() -> SessionData:
    progress = {"round": 2, "rounds": 5, "phase": "train", "each": "dtw-", "memory": 1 << 20, "cpu": 1.5}
    return SessionData(Path("x"), ledger=ledger(TIMING), state="running", progress=progress)


def test_the_owner_s_letters_are_where_the_clients_are(run: SessionData) -> None:
    assert at_work(run) == ("done", "training", "waiting", "")
    assert machine_use(run) == {"memory": 1 << 20, "cpu": 1.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "interrupted"},
        {"progress": {"round": 1, "each": "dddd"}},  # the round is over
        {"progress": {"round": 2, "each": "dd"}},  # of other clients
        {"progress": {"round": 2}},  # an earlier version's
    ],
)
def test_where_no_round_is_under_way_or_nobody_says_the_clients_are_nowhere(
    run: SessionData, changes: dict[str, Any]
) -> None:
    assert at_work(replace(run, **changes)) == ()
