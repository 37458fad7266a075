"""Rounds as arrays: those of decoded records, and of text that is read no further than a table asks."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from checkpoints import Damaged, SessionReader, canonical
from simulator.engine.progress import unobserved
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import (
    NUMBERS,
    CkaMeasurement,
    LedgerBuilder,
    Totals,
    last_measured,
    least_similar,
    totals_of,
)
from simulator.results.analysis.overview import read_overview, read_overviews
from simulator.results.analysis.tidy import cka_rows
from tests import federations, sessions


def test_rows_are_rounds_and_columns_are_clients() -> None:
    records = [sessions.record(round, 5) for round in range(1, 9)]
    builder = LedgerBuilder()
    builder.extend(records)
    curves = builder.ledger().curves
    assert (curves.rounds, curves.clients) == (8, 5)
    assert curves["accuracy"].tolist() == [record["accuracy"]["mean"] for record in records]
    assert curves.accuracy.after(7).tolist() == records[6]["accuracy"]["per_client"]
    assert np.flatnonzero(curves.participated.of(3) == 0).tolist() == [3, 7]  # it misses every fourth round
    assert np.isnan(curves.loss.after(5)[4])  # it diverged in round 5


def test_what_was_taken_earlier_stays_as_it_was_while_rounds_come() -> None:
    builder = LedgerBuilder()
    taken = []
    for round in range(1, 40):
        builder.extend([sessions.record(round, 2)])
        taken.append(builder.ledger().curves)
    for rounds, curves in enumerate(taken, 1):
        assert curves.rounds == rounds
        assert curves["accuracy"].tolist() == taken[-1]["accuracy"][:rounds].tolist()


def test_a_round_that_is_missing_is_named() -> None:
    builder = LedgerBuilder()
    builder.extend([sessions.record(1, 2)])
    with pytest.raises(ValueError, match="round 2 is missing"):
        builder.extend([sessions.record(3, 2)])


def test_cka_is_that_of_the_last_round_measured(tmp_path: Path) -> None:
    measured = read(sessions.make(tmp_path / "s", rounds=12, clients=3, cka_every=5)).ledger.whole.measured
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
    alone = {"order": [], "layers": {}, "matrix": {}}  # a client alone
    assert CkaMeasurement.of({"round": 1, "cka": alone}) is None


def test_of_clients_that_were_drawn_the_rows_are_theirs() -> None:
    cka = {"order": ["a"], "layers": {"a": 0.3}, "matrix": {"a": [[1.0, 0.3], [0.3, 1.0]]}}
    everybody, drawn = (
        CkaMeasurement.of({"round": 1, "cka": cka | extra}) for extra in ({}, {"clients": [4, 1500]})
    )
    assert everybody is not None and drawn is not None
    assert (list(everybody.clients), everybody.whom, everybody.between(0, 1, "a")) == ([0, 1], "", 0.3)
    assert (list(drawn.clients), drawn.whom) == ([4, 1500], ", 2 clients drawn")
    assert drawn.between(4, 1500, "a") == 0.3 and np.isnan(drawn.between(0, 1, "a"))
    rows = [(row["client"], row["other"]) for row in cka_rows({"round": 1, "cka": drawn.cka})]
    assert rows == [(4, 1500)]


SHARE = st.none() | st.floats(0, 1)


def same(one: Totals, other: Totals) -> bool:
    assert one.diverged == other.diverged
    return all(np.array_equal(one[each.column], other[each.column], equal_nan=True) for each in NUMBERS)


def test_the_scalars_of_a_run_are_those_of_its_records() -> None:
    parts = federations.built(federations.config(evaluation={"parts": ["test", "eval"]}, cka={"every": 1}))
    made = parts.engine.round(parts.engine.initial_state(), unobserved).record
    found = totals_of([canonical(made)])
    assert same(found, totals_of([made]))
    assert found["accuracy"].tolist() == [made["accuracy"]["mean"]]
    assert found["eval_accuracy"].tolist() == [made["evaluation"]["eval"]["accuracy"]["mean"]]
    assert found["bytes"].tolist() == [made["bytes"]["up"] + made["bytes"]["down"]]


def test_a_line_that_is_no_record_is_refused() -> None:
    for line in (b"not json", b"{}", b'{"accuracy":"high"}', b"[" * 100_000):
        with pytest.raises((ValueError, RecursionError)):
            totals_of([line])


def test_a_glance_is_what_reading_all_gives(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", clients=5, rounds=12, switch=(6, "fedssa"))
    short, whole = read_overview(folder), read(folder)
    assert same(short.totals, whole.totals)
    assert (short.config, short.history, short.state) == (whole.config, whole.history, whole.state)
    assert short.records == whole.records
    assert np.array_equal(short.curves.accuracy.values, whole.curves.accuracy.values)
    assert (short.method, short.methods) == ("fedssa", ((1, "fedlora"), (7, "fedssa")))
    assert [each.round for each in short.ledger.whole.measured] == [5, 10]


def test_rounds_after_the_last_checkpoint_count(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", clients=2, rounds=4)
    line = sessions.line(5, 2)
    with (folder / "ledger.jsonl").open("a") as file:
        file.write(line + line[:40])  # the last one is torn
    assert SessionReader(folder).lines() == (folder / "ledger.jsonl").read_bytes().splitlines()[:5]
    assert read_overview(folder).totals.rounds == 5


def test_an_altered_ledger_is_damaged_also_for_an_overview(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", clients=2, rounds=8)
    ledger = folder / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"round":2', b'"round":9', 1))
    with pytest.raises(Damaged, match=r"ledger.jsonl is damaged"):
        read_overview(folder)


def test_sessions_that_cannot_be_read_are_set_apart(tmp_path: Path) -> None:
    whole = sessions.make(tmp_path / "whole", clients=2, rounds=2)
    torn = sessions.make(tmp_path / "torn", clients=2, rounds=2)
    (torn / "session.json").write_text("{")
    runs, faults = read_overviews([torn, whole])
    assert [run.name for run in runs] == ["whole"]
    assert [fault.folder.name for fault in faults] == ["torn"]
    assert "session.json is damaged" in faults[0].error
