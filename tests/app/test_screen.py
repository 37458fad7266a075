"""The main screen: when it is laid out and drawn, and where the focus is."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Resize
from textual.pilot import Pilot
from textual.widgets import Input

from tests.app.driving import Blank, drive, opened, shown, until
from tui.app.panels.base import SizedPanel
from tui.app.widgets import Table

ROUNDS = 12


@pytest.mark.long
def test_a_panel_knows_a_new_size_before_it_is_laid_out_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(home, "main", "live", "clients", "similarity")
    laid_out: list[tuple[int, bool]] = []

    def noted(panel: SizedPanel, event: Resize) -> None:
        if panel is app.panel:  # hidden ones are laid out too while nobody presses a key
            laid_out.append((event.size.width, panel.has_class("-wide")))

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        monkeypatch.setattr(SizedPanel, "on_resize", noted)
        for width in (80, 120):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()

    drive(app, script)
    assert laid_out == [(80, False), (120, True)]


@pytest.mark.long
def test_enter_leads_to_more_of_the_client_and_escape_back(home: Path) -> None:
    app = opened(home, "main", "live", "clients", "similarity")

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await until(pilot, lambda: app.focused is app.panel.first())
        assert isinstance(app.focused, Table) and app.focused.selected == 3  # the worst of the four
        await pilot.press("j", "enter")
        await until(pilot, lambda: app.panel.id == "clients" and isinstance(app.focused, Table))
        assert app.view.client == app.focused.selected  # type: ignore[union-attr]
        await pilot.press("enter")
        await until(pilot, lambda: app.panel.id == "similarity")
        for panel in ("clients", "live", "live"):
            await pilot.press("escape")
            await until(pilot, lambda panel=panel: app.panel.id == panel)  # type: ignore[misc]

    drive(app, script)


@pytest.mark.long
def test_words_for_sessions_leave_the_clients_alone_and_are_there_again(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await pilot.press("2", "slash", *"cnn2", "enter", "1")
        assert app.view.filter == "cnn2"  # Live lists clients, too
        await pilot.press("s")
        assert app.view.filter == ""
        await pilot.press("slash", *"main", "enter", "6")
        assert app.view.filter == ""
        for panel, words in (("2", "cnn2"), ("s", "main")):
            await pilot.press(panel)
            assert app.view.filter == words
        app.open_session(home / "main")
        await pilot.press("2")
        assert app.view.filter == ""

    drive(app, script)


@pytest.mark.long
def test_a_line_that_is_typed_keeps_the_focus_when_the_panel_would_take_it(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await pilot.press("slash")
        app._focus_panel()  # as after a session has been read
        await pilot.press(*"cnn2")
        assert isinstance(app.focused, Input) and app.focused.value == "cnn2"

    drive(app, script)


@pytest.mark.long
def test_nothing_is_drawn_again_while_nothing_changes(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        panel = app.panel
        assert isinstance(panel, Blank)
        drawn = len(panel.views)
        await asyncio.sleep(1.5)
        assert len(panel.views) == drawn
        app.open_session(home / "main")
        assert app.view.run.round == 0
        await shown(app, pilot)  # it is there again when it is opened once more

    drive(app, script)
