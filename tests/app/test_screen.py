"""The main screen: how it is laid out, drawn, colored, and what is kept of it."""

import colorsys
import csv
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.color import ColorSystem, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.pilot import Pilot
from textual.renderables.background_screen import BackgroundScreen
from textual.widgets import Input, Static
from textual.widgets._toast import Toast

from checkpoints import Store
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from simulator.results.figures.palette import OKABE_ITO, channels, contrast
from simulator.studies.selection import Seeds
from tests import sessions
from tests.app.driving import driven, notices, opened, shown, until
from tui.app.app import FILE, SESSIONS, HtflApp, Preferences, free_path, write_csv
from tui.app.charts.look import VIRIDIS_256, Look
from tui.app.dialogs.base import Behind, Text
from tui.app.panels import PANELS
from tui.app.panels.base import Facts
from tui.app.panels.clients import known
from tui.app.runs import LaunchOptions, RunEnded
from tui.app.terminal import COLOURS, FIRST, able, as_seen, nearest, switch_mouse
from tui.app.view import ColorSlots, RoundRefused, View
from tui.app.widgets import Table
from tui.app.widgets.screen import Filter

# The main screen: when it is laid out and drawn, and where the focus is.


ROUNDS = 12


@pytest.mark.long
async def test_enter_leads_to_more_of_the_client_and_escape_back(home: Path) -> None:
    app = opened(home, "main", "live", "clients", "similarity")
    async with driven(app) as pilot:
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


