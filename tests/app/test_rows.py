"""The rows around the panels: what they say, and what they leave out first."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData, Silence
from simulator.studies.board import StudySummary
from tests import sessions
from tests.app.panels.stage import read
from tui.app.keys import PANEL_TITLES, footer
from tui.app.panels import PANELS
from tui.app.rows import ALARM, idle_keys, keys, status, tabs
from tui.app.view import View


def test_beside_a_study_s_board_the_status_row_names_the_study(home: Path) -> None:
    run = replace(read(home / "main"), state="interrupted")
    row = status(View(run), [], 78, "braille", StudySummary("t3", "x/t3", "running", 4, ())).plain
    assert row.rstrip() == "t3 · study, 0 of 4 points finished · running"


def test_the_status_row_keeps_what_matters_where_it_is_narrow(home: Path) -> None:
    run = read(home / "main")
    row = status(View(run, round=3), ["pausing…"], 60, "braille").plain
    assert len(row) == 60 and row.startswith("main") and row.rstrip().endswith("pausing…")
    assert " REPLAY round 3 " in row
    run = replace(run, folder=home / "quickstart-20251122-055440-of-a-long-name")  # cut in its middle
    assert status(View(run), [], 40, "braille").plain == "quickstart-2…-a-long-name · round 12/12 "


def live(home: Path, **changes: Any) -> View:
    """A run in round 13 of 40."""
    progress = {"round": 13, "rounds": 40, "phase": "train", "done": 1, "clients": 4}
    return View(replace(read(home / "main"), state="running", progress=progress, **changes))


def test_a_running_session_has_its_eta_and_one_that_is_quiet_says_when_it_was_heard(home: Path) -> None:
    def row(view: View) -> str:
        return status(view, [], 100, "braille").plain.rstrip()

    # 28 rounds of 2.5 s are left.
    assert row(live(home)) == "main · round 12/40 · running · fedlora · client 1/4 · ETA 1 min"
    quiet = live(home, silence=Silence(4))
    assert row(quiet) == "main · round 12/40 · running · fedlora · last heard 4 s ago"
    frozen = live(home, silence=Silence(13))
    assert row(frozen) == "main · ! silent, last heard 13 s ago · round 12/40 · fedlora"
    elsewhere = live(home, silence=Silence(13, exact=False))
    assert "! silent, last heard ≥ 13 s ago" in row(elsewhere)


ALARMS: dict[str, dict[str, Any]] = {
    "! interrupted": {"state": "interrupted"},
    "! failed": {"state": "failed"},
    "! gone": {"state": "gone", "error": "…"},
    "! cannot be read": {"state": "finished", "error": "The ledger is damaged."},
    "! silent, last heard 13 s ago": {"silence": Silence(13)},
}


def test_a_state_that_asks_for_attention_has_a_color_and_a_mark_at_every_width(home: Path) -> None:
    usual = live(home)
    for alarm, changes in ALARMS.items():
        view = replace(usual, run=replace(usual.run, **changes))
        for width in (58, 118):
            for waiting in ([], ["switching to fedssa after round 13", "checkpoint with CKA…"]):
                row = status(view, waiting, width, "braille")
                assert len(row.plain) == width
                assert row.plain.startswith(f"main · {alarm} ")
                (span,) = (span for span in row.spans if row.plain[span.start : span.end] == alarm)
                assert span.style == ALARM
                assert "ETA" not in row.plain
            unread = replace(view, run=replace(view.run, document={}))
            assert status(unread, [], width, "ascii").plain.startswith(f"main | {alarm.split(',')[0]}")


def test_requests_without_room_are_counted(home: Path) -> None:
    waiting = ["switching to fedssa after round 13", "checkpoint with CKA…", "pausing…"]
    texts = {width: status(live(home), waiting, width, "braille").plain for width in (58, 78, 118)}
    assert all(len(text) == width for width, text in texts.items())
    assert texts[58] == "main · round 12/40  switching to fedssa after roun…    +2 "
    assert texts[78].endswith(" switching to fedssa after round 13    +2 ")
    assert texts[118].endswith("  switching to fedssa after round 13    checkpoint with CKA…    pausing… ")


def row_of_keys(view: View, width: int = 80) -> str:
    return keys(footer("live", width, view.run.state if view.run.name else "")).plain


def test_the_first_key_is_a_new_run_or_what_space_does(home: Path) -> None:
    row = row_of_keys(View(SessionData(Path())))
    assert row.startswith("n new run  a attach") and "pause" not in row and "? help" in row
    for state, label in (("running", "pause"), ("paused", "resume"), ("finished", "resume")):
        assert row_of_keys(View(SessionData(home / "main", state=state))).startswith(f"space {label}  ")


def test_in_a_list_of_sessions_keys_are_of_the_one_chosen_there() -> None:
    for panel, state, more, said in (
        ("sessions", "", {"steered": "stopped"}, ("space resume", "S stop")),
        ("sessions", "running", {"steered": "stopped"}, ("space resume", "S stop")),
        ("sessions", "finished", {"steered": "running"}, ("space pause",)),
        ("live", "running", {}, ("c checkpoint",)),
        ("live", "finished", {"computes": True}, ("c CKA",)),
    ):
        row = keys(footer(panel, 200, state, **more)).plain  # type: ignore[arg-type]
        assert [each for each in said if each not in row] == []
    assert "m method" not in keys(footer("sessions", 200, "", steered="running")).plain


def test_without_a_session_compare_still_offers_its_measures_and_the_crosshair() -> None:
    for panel, there in (("compare", True), ("live", False)):
        row = keys(footer(panel, 200, "", charted=True)).plain
        assert ("left crosshair" in row and "y chart" in row) == there
        assert "replay" not in row


def test_a_key_is_labeled_by_what_it_does_in_this_panel() -> None:
    for panel, labels in (
        ("cost", ("u chart", "y by tensor")),
        ("compare", ("u x axis", "y measure", ", lower  . higher")),
        ("similarity", (", previous  . next",)),
    ):
        widget = PANELS[panel](panel).set_class(True, "-wide")
        row = keys(footer(panel, 300, "running", labels=widget.labels())).plain
        assert [each for each in labels if each not in row] == []


def test_a_line_of_keys_is_filled_to_its_last_cell() -> None:
    whole = keys(footer("live", 300, "running")).plain
    assert keys(footer("live", len(whole), "running")).plain == whole
    assert len(keys(footer("live", len(whole) - 1, "running")).plain) < len(whole) - 1


def test_the_tabs_have_their_titles_or_shorter_ones_or_that_of_the_panel_shown_alone() -> None:
    wide, usual, narrow = (tabs("similarity", width).plain for width in (120, 80, 60))
    assert all(f" {title} " in wide for title in PANEL_TITLES.values())
    assert len(usual) <= 80 and " 3 Similarity " in usual and " 7 Data " in usual
    assert narrow.split() == ["1", "2", "3", "Similarity", "4", "5", "6", "7", "s"]


def offered(view: View, panel: str, size: tuple[int, int] = (300, 60)) -> set[str]:
    """The labels of the keys in the footer of a panel that shows this view, in all the room that they need."""
    shown = PANELS[panel](panel)
    shown.prepare(*size)
    state = view.run.state if view.run.name else ""
    return {key.label for key in footer(panel, 400, state, idle=idle_keys(view, shown, ""))}


def test_keys_that_would_do_nothing_are_left_out(tmp_path: Path) -> None:
    ended = View(read(sessions.make(tmp_path / "ended", rounds=3, clients=4, cka_every=0)))
    live = offered(ended, "live")
    assert {"pause", "fork", "method", "round back", "crosshair", "chart"} - {"pause"} <= live
    assert not {"stop", "round on", "live", "replay", "compare", "effect"} & live
    replaying = offered(replace(ended, round=1), "live")
    assert {"round on", "live"} <= replaying and "round back" not in replaying  # round 1 is the first
    assert "replay" in offered(replace(ended, crosshair=("rounds", 2.0)), "live")
    running = replace(ended, run=replace(ended.run, state="running"))
    assert "stop" in offered(running, "live") and "stop" not in offered(replace(running, round=1), "live")
    assert "compare" in offered(replace(ended, marked=(tmp_path / "other",)), "live")


def test_each_panel_leaves_out_its_own_keys_without_an_effect(home: Path, tmp_path: Path) -> None:
    measured = View(read(home / "main"))
    bare = View(read(sessions.make(tmp_path / "bare", rounds=2, clients=4, cka_every=0)))
    matrix = {"least similar", "scale", "previous", "next", "sort"}
    assert matrix <= offered(measured, "similarity") and not matrix & offered(bare, "similarity")
    one_layer = {
        **measured.run.records[9],
        "cka": {"layers": {"fc": 0.5}, "matrix": {"fc": [[1, 0.5], [0.5, 1]]}},
    }
    found = replace(measured.run, ledger=Ledger.of([*measured.run.records[:9], one_layer]))
    assert offered(View(found), "similarity") & matrix == {"least similar", "scale"}
    assert "x axis" not in offered(bare, "compare") and "filter" not in offered(bare, "compare")
    assert "previous" not in offered(bare, "cost")  # the method has no metrics
    assert "points" not in offered(bare, "data") and "t-SNE" in offered(bare, "data")
    assert not {"mark", "sort"} & offered(bare, "sessions")  # none has been read


def test_without_a_session_a_panel_has_only_the_keys_that_lead_out_of_it() -> None:
    for panel in {*PANELS} - {"sessions"}:
        assert offered(View(SessionData(Path())), panel) == {"new run", "attach", "palette", "help", "quit"}


def test_before_the_first_round_there_is_no_chart_to_move_in(tmp_path: Path) -> None:
    begun = View(read(sessions.make(tmp_path / "begun", rounds=0, of=5, clients=4, state="stopped")))
    for panel in ("live", "clients", "cost"):
        assert not {"crosshair", "zoom in", "x axis", "chart"} & offered(begun, panel)
