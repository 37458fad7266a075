"""A failure is no score: diverged clients are counted once, and every table names them."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from simulator.base.errors import ConfigError
from simulator.results.analysis.caveats import caveats, divergences
from simulator.results.analysis.comparison import Pivot, common_target, table
from simulator.results.analysis.gain import gains
from simulator.results.analysis.ledger import Divergence, totals_of
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.why import why
from simulator.results.export.sinks import scalars
from simulator.studies.board import Setting
from tests import sessions as made
from tests.analysis.runs import of, record

approx = pytest.approx


def session(
    name: str, diverged: list[list[int]], seed: int = 0, method: str = "fedlora", accuracy: float = 0.5
) -> SessionData:
    """A session of three clients, with those that diverged in each round."""
    records = [
        record(number, accuracy, accuracy, clients=[accuracy] * 3, participants=[0, 1, 2], diverged=each)
        for number, each in enumerate(diverged, 1)
    ]
    return of(name, records, seed, method)


SOUND = session("a1", [[], []], 1, accuracy=0.7)
PARTLY = session("a0", [[1], [0, 1]])
"""Clients 0 and 1 diverged: once in round 1, twice in round 2."""
LOST = session("b0", [[0, 1, 2], [0, 1, 2]], method="fedgh", accuracy=0.9)
"""All clients keep their first models, of accuracy 0.9."""
ALONE = [session("s0", [[], []], 0, "standalone", 0.4), session("s1", [[], []], 1, "standalone", 0.4)]


def test_clients_rounds_and_updates_that_diverged_are_counted() -> None:
    assert Divergence.of(PARTLY.totals) == Divergence(1, sessions=1, clients=2, rounds=2, updates=3)
    assert Divergence.of(PARTLY.totals, upto=1) == Divergence(1, sessions=1, clients=1, rounds=1, updates=1)
    assert not Divergence.of(SOUND.totals)
    lost = Divergence(1, sessions=1, clients=3, rounds=2, updates=6, untrained=1)
    assert Divergence.of(LOST.totals) == lost
    both = Divergence.over(Divergence.of(each.totals) for each in (SOUND, PARTLY, LOST))
    assert both == Divergence(3, sessions=2, clients=5, rounds=4, updates=9, untrained=1)
    assert str(both) == "5 clients in 4 rounds"


def test_trackers_get_no_score_as_long_as_every_update_has_diverged() -> None:
    for diverged, scored in (
        ([[0, 1], [0, 1]], [False, False]),
        ([[0, 1], [0]], [False, True]),
        ([[0], [0, 1]], [True, True]),
    ):
        run = of("x", [
            record(number, 0.9, clients=[0.9, 0.9], participants=[0, 1], diverged=each)
            for number, each in enumerate(diverged, 1)
        ])  # fmt: skip
        sent = [scalars(each, run) for each in run.records]
        assert [any("accuracy" in name for name in each) for each in sent] == scored
        assert ["rounds/untrained" not in each for each in sent] == scored


def test_a_record_from_before_the_count_has_no_diverged_client() -> None:
    older = dict(record(1, 0.5))
    older.pop("diverged", None)
    assert not Divergence.of(totals_of([older]))  # type: ignore[list-item]
    idle = of("x", [record(1, 0.5, participants=[], diverged=[])])
    assert not Divergence.of(idle.totals).untrained


def test_the_table_marks_an_accuracy_and_names_the_count() -> None:
    found = table([PARTLY, SOUND], "method")
    (row,) = found.rows
    cells = {column.name: column.cell(row) for column in found.columns()}
    assert cells["last, %"] == "60.00 ± 14.14 (1 of 2 diverged)"
    note = "fedlora: clients diverged in 1 of 2 sessions (2 clients in 2 rounds), and kept their models of before."
    assert note in found.remarks()
    assert found.to_json()["rows"][0]["diverged"]["clients"] == 2
    assert dict(found.fields(row))["diverged"] == 1
    pivot = Pivot(table([PARTLY, SOUND], ["method", "data.dataset"]))
    assert pivot.columns()[1].cell(pivot.rows[0]) == "60.00 ± 14.14 (1 of 2 diverged)"


def test_a_method_that_learned_nothing_has_no_score() -> None:
    found = table([*ALONE, LOST], "method", 0.3, "standalone")
    row = found.rows[1]
    assert (row.best, row.last, row.worst, row.difference, row.reached) == (None, None, None, None, 0)
    assert next(c.cell(row) for c in found.columns() if c.name == "last, %") == "no score (diverged)"
    note = "fedgh has no score: every client diverged in every round, and kept its first model."
    assert note in found.notes
    assert common_target([*ALONE, LOST]) == 0.4  # of those that have a score


def test_a_listing_has_no_score_of_a_session_that_learned_nothing(tmp_path: Path) -> None:
    whole = made.record

    def listed(name: str, *diverged: list[int]) -> Summary:
        def record(round: int, *given: Any, **named: Any) -> dict[str, Any]:
            return whole(round, *given, **named) | {"diverged": diverged[round - 1]}

        with patch.object(made, "record", record):
            return Summary.read(made.make(tmp_path / name, clients=3, rounds=2))

    failed, sound = listed("failed", [0, 1, 2], [0, 1, 2]), listed("sound", [], [0, 1, 2])
    assert (failed.untrained, failed.accuracy, failed.best, failed.best_round) == (True, None, None, None)
    assert sound.accuracy is not None and sound.best is not None and not sound.untrained
    setting = Setting("lr=1", (failed, sound), 2)  # a mean over the other would hide the failure
    assert (setting.accuracy, setting.best) == (None, None)


def test_why_begins_with_the_divergence_of_every_client() -> None:
    text = why(LOST, 0).findings[0].text
    assert text.startswith("b0 has no score: every client diverged in every round, and kept its first model.")
    assert "no score" not in why(PARTLY, 0).findings[0].text
    assert "FedGH has no score" in caveats([SOUND, LOST], ["method"])[0]  # of a figure


def test_no_mean_hides_a_session_that_learned_nothing() -> None:
    """0.7 of the other seed alone would look like a result."""
    found = table([LOST, session("b1", [[], []], 1, "fedgh", 0.7)], "method", columns=["last", "median"])
    assert found.rows[0].last is None and found.rows[0].extras["median client"] is None
    assert found.columns()[0].cell(found.rows[0]) == "no score (1 of 2 diverged)"


def test_the_selection_on_eval_takes_no_session_that_learned_nothing() -> None:
    """Its 0.9 on eval are those of its first models."""
    low, high = session("low", [[]], accuracy=0.5), session("high", [[0, 1, 2]], accuracy=0.9)
    low.config["training"], high.config["training"] = {"lr": 0.1}, {"lr": 1e30}
    found = table([low, high], "method", select="eval")
    assert found.rows[0].chosen == "training.lr=0.1"
    assert found.rows[0].selected is not None and found.rows[0].selected.mean == approx(0.5)


def test_groups_of_which_the_same_is_true_share_a_note() -> None:
    known = [Divergence.of(each.totals) for each in (LOST, PARTLY, SOUND)]
    lost, partly, sound = known
    assert divergences([("a", [lost]), ("b", [partly]), ("c", [lost]), ("d", [sound]), ("e", [lost])]) == [
        "a, c, and e have no score: every client diverged in every round, and kept its first model.",
        "b: clients diverged (2 clients in 2 rounds), and kept their models of before.",
    ]
    assert divergences([("a", [lost, sound])])[0].startswith(
        "a has no score: every client diverged in every round of 1 of 2 sessions"
    )


def test_rows_whose_labels_are_written_alike_are_both_named() -> None:
    rates = {0.12345678: LOST, 0.12345679: SOUND}
    runs = [replace(run, config=run.config | {"training": {"lr": lr}}) for lr, run in rates.items()]
    assert table(runs, "training.lr").notes[0].startswith("lr 0.123457 has no score")


def test_gains_name_the_count_and_have_no_row_without_a_score() -> None:
    found = gains([*ALONE, PARTLY, SOUND, LOST], "method")
    (row,) = found.rows  # +0.1 and +0.3
    assert row.label == "fedlora" and row.gain.mean == approx(0.2)
    cells = [column.cell(row) for column in found.columns()]
    assert any(cell.startswith("+20.0") and cell.endswith("(1 of 2 diverged)") for cell in cells)
    told = " ".join(found.remarks())
    assert "fedlora: clients diverged in 1 of 2 sessions" in told and "fedgh has no score" in told
    assert found.to_json()["rows"][0]["diverged"]["rounds"] == 2


def test_a_session_of_other_settings_without_a_score_takes_no_row_of_a_sound_one() -> None:
    sound, failed = session("b", [[], []], method="fedgh"), session("bad", [[0, 1, 2]] * 2, method="fedgh")
    sound.config["training"], failed.config["training"] = {"lr": 0.1}, {"lr": 1e30}
    found = gains([ALONE[0], sound, failed])
    assert [row.sessions for row in found.rows] == [("b",)]
    assert [note for note in found.notes if "diverged" in note] == [
        "lr 1e+30 has no score: every client diverged in every round, and kept its first model."
    ]


def test_a_session_without_a_partner_takes_no_row_of_those_that_have_one() -> None:
    """Such as a trial of another seed, in which every client diverged."""
    trial = session("trial", [[0, 1, 2]] * 2, 7, "fedlora")
    found = gains([*ALONE, SOUND, trial], "method")
    assert [row.sessions for row in found.rows] == [("a1",)]
    assert found.rows[0].diverged.n == 1 and "no score" not in " ".join(found.notes)


def test_without_a_score_there_is_no_gain_at_all() -> None:
    said = "b0 is left out: every client diverged in every round, so there is no score"
    with pytest.raises(ConfigError, match=said):
        gains([*ALONE, LOST], "method")
