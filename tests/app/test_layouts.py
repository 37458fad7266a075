"""`Y`: panel, charts, order, and pins under a name, also at the next start of the app."""

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from htfl_sim.errors import ConfigError
from tests import sessions
from tests.app.driving import blanks, drive, until
from tests.app.test_typed import offered, typed
from tui.app.app import HtflApp
from tui.app.dialogs.layouts import LayoutDialog, check, load
from tui.app.dialogs.tour import Tour
from tui.app.launch_options import LaunchOptions
from tui.app.panels import PANELS
from tui.app.panels.base import Part
from tui.app.preferences import FILE, Preferences


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    sessions.make(tmp_path / "small", rounds=12, clients=2)
    return tmp_path


def in_app(home: Path, script: Any, first: str = "main", real: tuple[str, ...] = ()) -> HtflApp:
    """Run a script in the app. real: the panels that are no stand-ins."""
    panels = [PANELS[each.id](each.id) if each.id in real else each for each in blanks()]
    options = LaunchOptions(home, home / "data")
    app = HtflApp(options, home / first, panels=panels, state=home / "state")

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        await pilot.pause()
        await script(app, pilot)

    drive(app, run)
    return app


def test_a_saved_layout_is_loaded_at_the_next_start(home: Path) -> None:
    async def save(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.show_panel("clients")
        app.change(chart=3, sort=("change", False))
        app.pin({1, 3})
        await pilot.press("Y")
        assert isinstance(app.screen, LayoutDialog)
        await pilot.press(*"mine", "enter")
        await until(pilot, lambda: "mine" in json.loads((home / "state" / FILE).read_text())["layouts"])
        app.show_panel("log")
        app.change(chart=0, sort=("id", True))
        app.pin(())

    async def load(app: HtflApp, pilot: Pilot[Any]) -> None:
        assert (app.panel.id, app.view.mode, app.view.pinned) == ("live", "band and mean", set())
        await pilot.press("Y", "down", "enter")
        await until(pilot, lambda: app.panel.id == "clients")
        assert (app.view.mode, app.view.sort, app.view.pinned) == ("loss", ("change", False), {1, 3})

    in_app(home, save)
    in_app(home, load)


def test_clients_that_a_session_does_not_have_are_not_pinned(home: Path) -> None:
    Preferences(layouts={"mine": {"panel": "live", "pins": [1, 3]}}).keep(
        home / "state", theme="", chart=0, sort=("id", False)
    )

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, "layout load mine", "<enter>")
        assert app.view.pinned == {1}

    in_app(home, script, "small")


def test_what_panels_show_and_the_part_that_has_the_screen_come_back(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.show_panel("similarity")
        await pilot.pause()
        similarity: Any = app.panel
        await pilot.press("e", "comma", "z")
        layer, alone = similarity._layer, app.screen.maximized
        assert isinstance(layer, str) and isinstance(alone, Part)
        await typed(pilot, "layout save mine", "<enter>")
        await pilot.press("z", "e", "full_stop")
        assert (similarity._fitted, similarity._layer == layer, app.screen.maximized) == (False, False, None)
        await typed(pilot, "layout load mine", "<enter>")
        await until(pilot, lambda: app.screen.maximized is alone)
        assert (similarity._fitted, similarity._layer) == (True, layer)

    in_app(home, script, real=("similarity",))


def test_a_layout_of_the_visible_panel_is_drawn_at_once(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.show_panel("sessions")
        title = app.panel.query(Part).first()
        await until(pilot, lambda: "by tree" in str(title.border_title))
        await typed(pilot, "layout save mine", "<enter>")
        await pilot.press("o")
        await until(pilot, lambda: "by newest" in str(title.border_title))
        await typed(pilot, "layout load mine", "<enter>")
        await until(pilot, lambda: "by tree" in str(title.border_title))

    in_app(home, script, real=("sessions",))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("similarity", {"_layer": "fc1", "_fitted": True, "_clustered": True}),
        ("compare", {"_unit": "bytes", "_shown": "loss", "_target": 0.5}),
        ("compare", {"_unit": "rounds", "_shown": "accuracy", "_target": None}),
        ("sessions", {"order": "best", "board": "Pareto"}),
    ],
)
def test_a_layout_has_what_the_keys_of_a_panel_change(name: str, kept: dict[str, object]) -> None:
    panel: Any = PANELS[name](name)
    panel.choose(json.loads(json.dumps(kept)))
    assert panel.choices() == kept


def test_values_that_a_panel_does_not_know_leave_it_as_it_is() -> None:
    panel: Any = PANELS["resources"]("resources")
    before = panel.choices()
    panel.choose({"_chart": "sideways", "_span": 99, "_metric": "x", "unknown": 1})
    assert panel.choices() == before == {"_chart": "time", "_metric": 0, "_span": 2}
    compare: Any = PANELS["compare"]("compare")
    compare.choose({"_target": "high"})
    assert compare.choices()["_target"] is None
    panel.choose({"_chart": "memory", "_span": 4})
    assert panel.choices() == {"_chart": "memory", "_metric": 0, "_span": 4}


@pytest.mark.parametrize("kept", [{}, {"panel": 3, "chart": [], "sort": ["x"], "pins": "1", "alone": "z"}])
def test_a_layout_that_nobody_wrote_so_changes_nothing(kept: dict[str, object], home: Path) -> None:
    Preferences(layouts={"odd": kept}).keep(home / "state", theme="", chart=0, sort=("id", False))

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        before = (app.panel.id, app.view.mode, app.view.sort, app.view.pinned)
        await typed(pilot, "layout load odd", "<enter>")
        assert (app.panel.id, app.view.mode, app.view.sort, app.view.pinned) == before

    in_app(home, script)


def test_a_layout_is_replaced_or_deleted_only_on_request(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, "layout save mine", "<enter>")
        app.show_panel("log")
        await pilot.press("Y", *"mine", "tab", *"save")
        remark = app.screen.query_one("#remark", Static)
        assert str(remark.content) == "Enter does this: save mine in place of the saved one."
        await pilot.press("enter")
        await until(pilot, lambda: app.layouts["mine"]["panel"] == "log")
        await typed(pilot, "layout delete mine", "<enter>")
        assert app.layouts == {}
        assert json.loads((home / "state" / FILE).read_text())["layouts"] == {}

    in_app(home, script)


def test_tab_completes_what_to_do_and_the_name(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, "layout save mine", "<enter>")
        await typed(pilot, "layout lo", "<tab>")
        assert offered(app).startswith("mine Live, band and mean")

    in_app(home, script)


@pytest.mark.parametrize(
    ("do", "name", "says"),
    [
        ("load", "wid", "No layout is named 'wid'. Choose one of wide."),
        ("lode", "wide", "'lode' is nothing to do with a layout."),
        ("save", "two words", "is no name of a layout"),
        ("save", "x" * 41, "up to 40 letters"),
    ],
)
def test_an_error_says_what_to_do(do: str, name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check({"wide": {}}, do, name)


def test_a_dialog_that_opens_while_a_layout_is_loaded_leaves_its_part_to_the_panel(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        load(app, {"panel": "log", "alone": 0})
        app.push_screen(Tour())  # before the part is shown
        await pilot.pause()
        assert app.screen is not app.main and app.screen.maximized is None
        assert app.main.maximized is app.panel.query(Part).first()

    in_app(home, script, real=("log",))
