"""The Sessions panel: states by glyph, trends, and what the session under the cursor is before it is opened."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import until
from tests.app.panels.stage import on_stage, read
from tests.app.panels.test_library import damage
from tui.app.charts.table import Cell, Trend
from tui.app.keys import KEYS
from tui.app.panels.session_list import STATES, SessionList
from tui.app.panels.sessions import NONE_OPEN, OPEN
from tui.app.view import View
from tui.common.formatting import spelled


@pytest.fixture
def view(at_home: Path) -> View:
    return View(read(at_home / "main"), sessions_dir=at_home)


@pytest.mark.long
def test_a_state_is_a_glyph_a_word_and_a_colour(view: View) -> None:
    app, _ = on_stage("sessions", view)
    by_name = {row.key.name: row.cells[2] for row in app.panel._list.rows}  # type: ignore[attr-defined]
    assert by_name["main"] == Cell("✓ finished", "plain")
    assert by_name["begun"] == Cell("■ stopped", "muted")
    assert all(len(glyph) == 1 for glyph, _ in STATES.values())
    trends = {row.key.name: row.cells[9] for row in app.panel._list.rows}  # type: ignore[attr-defined]
    assert trends["main"] == Trend(tuple(view.run.curves["accuracy"]))
    assert trends["begun"] == Trend((), width=0)


@pytest.mark.long
def test_the_preview_calls_a_session_open_only_if_it_is(view: View) -> None:
    async def to_main(pilot: Any, panel: Any) -> None:
        panel._list.put_cursor(view.run.folder)

    none = replace(view, run=SessionData(Path()))
    for seen, said in ((view, OPEN), (none, NONE_OPEN)):
        _, text = on_stage("sessions", seen, to_main, size=(200, 60))
        assert said[:30] in text  # the sentence wraps
        assert text.count("session is open") == 1


@pytest.mark.long
def test_a_marked_session_has_a_glyph_that_is_no_states(view: View, at_home: Path) -> None:
    app, _ = on_stage("sessions", replace(view, marked=(at_home / "base",)))
    flags = {row.key.name: row.cells[0] for row in app.panel._list.rows}  # type: ignore[attr-defined]
    for glyphs in ("braille", "ascii"):
        shown, mark = (spelled(flags[name].strip(), glyphs) for name in ("main", "base"))
        others = {shown, *(spelled(glyph, glyphs) for glyph, _ in STATES.values())}
        assert len(mark) == 1 and mark not in others
        assert f"({mark};" in spelled(next(key.about for key in KEYS if key.argument == "mark"), glyphs)


def test_the_cursor_previews_the_curve_and_the_settings_that_differ_from_the_one_shown(
    view: View, at_home: Path
) -> None:
    async def act(pilot: Any, panel: Any) -> None:
        panel.query_one(SessionList).put_cursor(at_home / "base")

    app, text = on_stage("sessions", view, act, size=(120, 40))
    preview = app.panel._preview
    curve, shown = preview._chart.figure.series
    assert (curve.name, shown.name) == ("base", "main")
    np.testing.assert_allclose(curve.y, read(at_home / "base").curves["accuracy"] * 100)
    assert "differs from main" in text
    rows = [row.cells for row in preview._settings.rows]
    assert ("method.name", "standalone", "fedssa") in rows


@pytest.mark.long
def test_a_session_with_a_damaged_ledger_is_not_finished_and_the_preview_says_why(tmp_path: Path) -> None:
    broken = sessions.make(tmp_path / "broken", rounds=8, clients=2)
    sound = sessions.make(tmp_path / "sound", rounds=8, clients=2)
    damage(broken)
    view = View(read(sound), sessions_dir=tmp_path)

    async def act(pilot: Any, panel: Any) -> None:
        panel.query_one(SessionList).put_cursor(broken)
        await until(pilot, lambda: "damaged" in pilot.app.text())

    for size in ((80, 24), (120, 40)):
        app, text = on_stage("sessions", view, act, size=size)
        (row,) = (row for row in app.panel._list.rows if row.key == broken)  # type: ignore[attr-defined]
        assert row.cells[2] == Cell("✗ damaged", "warning")
        assert [row.cells[place] for place in (5, 6, 7)] == ["–", "–", "–"]
        words = " ".join(text.split())
        assert "ledger" in words and "Reading the session" not in words


@pytest.mark.long
def test_a_damaged_session_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    broken = sessions.make(tmp_path / "broken", rounds=1, clients=2)
    (broken / "session.json").write_text("{")
    view = View(replace(read(broken), error=None, document={}), sessions_dir=tmp_path)
    for size in ((80, 24), (120, 40)):
        _, text = on_stage("sessions", view, size=size)
        assert "session.json" in text
