"""When a view is to be drawn again."""

from dataclasses import replace
from pathlib import Path

from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Ledger
from tests import sessions
from tui.app.view import View


def test_a_run_further_in_its_round_looks_the_same(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=3, clients=2))
    before = View(run)
    assert before.looks_like(View(replace(run, progress={"done": 1}, owner={"pid": 1})))
    assert not before.looks_like(View(replace(run, ledger=Ledger.of(run.records[:2]))))
    assert not before.looks_like(View(replace(run, state="paused")))
    assert not before.looks_like(replace(before, round=2))
    assert not before.looks_like(replace(before, pinned=frozenset({1})))
