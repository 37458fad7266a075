"""Sessions read no further than a table asks: the same numbers as when all is decoded, and the same damage found."""

import inspect
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import Damaged, SessionReader, canonical
from simulator.engine.progress import unobserved
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import NUMBERS, Lines, Totals, totals_of_lines, totals_of_records
from simulator.results.analysis.overview import read_overview, read_overviews
from tests import federations, sessions
from tests.analysis.runs import record

SHARE = st.none() | st.floats(0, 1)


def same(one: Totals, other: Totals) -> bool:
    assert one.diverged == other.diverged
    return all(np.array_equal(one[each.column], other[each.column], equal_nan=True) for each in NUMBERS)


@given(
    st.lists(SHARE, min_size=1, max_size=5),
    SHARE,
    SHARE,
    st.none() | st.floats(0, 1),
    st.text(max_size=9),
    st.booleans(),
)
def test_scalars_of_a_line_are_those_of_the_decoded_record(
    clients: list[float | None],
    mean: float | None,
    weighted: float | None,
    on_eval: float | None,
    name: str,
    cka: bool,
) -> None:
    made = record(1, mean, on_eval, clients=clients)
    made["accuracy"]["weighted"] = weighted
    made["method_metrics"] = {name: 0.5, "total": 3, "seconds": 4, '"timing":{"seconds":7,': 8}
    made["bytes"]["by_tensor"] = {f"up/{name}": 12, 'up/"up_total":9': 7}
    made["cka"] = sessions.cka(3, 1) if cka else None
    line = canonical(made)
    assert same(totals_of_lines([line]), totals_of_records([json.loads(line)]))


def test_the_scalars_of_a_run_are_those_of_its_records() -> None:
    parts = federations.built(federations.config(evaluation={"parts": ["test", "eval"]}, cka={"every": 1}))
    made = parts.engine.round(parts.engine.initial_state(), unobserved).record
    found = totals_of_lines([canonical(made)])
    assert same(found, totals_of_records([made]))
    assert found["accuracy"].tolist() == [made["accuracy"]["mean"]]
    assert found["eval_accuracy"].tolist() == [made["evaluation"]["eval"]["accuracy"]["mean"]]
    assert found["bytes"].tolist() == [made["bytes"]["up"] + made["bytes"]["down"]]


@pytest.mark.parametrize("line", [b"not json", b"{}", b'{"accuracy":"high"}', b"[" * 100_000])
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        totals_of_lines([line])


def test_a_glance_is_what_reading_all_gives(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", clients=5, rounds=12, switch=(6, "fedssa"))
    short, whole = read_overview(folder), read(folder)
    assert same(short.totals, whole.totals)
    assert (short.config, short.history, short.state) == (whole.config, whole.history, whole.state)
    assert short.records == whole.records
    assert np.array_equal(short.curves.accuracy.values, whole.curves.accuracy.values)
    assert (short.method, short.methods) == ("fedssa", ((1, "fedlora"), (7, "fedssa")))
    assert [each.round for each in short.ledger.measured] == [5, 10]


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


def test_a_damaged_older_checkpoint_does_not_keep_a_whole_ledger_from_being_read(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", clients=2, rounds=8, checkpoint_every=2)
    oldest = sorted((folder / "manifests").iterdir())[0]
    oldest.write_text("{")
    assert len(SessionReader(folder).records()) == 8


def test_totals_are_read_for_an_overview_also_where_python_leaves_out_assertions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With -O, an assertion that reads them would not, and damage would come up later."""

    def damaged(self: Lines) -> Totals:
        raise Damaged("the ledger is damaged.")

    folder = sessions.make(tmp_path / "s", clients=2, rounds=4)
    module = ModuleType("simulator.results.analysis.overview_without_assertions")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    source = Path(str(inspect.getsourcefile(read_overview))).read_text(encoding="utf-8")
    exec(compile(source, "overview.py", "exec", optimize=1), module.__dict__)
    monkeypatch.setattr(Lines, "totals", property(damaged))
    with pytest.raises(Damaged):
        module.read_overview(folder)
