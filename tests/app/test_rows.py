"""The rows around the panels: what they say, and what they leave out first."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.panels.stage import read
from tui.app.keys import PANEL_TITLES, footer
from tui.app.rows import keys, status, tabs
from tui.app.view import View


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    return tmp_path


def test_the_status_row_keeps_what_matters_where_it_is_narrow(home: Path) -> None:
    run = read(home / "main")
    row = status(View(run, round=3), ["pausing…"], 60, "braille").plain
    assert len(row) == 60
    assert row.startswith("main")
    assert " REPLAY round 3 " in row
    assert row.rstrip().endswith("pausing…")


def test_a_long_name_is_cut_in_its_middle(home: Path) -> None:
    run = replace(read(home / "main"), folder=home / "quickstart-20251122-055440-of-a-long-name")
    assert status(View(run), [], 40, "braille").plain == "quickstart-2…-a-long-name · round 12/12 "


def row_of_keys(view: View, width: int = 80) -> str:
    return keys(footer("live", width, view.run.state if view.run.name else ""), ()).plain


def test_an_app_without_a_session_leads_with_a_new_run() -> None:
    row = row_of_keys(View(SessionData(Path())))
    assert row.startswith("n new run  a attach")
    assert "pause" not in row and "? help" in row


@pytest.mark.parametrize(
    ("state", "label"),
    [("running", "pause"), ("paused", "resume"), ("finished", "resume"), ("interrupted", "resume")],
)
def test_space_is_said_to_do_what_it_does(state: str, label: str, home: Path) -> None:
    assert row_of_keys(View(SessionData(home / "main", state=state))).startswith(f"space {label}  ")


def test_in_a_list_of_sessions_keys_are_of_the_one_chosen_there() -> None:
    for shown in ("", "running"):
        row = keys(footer("sessions", 200, shown, steered="stopped"), ()).plain
        assert "space resume" in row and "S stop" in row
    assert "space pause" in keys(footer("sessions", 200, "finished", steered="running"), ()).plain
    assert "m method" not in keys(footer("sessions", 200, "", steered="running"), ()).plain


def test_without_a_session_compare_still_offers_its_measures_and_the_crosshair() -> None:
    for panel, there in (("compare", True), ("live", False)):
        row = keys(footer(panel, 200, "", charted=True), ()).plain
        assert ("left crosshair" in row and "y chart" in row) == there
        assert "replay" not in row


def test_a_line_of_keys_is_filled_to_its_last_cell() -> None:
    whole = keys(footer("live", 300, "running"), ()).plain
    assert keys(footer("live", len(whole), "running"), ()).plain == whole
    assert len(keys(footer("live", len(whole) - 1, "running"), ()).plain) < len(whole) - 1


def test_the_tabs_have_their_titles_or_shorter_ones_or_that_of_the_panel_shown_alone() -> None:
    wide, usual, narrow = (tabs("communication", width).plain for width in (120, 80, 60))
    assert all(f" {title} " in wide for title in PANEL_TITLES.values())
    assert len(usual) <= 80 and " 4 Comm " in usual and " 8 Data " in usual
    assert narrow.split() == ["1", "2", "3", "4", "Communication", "5", "6", "7", "8", "s"]
