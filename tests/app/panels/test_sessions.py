"""The Sessions panel: the list, read off the UI thread and cheaply, the preview, and the first steps."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import checkpoints
from checkpoints import Store
from htfl_sim import catalog
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.folder import documents
from simulator.studies.study import Point, StudySpec
from tests import sessions
from tests.app.driving import driven, until
from tests.app.panels.stage import on_stage, read, settle, staged
from tui.app.app import HtflApp
from tui.app.dialogs.run_forms import NewRunDialog
from tui.app.dialogs.upkeep import AttachDialog
from tui.app.keys import KEYS
from tui.app.panels import sessions as session_list
from tui.app.panels.board import STATES
from tui.app.panels.sessions import NONE_OPEN, OPEN, Library, SessionList, age, arranged, words_of
from tui.app.runs import LaunchOptions
from tui.app.view import SessionMarked, SessionOpened, View
from tui.app.widgets.table import Cell, Trend
from tui.common.formatting import spelled
from tui.common.fuzzy import fits


def damage(session: Path) -> None:
    """Change a digit in the first line of the ledger, which no kept checkpoint can replace."""
    ledger = session / "ledger.jsonl"
    first, rest = ledger.read_text().split("\n", 1)
    ledger.write_text(first.replace('"round":1', '"round":7') + "\n" + rest)


def library_of(folder: Path) -> Library:
    """One that has read this folder once."""
    reader = Library(lambda found: None)
    reader.read(folder)
    return reader


def test_a_session_that_has_ended_is_opened_once_unless_its_files_change(
    library: Path, tmp_path: Path
) -> None:
    reader = library_of(library / "sessions")
    with patch.object(Summary, "read", side_effect=AssertionError("opened again")):
        assert len(reader.read(library / "sessions")) == 4
    folder = sessions.make(tmp_path / "one", rounds=2, clients=2)
    reader = library_of(tmp_path)
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write(sessions.line(3, 2))
    assert reader.read(tmp_path)[0].round == 3
    assert library_of(tmp_path).read(tmp_path / "none") == ()  # a folder that is not there


@pytest.mark.long
def test_what_is_found_is_told_from_another_thread_and_only_when_it_changed(library: Path) -> None:
    told: list[tuple[str, int]] = []
    twice = threading.Event()
    reader = Library(lambda found: told.append((threading.current_thread().name, len(found))), every=0.01)
    reader.follow(library / "sessions")
    twice.wait(0.5)
    reader.close()
    assert told == [("library", 4), ("library", 4)]  # the list, and once more with what takes longer to read


def test_a_ledger_is_read_whole_once_for_every_round_it_has(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "one", rounds=2, clients=2)
    reader = library_of(tmp_path)
    assert reader.sketch() and not reader.sketch()
    first = reader.sketches[folder]
    assert first.mean.tolist() == [record["accuracy"]["mean"] for record in read(folder).records]
    assert first.config["method"]["mu"] == 0.9
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write(sessions.line(3, 2))
    reader.read(tmp_path)
    assert reader.sketch() and len(reader.sketches[folder].mean) == 3


def test_a_session_or_a_ledger_that_cannot_be_read_is_damaged_and_keeps_no_other_from_a_curve(
    tmp_path: Path,
) -> None:
    broken, sound = (sessions.make(tmp_path / name, rounds=8, clients=2) for name in ("broken", "sound"))
    reader = library_of(tmp_path)
    before = reader.read(tmp_path)
    reader.sketch()
    assert [(each.state, each.round) for each in before] == [("finished", 8), ("finished", 8)]
    damage(broken)  # while the folder is listed
    reader.read(tmp_path)
    assert reader.sketch()
    first, second = reader.read(tmp_path)
    assert (first.state, first.round, first.accuracy, first.best) == ("damaged", None, None, None)
    assert "ledger" in str(first.error)
    assert second == before[1]
    assert list(reader.sketches) == [sound]
    assert not reader.sketch()  # it is not read over and over
    (broken / "session.json").write_text("{")
    anew = library_of(tmp_path)
    assert anew.sketch() and list(anew.sketches) == [sound]
    first = anew.read(tmp_path)[0]
    assert first.state == "damaged" and "session.json" in str(first.error)


@pytest.mark.long
async def test_the_sidebar_claims_no_end_of_a_session_before_it_has_read_its_ledger(tmp_path: Path) -> None:
    damage(sessions.make(tmp_path / "broken", rounds=8, clients=2))
    sessions.make(tmp_path / "sound", rounds=8, clients=2)
    view = View(read(tmp_path / "sound"), sessions_dir=tmp_path)
    glyphs: list[str] = []
    async with staged("live", view, size=(200, 60)) as (app, _):
        listed = app.panel._sessions
        listed._library.sketches, known = {}, listed._library.sketches
        for sketches in ({}, known):  # before and after the reading
            listed._library.sketches = sketches
            listed._list_anew()
            glyphs.append(" ".join(row.cells[2].text for row in listed.rows))
    assert glyphs == ["✗  ", "✗ ✓"]


def test_the_list_does_not_call_a_frozen_session_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, at = sessions.make(tmp_path / "one", rounds=2, of=4, clients=2, state="stopped"), [100.0]
    monkeypatch.setattr("tui.app.panels.sessions.time", SimpleNamespace(monotonic=lambda: at[0]))
    monkeypatch.setattr("checkpoints.lock.PULSE_SECONDS", 60.0)  # a heart that stands still
    reader = Library(lambda found: None)
    with Store.open(folder) as store:
        store.heartbeat("running", round=2)
        for later, silent in ((0.0, set()), (9.9, set()), (0.2, {folder})):
            at[0] += later
            reader.read(tmp_path)
            assert reader.silent == silent
        store.heartbeat("paused", round=2)
        reader.read(tmp_path)
        assert not reader.silent
        listed = SessionList()
        listed._library.silent = frozenset({folder})
        assert listed._state_of(Summary.read(folder)) == Cell("! silent", "warning")
    reader.read(tmp_path)
    assert not reader.silent  # nobody is waited for


def test_a_session_of_a_study_that_cannot_be_read_is_damaged_in_the_study_too(tmp_path: Path) -> None:
    folder = tmp_path / "t3"
    point = Point("one", {"seed": 0}, sessions.config(2, 8, runtime={"threads_per_client": 1}))
    checkpoints.Group.open(folder, documents(StudySpec("quickstart", over={"seed": (0,)}), [point])).close(
        "finished"
    )
    damage(sessions.make(folder / "one", rounds=8, clients=2))
    reader = library_of(tmp_path)
    reader.sketch()
    reader.read(tmp_path)
    (study,) = reader.studies
    assert [each.state for each in study.sessions] == ["damaged"]
    assert (study.state, study.finished, study.accuracy) == ("stopped", 0, None)


def test_a_fork_stands_under_its_parent_and_the_best_first_if_wanted(library: Path) -> None:
    found = Library(lambda found: None).read(library / "sessions")
    lines = [(line.last, line.summary.name) for line in arranged(found, "tree")]
    assert lines[lines.index(((), "main")) + 1] == ((True,), "main-fork")
    *best, none = [line.summary.best for line in arranged(found, "best")]
    assert none is None and best == sorted(best, reverse=True)  # type: ignore[type-var]
    # a filter finds methods that were switched to
    assert [each.name for each in found if fits(words_of(each), "FEDSSA main")] == ["main"]


@pytest.mark.long
async def test_the_session_shown_is_in_sight_and_beside_live_words_for_clients_hide_none(
    tmp_path: Path,
) -> None:
    for number in range(30):
        sessions.make(tmp_path / f"one-{number:02}", rounds=1, clients=2)
    view = View(read(tmp_path / "one-29"), sessions_dir=tmp_path)
    async with staged("live", view, size=(200, 60)) as (app, pilot):
        await until(pilot, lambda: "one-29" in app.text())
        text = await settle(pilot)
        assert any("● " in line and "one-29" in line for line in text.splitlines())
    async with staged("live", replace(view, filter="cnn2"), size=(200, 60)) as (beside, pilot):
        await until(pilot, lambda: "one-29" in beside.text())
    async with staged("sessions", view, size=(80, 24)) as (listed, pilot):
        await until(pilot, lambda: "● one-29" in " ".join(listed.text().split()))


@pytest.mark.long
async def test_a_change_is_listed_once_and_moves_through_rounds_list_nothing(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[int] = []
    whole = session_list.grouped

    def counted(found: Any, *about: Any) -> Any:
        listings.append(len(found))
        return whole(found, *about)

    monkeypatch.setattr(session_list, "present", lambda: datetime(2026, 1, 2, 12, tzinfo=UTC))
    view = View(read(library / "sessions" / "main"), sessions_dir=library / "sessions")
    async with staged("sessions", view) as (app, pilot):
        rows = app.panel.query_one(SessionList)
        monkeypatch.setattr(session_list, "grouped", counted)
        changed = (replace(rows.found[0], accuracy=0.123), *rows.found[1:])
        rows.post_message(SessionList.Listed(changed))
        await pilot.pause()
        assert listings == [len(changed)]
        assert "12.3" in app.text()
        app.panel.show(replace(view, round=1, client=1))
        app.panel.show(replace(view, marked=(library / "sessions" / "main",)))
        assert len(listings) == 2  # the mark is in a row


def test_ages_are_said_in_their_own_units() -> None:
    now = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
    for created, said in (
        ("2026-01-02T11:59:20Z", "40 s"),
        ("2026-01-02T11:15:00Z", "45 min"),
        ("2026-01-02T12:00:01Z", "0 s"),  # clocks differ
        ("yesterday", "–"),
    ):
        assert age(created, now) == said


def test_enter_opens_the_session_under_the_cursor_and_marking_marks_it(at_home: Path) -> None:
    view = View(read(at_home / "main"), sessions_dir=at_home)
    app, text = on_stage("sessions", view, ["mark", "down", "enter"])
    assert app.posted == [SessionMarked(at_home / "main"), SessionOpened(at_home / "main-fork")]
    assert "└─ main-fork" in text


@pytest.mark.long
def test_a_state_is_a_glyph_a_word_and_a_colour(view: View) -> None:
    rows = {row.key.name: row.cells for row in on_stage("sessions", view)[0].panel._list.rows}
    assert rows["main"][2] == Cell("✓ finished", "plain") and rows["begun"][2] == Cell("■ stopped", "muted")
    assert all(len(glyph) == 1 for glyph, _ in STATES.values())
    assert rows["main"][9] == Trend(tuple(view.run.curves["accuracy"])) and rows["begun"][9] == Trend(
        (), width=0
    )


@pytest.mark.long
async def test_the_preview_calls_a_session_open_only_if_it_is(view: View) -> None:
    none = replace(view, run=SessionData(Path()))
    for seen, said in ((view, OPEN), (none, NONE_OPEN)):
        async with staged("sessions", seen, size=(200, 60)) as (app, pilot):
            app.panel._list.put_cursor(view.run.folder)
            text = await settle(pilot)
        assert said[:30] in text  # the sentence wraps
        assert text.count("session is open") == 1


@pytest.mark.long
def test_a_marked_session_has_a_glyph_that_is_no_states(view: View, at_home: Path) -> None:
    app, _ = on_stage("sessions", replace(view, marked=(at_home / "base",)))
    flags = {row.key.name: row.cells[0] for row in app.panel._list.rows}
    for glyphs in ("braille", "ascii"):
        shown, mark = (spelled(flags[name].strip(), glyphs) for name in ("main", "base"))
        others = {shown, *(spelled(glyph, glyphs) for glyph, _ in STATES.values())}
        assert len(mark) == 1 and mark not in others
        assert f"({mark};" in spelled(next(key.about for key in KEYS if key.argument == "mark"), glyphs)


async def test_the_cursor_previews_the_curve_and_the_settings_that_differ_from_the_one_shown(
    view: View, at_home: Path
) -> None:
    async with staged("sessions", view) as (app, pilot):
        app.panel._list.put_cursor(at_home / "base")
        text = await settle(pilot)
    preview = app.panel._preview
    curve, shown = preview._chart.figure.series
    assert (curve.name, shown.name) == ("base", "main")
    np.testing.assert_allclose(curve.y, read(at_home / "base").curves["accuracy"] * 100)
    assert "differs from main" in text
    rows = [row.cells for row in preview._settings.rows]
    assert ("method.name", "standalone", "fedssa") in rows


@pytest.mark.long
async def test_a_session_with_a_damaged_ledger_is_not_finished_and_the_preview_says_why(
    tmp_path: Path,
) -> None:
    broken, sound = (sessions.make(tmp_path / name, rounds=8, clients=2) for name in ("broken", "sound"))
    damage(broken)
    async with staged("sessions", View(read(sound), sessions_dir=tmp_path), size=(80, 24)) as (app, pilot):
        app.panel._list.put_cursor(broken)
        await until(pilot, lambda: "damaged" in app.text())
        text = await settle(pilot)
    (row,) = (row for row in app.panel._list.rows if row.key == broken)
    assert row.cells[2] == Cell("✗ damaged", "warning") and row.cells[5:8] == ("–", "–", "–")
    assert "ledger" in text and "Reading the session" not in text


def test_an_empty_folder_says_what_to_do_first_and_lists_every_preset(tmp_path: Path) -> None:
    app, text = on_stage("sessions", View(SessionData(Path()), sessions_dir=tmp_path), size=(80, 24))
    said, names = " ".join(text.split()), [row.key for row in app.panel._steps.rows]
    assert "FedLoRA on digits: no download, about a minute" in said
    assert "Press n for a new run" in said and "`htfl-sim run` starts the quickstart" in said
    assert names[:2] == ["quickstart", "attach"]
    assert sorted(names) == sorted(["attach", *catalog.preset_names()])


@pytest.mark.long
async def test_enter_takes_the_step_under_the_cursor(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"))
    async with driven(app) as pilot:
        await until(pilot, lambda: app.panel.id == "sessions" and app.focused is not None)
        for moves, dialog in (((), NewRunDialog), (("down",), AttachDialog)):
            await pilot.press(*moves, "enter")
            await until(pilot, lambda wanted=dialog: isinstance(app.screen, wanted))  # type: ignore[misc]
            if isinstance(app.screen, NewRunDialog):
                assert app.screen.values["preset"] == "quickstart"
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)