@pytest.mark.long
async def test_words_for_sessions_leave_the_clients_alone_and_are_there_again(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
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


@pytest.mark.long
async def test_a_line_that_is_typed_keeps_the_focus_when_the_panel_would_take_it(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
        await shown(app, pilot)
        await pilot.press("slash")
        app._focus_panel()  # as after a session has been read
        await pilot.press(*"cnn2")
        assert isinstance(app.focused, Input) and app.focused.value == "cnn2"


# What a change of panel costs: each thing is drawn once, in the size that it will have.


FEW, CLIENTS = 3, 40


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changes")
    sessions.make(folder / "main", rounds=FEW, clients=CLIENTS, samples=sessions.samples(CLIENTS))
    return folder


@pytest.fixture
def app(forty: Path) -> HtflApp:
    panels = [PANELS[name](name) for name in ("live", "clients", "log", "data")]
    return HtflApp(LaunchOptions(forty, forty / "data"), forty / "main", panels=panels)


async def settled(app: HtflApp, pilot: Pilot[Any], *keys: str) -> None:
    """Wait for the session, then press keys (some at once, between spaces), each drawn before the next."""
    await until(pilot, lambda: app.view.run.round == FEW)
    await pilot.pause(0.1)
    for each in keys:
        await pilot.press(*each.split())
        await pilot.pause(0.1)


@pytest.mark.parametrize("key", ["1", pytest.param("7", marks=pytest.mark.long)])
async def test_a_panel_that_is_shown_again_is_drawn_once(
    app: HtflApp, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str | None] = []
    async with driven(app) as pilot:
        await settled(app, pilot, key, "2" if key == "1" else "1")
        for panel in app.panels:
            whole = panel.draw  # type: ignore[attr-defined]
            monkeypatch.setattr(
                panel, "draw", lambda view, whole=whole, id=panel.id: drawn.append(id) or whole(view)
            )
        await settled(app, pilot, key)
        assert drawn == [app.panel.id]


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
async def test_a_hidden_table_scrolls_by_the_room_that_it_will_have(app: HtflApp) -> None:
    async with driven(app) as pilot:
        await settled(app, pilot, "2", "1 j j", "2")
        table = app.panel.query(Table).first()
        assert table.selected == app.view.client
        assert table.scroll_offset.y == 0  # the third row is in sight of a table that begins at the first


@pytest.mark.long
async def test_what_was_drawn_in_a_part_that_had_the_whole_screen_is_drawn_again_in_its_own_place(
    app: HtflApp,
) -> None:
    async with driven(app, size=(96, 40)) as pilot:
        await settled(app, pilot, "2 tab tab tab")
        facts = app.panel.query_one(Facts)
        app.main.set_focus(facts)
        own = [row.cells for row in facts.rows]
        await settled(app, pilot, "z")
        wide = [row.cells for row in facts.rows]
        await settled(app, pilot, "[ ] z")
        assert len(wide) < len(own), "the facts are too short for this test"
        assert [row.cells for row in facts.rows] == own


@pytest.mark.parametrize(
    ("panel", "key"), [("2", "j"), pytest.param("1", "left_square_bracket", marks=pytest.mark.long)]
)
async def test_a_key_that_moves_no_part_lays_nothing_out_anew(app: HtflApp, panel: str, key: str) -> None:
    laid_out: list[object] = []
    async with driven(app) as pilot:
        await settled(app, pilot, panel, key)
        app.screen.screen_layout_refresh_signal.subscribe(app.screen, laid_out.append)
        await settled(app, pilot, key)
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


# Every letter and figure can be read: on dark and on light, in all colours and in xterm's 256.


SIX = 6
LEAST = {ColorSystem.TRUECOLOR: 3.0, ColorSystem.EIGHT_BIT: 2.5}
"""What WCAG 2.2 (1.4.11) asks of what is needed to understand, and what the nearest of 256 colours leaves of it."""


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("legible")
    for name, method in (("main", "fedlora"), ("other", "fedssa")):
        sessions.make(folder / name, rounds=SIX, clients=6, method=method, samples=sessions.samples(6))
    return folder


def hard_to_read(app: HtflApp, least: float) -> set[tuple[str, float]]:
    """What is written with less contrast."""
    found = set()
    for row in app.screen._compositor.render_strips():
        for text, style, _ in row:
            if not any(character.isalnum() for character in text) or style is None:
                continue
            fg, bg = style.color, style.bgcolor
            if fg is None or bg is None or fg.is_default or bg.is_default:
                continue  # the terminal's own
            one, other = (int(each.get_truecolor().hex[1:], 16) for each in (fg, bg))
            if (ratio := contrast(one, other)) < least - 0.005:
                found.add((text.strip(), round(ratio, 2)))
    return found


@pytest.mark.parametrize(
    ("theme", "system"),
    [
        pytest.param("textual-dark", ColorSystem.EIGHT_BIT, id="dark-256"),
        pytest.param("textual-light", ColorSystem.TRUECOLOR, id="light-true", marks=pytest.mark.long),
        pytest.param("textual-dark", ColorSystem.TRUECOLOR, id="dark-true", marks=pytest.mark.slow),
        pytest.param("textual-light", ColorSystem.EIGHT_BIT, id="light-256", marks=pytest.mark.slow),
    ],
)
async def test_every_panel_can_be_read(theme: str, system: ColorSystem, six: Path) -> None:
    app = HtflApp(LaunchOptions(six, six / "data"), six / "main")
    found: dict[str, set[tuple[str, float]]] = {}
    async with driven(app) as pilot:
        app.console._color_system = system
        app.theme = theme
        await until(pilot, lambda: app.view.run.round == SIX)
        await pilot.press("2", "p", "left", "s", "x", "j", "x")
        for panel in PANELS:
            app.show_panel(panel)
            app.refresh_css()
            await pilot.pause()
            if hard := hard_to_read(app, LEAST[system]):
                found[panel] = hard
    assert found == {}


@pytest.mark.long
async def test_names_in_any_script_are_shown_as_they_are(tmp_path: Path) -> None:
    held = sessions.samples(4) | {"classes": ["猫", "飛行機", "🐦", "狗", "naïve", "ก็", "6", "7", "8", "9"]}
    for name in ("試験🙂", "試験🐦"):
        sessions.make(tmp_path / name, rounds=2, clients=4, samples=held)
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "試験🙂")
    seen: dict[str, str] = {}
    async with driven(app) as pilot:
        await until(pilot, lambda: app.view.run.round == 2)
        for panel in PANELS:
            app.show_panel(panel)
            await pilot.pause()
            seen[panel] = text_of(app)
        await until(pilot, lambda: "試験🐦" in text_of(app))  # once the folder is read
        seen["sessions"] = text_of(app)
        assert all(cell_len(line) == 120 for each in seen.values() for line in each.splitlines())
    assert [panel for panel, text in seen.items() if text.count("?") > text.count("? help")] == []
    assert [*seen][-1] == "sessions" and all("試験🙂" in text for text in seen.values())
    assert "飛行機" in seen["clients"]


def text_of(app: HtflApp) -> str:
    """The characters on the screen, line by line."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row) for row in rows)


def test_a_terminal_whose_encoding_is_not_utf_8_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    for encoding, glyphs in (("utf-8", "block"), ("iso8859-1", "ascii"), ("ascii", "ascii"), (None, "ascii")):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding=encoding))
        assert able("block") == glyphs
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert able("block") == "block"  # a browser


# What is sent to a terminal that has xterm's 256 colours.


def sent(colour: int) -> tuple[int, int, int]:
    red, green, blue = COLOURS[nearest(*channels(colour)) - FIRST].tolist()
    return red, green, blue


def test_its_own_colours_are_sent_as_they_are_and_greys_and_dark_tints_as_greys() -> None:
    assert [COLOURS[nearest(*each) - FIRST].tolist() for each in COLOURS.tolist()] == COLOURS.tolist()
    viridis = VIRIDIS_256.tolist()
    assert [*map(sent, viridis)] == [*map(channels, viridis)]
    seen = as_seen(np.array([[0, 0, 0], [128, 128, 128], [255, 255, 255]]))
    assert seen[:, 0] == pytest.approx([0, 0.6, 1], abs=0.01) and abs(seen[:, 1:]).max() < 1e-3
    for tint in (0x242F38, 0x2A2218, 0x1E1E1E, 0x272727):  # of dark themes' panels: no blue and no olive
        assert len({*sent(tint)}) == 1
    hue, _, _ = colorsys.rgb_to_hsv(*(part / 255 for part in sent(Look(exact=False).highlight)))
    assert 25 <= hue * 360 <= 60  # the cursor: orange to yellow


def test_the_lines_of_a_chart_stay_apart_and_legible() -> None:
    for scheme in (Look(exact=False), Look(0x202020, 0xF0F0F0, 0xB35C00, False, exact=False)):
        lines = [sent(scheme.series(place)) for place in range(len(OKABE_ITO))]
        seen = as_seen(np.array(lines))
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert apart[np.triu_indices(len(lines), 1)].min() > 0.06
        ground, *drawn = (
            red << 16 | green << 8 | blue for red, green, blue in [sent(scheme.background), *lines]
        )
        assert min(contrast(each, ground) for each in drawn) >= 2.5


@pytest.mark.long
async def test_status_row_panels_and_keys_are_all_sent_in_them(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=3, clients=4, samples=sessions.samples(4))
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "main")
    async with driven(app) as pilot:
        app.console._color_system = ColorSystem.EIGHT_BIT
        await until(pilot, lambda: app.view.run.round == 3)
        for panel in ("live", "data"):
            app.show_panel(panel)
            app.refresh_css()
            await pilot.pause()
            rows = app.screen._compositor.render_strips()
            styles = [segment.style for row in rows for segment in row if segment.style]
            kinds = {
                colour.type for each in styles for colour in (each.color, each.bgcolor) if colour is not None
            }
            assert kinds <= {ColorType.EIGHT_BIT, ColorType.DEFAULT, ColorType.STANDARD}
            ground = next(each.bgcolor for each in styles if each.bgcolor)
            assert len({*ground.get_truecolor()}) == 1  # the status row's


# When a view is to be drawn again.


def test_a_run_further_in_its_round_looks_the_same(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=3, clients=2))
    before = View(run)
    assert before.looks_like(View(replace(run, progress={"done": 1}, owner={"pid": 1})))
    assert not before.looks_like(View(replace(run, ledger=Ledger.of(run.records[:2]))))
    assert not before.looks_like(View(replace(run, state="paused")))
    assert not before.looks_like(replace(before, round=2))
    assert not before.looks_like(replace(before, pinned=frozenset({1})))


# What is exported can be used: CSV that a program reads.


def test_a_csv_file_has_a_line_per_row_and_nothing_where_there_is_no_value(tmp_path: Path) -> None:
    path = free_path(tmp_path, "live", "csv")
    write_csv(path, ["round", "mean", "what"], [[1, 0.5, "a, b"], [2, math.nan, None]])
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["round", "mean", "what"], ["1", "0.5", "a, b"], ["2", "", ""]]
    assert free_path(tmp_path, "live", "csv").name == "live-2.csv"
    with pytest.raises(FileExistsError):
        write_csv(path, [], [])


# What is kept from one start of the app to the next.


def clients(app: HtflApp) -> Table:
    """The table that has keys first."""
    table = app.panel.first()
    assert isinstance(table, Table)
    return table


@pytest.mark.long
async def test_theme_chart_sort_and_pins_are_there_again_at_the_next_start(home: Path) -> None:
    first = opened(home, "main", "live", state=home / "state")
    async with driven(first) as pilot:
        await until(pilot, lambda: first.view.run.round == 12 and first.focused is clients(first))
        await pilot.press("y", "o", "O", "p")
        first.theme = "nord"
        await until(pilot, lambda: bool(first.view.pinned))
    again = opened(home, "main", "live", state=home / "state")
    async with driven(again) as pilot:
        await until(pilot, lambda: again.view.run.round == 12)
        assert (again.theme, again.view.chart, again.view.sort) == ("nord", 1, ("change", False))
        assert again.view.pinned == first.view.pinned
        await until(pilot, lambda: clients(again).sort == ("change", False))


def test_what_cannot_be_read_is_as_at_a_first_start_and_leaves_the_rest(tmp_path: Path) -> None:
    for raw in (b"{", b"[]", b'{"theme": 3, "chart": "x", "sort": 1, "pins": []}', b'{"theme": "\xff"}'):
        (tmp_path / FILE).write_bytes(raw)
        assert Preferences.read(tmp_path) == Preferences()
    assert known(("x", True)) == ("accuracy", False)
    (tmp_path / FILE).write_text('{"theme": "nord", "pins": {"s": [1, "x"]}, "chart": 2, "old": 1}')
    kept = Preferences.read(tmp_path)
    assert (kept.theme, kept.chart, kept.pinned("s")) == ("nord", 2, frozenset())


def test_preferences_are_kept_where_that_is_possible(tmp_path: Path) -> None:
    kept = Preferences(places={"caf\udce9/main": 3})  # a folder whose name is not UTF-8
    kept.keep(tmp_path, theme="nord", chart=1, sort=("id", True))
    assert Preferences.read(tmp_path) == kept
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", None):  # a folder that cannot be written stops nothing
        kept.keep(folder, theme="", chart=0, sort=("id", False))


def test_pins_are_kept_of_the_sessions_pinned_in_last(tmp_path: Path) -> None:
    kept = Preferences()
    for number in (0, *range(SESSIONS), 0):
        kept.pin(str(number), {3, 1})
    kept.pin("new", {2})
    kept.keep(tmp_path / "state", theme="nord", chart=2, sort=("id", True))
    pinned = {*map(str, (*range(2, SESSIONS), 0)), "new"}
    assert json.loads((tmp_path / "state" / FILE).read_text())["pins"].keys() == pinned


def test_what_was_compared_has_its_key_and_colour_again_at_the_next_start(tmp_path: Path) -> None:
    one, other = (Seeds(name, (SessionData(tmp_path / name),)) for name in ("one", "other"))
    kept = Preferences()
    assert ColorSlots(kept.places).of([one, other]) == [0, 1]
    kept.keep(tmp_path, theme="", chart=0, sort=("id", False))
    assert ColorSlots(Preferences.read(tmp_path).places).of([other]) == [1]


def test_places_that_are_none_or_taken_twice_are_left_out() -> None:
    places: dict[str, int] = {"a": 1, "b": 1, "c": -1, "d": "x", "e": True}  # type: ignore[dict-item]
    ColorSlots(places)
    assert places == {"a": 1}


# Notices: each is true while it is shown, and hides no line of keys.


@pytest.fixture
def of_two(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=ROUNDS, clients=4, state="stopped")
    sessions.make(tmp_path / "other", rounds=3, clients=4)
    return tmp_path


Ending = Callable[[HtflApp, Pilot[str], Path], Awaitable[object]]


async def press(pilot: Pilot[str], keys: str) -> None:
    await pilot.press(*keys.split())
    await pilot.pause()


async def comes_to_life(app: HtflApp, pilot: Pilot[str], of_two: Path) -> None:
    with Store.open(of_two / "main") as store:
        store.heartbeat("running", round=13, rounds=40)
        await until(pilot, lambda: app.view.run.live)


async def opens_other(app: HtflApp, pilot: Pilot[str], of_two: Path) -> None:
    app.open_session(of_two / "other")


ENDINGS: list[tuple[str, str, str, str | Ending]] = [
    ("left_square_bracket", "space", "You are viewing round 11.", "L"),
    ("", "r", "Choose a round first", "left_square_bracket"),
    ("", "u", "u works in Cost", "4"),
    ("", "percent_sign", "The mouse selects text", "percent_sign"),
    ("L", "S", "main is stopped, and a stop needs a running session.", comes_to_life),
    ("left_square_bracket", "space", "You are viewing round 11.", opens_other),
]
"""Keys before, the key that leads to a notice, its words, and what ends it: a key, or something else."""


@pytest.mark.long
async def test_a_notice_disappears_when_its_cause_ends(of_two: Path) -> None:
    app = opened(of_two)
    async with driven(app, toasts=True) as pilot:
        await shown(app, pilot)
        for before, key, said, ending in ENDINGS:

            def stands(said: str = said) -> bool:
                toasts = [str(toast.render()) for toast in app.query(Toast)]
                return all(any(said in each for each in texts) for texts in (notices(app), toasts))

            await press(pilot, before)
            await press(pilot, key)
            await until(pilot, stands)
            app.draw()
            assert stands()  # a new look does not end it
            await (press(pilot, ending) if isinstance(ending, str) else ending(app, pilot, of_two))
            await until(pilot, lambda: not stands())
            assert not any(said in each for each in notices(app))


async def test_without_a_session_the_reason_is_that_and_ends_with_it(of_two: Path) -> None:
    app = opened(of_two, None)
    async with driven(app) as pilot:
        await until(pilot, lambda: app.panel.id == "sessions")
        await press(pilot, "1 m")
        assert notices(app) == ["No session is open. Press a to open one or n to start a run."]
        app.open_session(of_two / "main")
        assert notices(app) == []


def test_why_a_round_is_refused_is_said_while_it_is_the_one_shown() -> None:
    said: list[tuple[str, bool]] = []
    for round in (3, 4):
        app: Any = SimpleNamespace(
            view=SimpleNamespace(shown=round), say=lambda why, kind, holds: said.append((why, holds()))
        )
        HtflApp.on_round_refused(app, RoundRefused("It is gone.", 3))
    assert said == [("It is gone.", True), ("It is gone.", False)]


@pytest.mark.long
async def test_notices_are_said_only_while_true_and_none_twice(of_two: Path) -> None:
    app = opened(of_two)
    async with driven(app) as pilot:
        await shown(app, pilot)
        app.runs.ended(RunEnded(of_two / "main", "stopped"))
        assert notices(app) == ["main is stopped."]
        app.runs._latest = lambda folder: object()  # type: ignore[assignment, method-assign, return-value]
        app.draw()
        assert notices(app) == []  # as it runs again
        app.post_message(RoundRefused("The checkpoint of round 11 is gone.", 11))
        await pilot.pause()
        assert notices(app) == []  # not the round shown
        for _ in range(3):
            app.say("Wrote it.")
        assert notices(app) == ["Wrote it."]
        shutil.move(of_two / "main", of_two / "away")
        await until(pilot, lambda: len(notices(app)) == 2)
        shutil.move(of_two / "away", of_two / "main")
        await until(pilot, lambda: notices(app) == ["Wrote it."])  # it can be read again


@pytest.mark.parametrize("size", [(60, 16), pytest.param((120, 40), marks=pytest.mark.long)])
async def test_notices_hide_no_line_of_keys(size: tuple[int, int], of_two: Path) -> None:
    app = opened(of_two)

    def hidden(line: Region) -> bool:
        return any(toast.region.overlaps(line) for toast in app.screen.query(Toast))

    async def say(pilot: Pilot[str]) -> None:
        app.say("You are viewing round 114. Press L for the newest round, or f to fork here. " * 2)
        app.say("Requested pause: main.")
        await until(pilot, lambda: len(app.screen.query(Toast)) == 2)
        await until(pilot, lambda: all(toast.region.height for toast in app.screen.query(Toast)))

    async with driven(app, size=size, toasts=True) as pilot:
        await shown(app, pilot)
        await say(pilot)
        for row in ("#status", "#tabs", "#keys"):
            assert not hidden(app.main.query_one(row).region)
        await press(pilot, "slash")
        assert app.main.query_one(Filter).region.height
        assert not hidden(app.main.query_one(Filter).region)
        await press(pilot, "escape")
        app.push_screen(Text("A long text", "line\n" * 60))
        await say(pilot)
        assert not hidden(app.screen.query_one(".hint", Static).region)


def test_the_mouse_is_given_to_the_terminal_and_taken_back() -> None:
    given: list[str] = []
    driver = SimpleNamespace(
        _disable_mouse_support=lambda: given.append("terminal"),
        _enable_mouse_support=lambda: given.append("app"),
    )
    app = SimpleNamespace(has_mouse=True, _driver=driver, say=lambda said, holds: given.append(said[:9]))
    switch_mouse(app)
    switch_mouse(app)
    assert given == ["terminal", "The mouse", "app", "The mouse"]
