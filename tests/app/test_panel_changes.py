"""What a change of panel costs: each thing is drawn once, in the size that it will have."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual._compositor import Compositor
from textual.color import Color
from textual.pilot import Pilot
from textual.renderables.background_screen import BackgroundScreen

from htfl_sim.catalog import MethodChoice
from tests import sessions
from tests.app.driving import drive, until
from tui.app.app import HtflApp
from tui.app.dialogs.base import Behind
from tui.app.panels import PANELS
from tui.app.panels.base import Facts, Part
from tui.app.runs import LaunchOptions
from tui.app.widgets import Table

ROUNDS, CLIENTS = 3, 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changes")
    sessions.make(folder / "main", rounds=ROUNDS, clients=CLIENTS, samples=sessions.samples(CLIENTS))
    return folder


@pytest.fixture
def app(home: Path) -> HtflApp:
    panels = [PANELS[name](name) for name in ("live", "clients", "log", "data")]
    return HtflApp(LaunchOptions(home, home / "data"), home / "main", panels=panels)


async def settled(app: HtflApp, pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: app.view.run.round == ROUNDS)
    await pilot.pause(0.1)


async def draws(
    app: HtflApp, pilot: Pilot[Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> list[str | None]:
    """The panels that a key draws, once for each time."""
    drawn: list[str | None] = []
    for panel in app.panels:
        whole = panel.draw  # type: ignore[attr-defined]
        monkeypatch.setattr(
            panel, "draw", lambda view, whole=whole, id=panel.id: drawn.append(id) or whole(view)
        )
    await pilot.press(key)
    await pilot.pause(0.1)
    return drawn


@pytest.mark.parametrize("key", ["1", pytest.param("7", marks=pytest.mark.long)])
def test_a_panel_that_is_shown_again_is_drawn_once(
    app: HtflApp, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        for each in (key, "2" if key == "1" else "1"):
            await pilot.press(each)
            await pilot.pause(0.1)
        assert await draws(app, pilot, key, monkeypatch) == [app.panel.id]

    drive(app, script)


@pytest.mark.long
@pytest.mark.parametrize("opened", ["2", "f"], ids=["a panel", "a dialog"])
def test_the_screen_as_a_whole_is_not_painted_anew_when_the_focus_moves(
    app: HtflApp, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[bool] = []
    fedlora = MethodChoice("fedlora", "FedLoRA", "…", None, ())
    monkeypatch.setattr("tui.app.host.method_choices", lambda config: [fedlora])

    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        await pilot.press(opened)
        await until(pilot, lambda: (len(app.screen_stack) == 2) == (opened == "f"))
        await pilot.pause(0.1)
        before = app.focused
        whole = app.screen._compositor.render_full_update
        monkeypatch.setattr(
            app.screen._compositor,
            "render_full_update",
            lambda **given: painted.append(True) or whole(**given),
        )
        await pilot.press("tab")
        await pilot.pause(0.1)
        assert app.focused is not before

    drive(app, script)
    assert not painted


@pytest.mark.long
def test_a_dialog_that_opens_is_painted_only_once_it_can_be_seen(
    app: HtflApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual would paint it while updates are delayed, and then drop that."""
    delayed: list[bool] = []
    whole = Compositor.render_update

    def noted(self: Compositor, *args: Any, **given: Any) -> Any:
        delayed.append(app._batch_count > 0)
        return whole(self, *args, **given)

    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        monkeypatch.setattr(Compositor, "render_update", noted)
        await pilot.press("question_mark")
        await until(pilot, lambda: bool(delayed))
        await pilot.pause(0.1)

    drive(app, script)
    assert not any(delayed)


@pytest.mark.long
def test_only_the_title_of_the_part_with_the_focus_shows_it(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        for key in ("2", "tab", "1"):
            await pilot.press(key)
            await pilot.pause(0.1)
            shown = [part for part in app.main.query(Part) if part.styles.border_title_style.bold]
            assert shown == [part for part in app.panel.query(Part) if part.has_focus_within] != []

    drive(app, script)


def test_the_screen_behind_a_dialog_has_the_colors_that_textual_gives_it() -> None:
    styles = [
        Style(color="red", bgcolor="#102030", bold=True),
        Style(bgcolor="blue", link="x"),
        Style(),
        None,
    ]
    segments = [*(Segment("a", style) for style in styles), Segment("b", None, [(1,)])]  # type: ignore[list-item]
    for color in (Color(0, 0, 0, 0.6), Color(250, 250, 250, 0.3), Color(0, 0, 0, 0)):
        ours, theirs = (list(kind.process_segments(segments, color)) for kind in (Behind, BackgroundScreen))
        assert ours == theirs


@pytest.mark.long
def test_a_hidden_table_scrolls_by_the_room_that_it_will_have(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        await pilot.press("2")
        await pilot.pause(0.1)
        await pilot.press("1", "j", "j")
        await pilot.pause(0.1)
        await pilot.press("2")
        await pilot.pause(0.1)
        table = app.panel.query(Table).first()
        assert table.selected == app.view.client
        assert table.scroll_offset.y == 0  # the third row is in sight of a table that begins at the first

    drive(app, script)


@pytest.mark.long
def test_what_was_drawn_in_a_part_that_had_the_whole_screen_is_drawn_again_in_its_own_place(
    app: HtflApp,
) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        await pilot.press("2", "tab", "tab", "tab")
        await pilot.pause(0.1)
        facts = app.panel.query_one(Facts)
        app.main.set_focus(facts)
        own = [row.cells for row in facts.rows]
        await pilot.press("z")
        await pilot.pause(0.1)
        wide = [row.cells for row in facts.rows]
        await pilot.press("[", "]", "z")
        await pilot.pause(0.1)
        assert len(wide) < len(own), "the facts are too short for this test"
        assert [row.cells for row in facts.rows] == own

    drive(app, script, size=(96, 40))


@pytest.mark.parametrize(
    ("panel", "key"), [("2", "j"), pytest.param("1", "left_square_bracket", marks=pytest.mark.long)]
)
def test_a_key_that_moves_no_part_lays_nothing_out_anew(app: HtflApp, panel: str, key: str) -> None:
    laid_out: list[object] = []

    async def script(pilot: Pilot[Any]) -> None:
        await settled(app, pilot)
        for each in (panel, key):
            await pilot.press(each)
            await pilot.pause(0.1)
        app.screen.screen_layout_refresh_signal.subscribe(app.screen, laid_out.append)
        await pilot.press(key)
        await pilot.pause(0.1)

    drive(app, script)
    assert laid_out == []


@pytest.mark.long
def test_what_a_key_changes_is_painted_within_milliseconds_unless_a_user_says_otherwise() -> None:
    def rate(**said: str) -> str:
        code = "import tui.app.app, textual.constants as known; print(known.MAX_FPS)"
        environment = {key: value for key, value in os.environ.items() if key != "TEXTUAL_FPS"} | said
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert rate() == "240"
    assert rate(TEXTUAL_FPS="30") == "30"
