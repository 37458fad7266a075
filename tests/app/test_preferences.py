"""What is kept from one start of the app to the next."""

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from simulator.results.analysis.run import SessionData
from simulator.studies.selection import Seeds
from tests.app.driving import drive, opened, until
from tui.app.app import FILE, SESSIONS, HtflApp, Preferences
from tui.app.panels.client_rows import known
from tui.app.view import ColorSlots
from tui.app.widgets import Table


def clients(app: HtflApp) -> Table:
    """The table that has keys first."""
    table = app.panel.first()
    assert isinstance(table, Table)
    return table


@pytest.mark.long
def test_theme_chart_sort_and_pins_are_there_again_at_the_next_start(home: Path) -> None:
    def started() -> HtflApp:
        return opened(home, "main", "live", state=home / "state")

    async def choose(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: first.view.run.round == 12 and first.focused is clients(first))
        await pilot.press("y", "o", "O", "p")
        first.theme = "nord"
        await until(pilot, lambda: bool(first.view.pinned))

    async def look(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: again.view.run.round == 12)
        assert again.theme == "nord"
        assert (again.view.chart, again.view.sort) == (1, ("change", False))
        assert again.view.pinned == first.view.pinned
        await until(pilot, lambda: clients(again).sort == ("change", False))

    first = started()
    drive(first, choose)
    again = started()
    drive(again, look)


def test_what_cannot_be_read_is_as_at_a_first_start(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"theme": 3, "chart": "x", "sort": 1, "pins": []}', '{"sort": ["x", 1]}'):
        (tmp_path / FILE).write_text(text)
        kept = Preferences.read(tmp_path)
        assert (kept.theme, kept.chart, known(kept.sort), kept.pins) == ("", 0, ("accuracy", False), {})


def test_text_that_is_not_utf_8_is_as_at_a_first_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"theme": "\xff"}')
    assert Preferences.read(tmp_path) == Preferences()


def test_a_folder_whose_name_is_not_utf_8_is_kept_too(tmp_path: Path) -> None:
    kept = Preferences(places={"caf\udce9/main": 3})
    kept.keep(tmp_path, theme="nord", chart=1, sort=("id", True))
    assert Preferences.read(tmp_path) == kept


def test_what_is_invalid_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"theme": "nord", "pins": {"s": [1, "x"]}, "chart": 2, "old": 1}')
    kept = Preferences.read(tmp_path)
    assert (kept.theme, kept.chart, kept.pinned("s")) == ("nord", 2, frozenset())


def test_pins_are_kept_of_the_sessions_pinned_in_last(tmp_path: Path) -> None:
    kept = Preferences()
    for number in (0, *range(SESSIONS), 0):
        kept.pin(str(number), {3, 1})
    kept.pin("new", {2})
    kept.keep(tmp_path / "state", theme="nord", chart=2, sort=("id", True))
    assert json.loads((tmp_path / "state" / FILE).read_text())["pins"].keys() == {
        *map(str, (*range(2, SESSIONS), 0)),
        "new",
    }


def test_what_was_compared_has_its_key_and_colour_again_at_the_next_start(tmp_path: Path) -> None:
    one, other = (Seeds(name, (SessionData(tmp_path / name),)) for name in ("one", "other"))
    kept = Preferences()
    assert ColorSlots(kept.places).of([one, other]) == [0, 1]
    kept.keep(tmp_path, theme="", chart=0, sort=("id", False))
    assert ColorSlots(Preferences.read(tmp_path).places).of([other]) == [1]


def test_places_that_are_none_or_taken_twice_are_left_out() -> None:
    kept: dict[str, int] = {"a": 1, "b": 1, "c": -1, "d": "x", "e": True}  # type: ignore[dict-item]
    ColorSlots(kept)
    assert kept == {"a": 1}


def test_a_state_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Preferences().keep(tmp_path / "file", theme="", chart=0, sort=("id", False))
    Preferences().keep(None, theme="", chart=0, sort=("id", False))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
