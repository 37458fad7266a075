"""`U` restores pins, marks, and filters, one change after another."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests import sessions
from tests.app.driving import blanks, drive, until
from tui.app.app import HtflApp
from tui.app.launch_options import LaunchOptions


@pytest.fixture
def app(tmp_path: Path) -> HtflApp:
    for name in ("main", "other"):
        sessions.make(tmp_path / name, rounds=3, clients=4)
    return HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "main", panels=blanks())


def said(app: HtflApp) -> str:
    return [*app._notifications][-1].message


def driven(app: HtflApp, script: Any) -> None:
    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.round == 3)
        await pilot.pause()
        await script(pilot)

    drive(app, run)


def test_changes_are_undone_from_the_last_to_the_first(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        folder = app.view.run.folder
        app.pin({1})
        app.navigation.mark(folder)
        app.pin({1, 2})
        await pilot.press("slash", *"cnn3", "enter")
        assert (app.view.pinned, app.view.marked, app.view.filter) == ({1, 2}, (folder,), "cnn3")
        for left, says in (
            (({1, 2}, (folder,), ""), "Undone. No filter."),  # all letters of a filter at once
            (({1}, (folder,), ""), "Undone. Pinned: 1."),
            (({1}, (), ""), "Undone. No session is marked."),
            ((set(), (), ""), "Undone. No client is pinned."),
            ((set(), (), ""), "No change of pins, marks, or filter is left to undo."),
        ):
            await pilot.press("U")
            assert (app.view.pinned, app.view.marked, app.view.filter) == left
            assert said(app) == says

    driven(app, script)


def test_a_filter_that_was_left_as_it_was_is_no_change(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        app.pin({1})
        await pilot.press("slash", "escape", "U")
        assert app.view.pinned == set()

    driven(app, script)


def test_pins_of_another_session_stay(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        app.pin({1})
        app.open_session(app.sessions_dir / "other")
        app.pin({2})
        await pilot.press("U", "U")
        assert app.view.pinned == set()
        assert "left to undo" in said(app)

    driven(app, script)


def test_a_filter_is_undone_in_the_panel_of_its_rows(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        app.show_panel("sessions")
        await pilot.press("slash", *"main", "enter", "1")
        assert (app.panel.id, app.view.filter) == ("live", "")
        await pilot.press("U")
        assert (app.panel.id, app.view.filter) == ("sessions", "")

    driven(app, script)
