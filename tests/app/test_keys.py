"""Every key of the table, pressed in the app. A new key fails here until what it does is written down."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input

import checkpoints
from checkpoints import Store
from htfl_sim.compatibility import MethodChoice
from tests import sessions
from tests.app.driving import Blank, blanks, drive, until
from tui.app import app as module
from tui.app.app import HtflApp
from tui.app.dialogs.base import Choose
from tui.app.dialogs.pages import Describe, EffectDialog, Help, WhyDialog, listing
from tui.app.dialogs.run_forms import ForkDialog, NewRunDialog, ResumeDialog, ShadowDialog, SwitchDialog
from tui.app.dialogs.upkeep import AttachDialog, DeleteDialog, NoteDialog, RenameDialog
from tui.app.keys import KEYS, WHILE_REPLAYING, Commands, Key, bindings
from tui.app.panels import PANELS
from tui.app.panels.base import Part
from tui.app.runs import LaunchOptions
from tui.app.terminal import CANNOT
from tui.app.widgets import LineChart

Press = Callable[[HtflApp, Pilot[str], str], Awaitable[None]]
ROUNDS = 12


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a session of twelve rounds; the working folder, too."""
    monkeypatch.chdir(tmp_path)
    fedlora = MethodChoice("fedlora", "FedLoRA", "…", None, ())
    monkeypatch.setattr("tui.app.host.method_choices", lambda config: [fedlora])
    sessions.make(tmp_path / "main", rounds=ROUNDS, clients=4)
    return tmp_path


@pytest.fixture
def live(home: Path) -> Iterator[Path]:
    """The same session with an owner, who answers nothing."""
    with Store.open(home / "main") as store:
        store.heartbeat("running", round=ROUNDS, rounds=40, phase="train", done=1, clients=4)
        yield home
        store.heartbeat("stopped")


def opened(home: Path, *real: str) -> HtflApp:
    """With stand-ins for all panels but those that are to be real."""
    panels = [PANELS[panel.id](panel.id) if panel.id in real else panel for panel in blanks()]
    return HtflApp(LaunchOptions(home, home / "data"), home / "main", panels=panels)


async def shown(app: HtflApp, pilot: Pilot[str]) -> None:
    await until(pilot, lambda: app.view.run.round == ROUNDS)
    await pilot.pause()


def asked(home: Path) -> list[tuple[str, dict[str, object]]]:
    return [(command.kind, command.arguments) for command in checkpoints.pending(home / "main")]


async def go_to(app: HtflApp, pilot: Pilot[str], key: Key) -> None:
    """The first panel in which the key works."""
    if key.where:
        app.show_panel(key.where[0])
        await pilot.pause()


async def show_panel(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert app.panel.id == argument
    assert isinstance(app.panel, Blank)
    assert app.view.looks_like(app.panel.views[-1])


async def panel(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert isinstance(app.panel, Blank)
    assert app.panel.called.pop() == argument
    assert not app.panel.called


async def travel(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    back = int(argument) < 0
    assert app.view.shown == (ROUNDS + int(argument) if back else ROUNDS)
    assert app.view.replaying == back


async def live_again(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    await pilot.press("left_square_bracket", "left_square_bracket")
    assert app.view.shown == ROUNDS - 2
    await pilot.press("L")
    assert not app.view.replaying


def crosshair(app: HtflApp) -> float | None:
    (cursor,) = {chart.cursor for chart in app.panel.query(LineChart)}
    return cursor


async def moves_crosshair(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert crosshair(app) == ROUNDS  # the first key only shows it
    steps = {"1": "right", "-1": "left", "10": "right_parenthesis", "-10": "left_parenthesis"}
    await pilot.press("left", "h", steps[argument])
    assert crosshair(app) == min(max(ROUNDS - 2 + int(argument), 1), ROUNDS)
    assert not app.view.replaying
    await pilot.press("escape")
    assert crosshair(app) is None


async def replays(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert "Choose a round first" in [*app._notifications][-1].message
    await pilot.press("left", "left", "left", "r")
    assert (app.view.shown, app.view.replaying, app.view.crosshair) == (ROUNDS - 2, True, None)
    assert crosshair(app) == ROUNDS - 2


async def compare(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    await until(pilot, lambda: len(app.view.compared) == 1)
    assert app.panel.id == "compare"
    assert app.view.marked == (app.view.run.folder,)


async def words(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    await pilot.press("c", "n", "n", "3")
    assert app.view.filter == "cnn3"
    await pilot.press("enter")
    assert not app.query_one("#filter", Input).display
    await pilot.press("slash", "escape")
    assert app.view.filter == ""


async def mouse(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert not app.has_mouse
    await pilot.press("percent_sign")
    assert app.has_mouse


async def suspends(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert [*app._notifications][-1].message == CANNOT  # tests have no terminal; test_suspend.py has the rest


async def quits(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert app.return_value == module.LEAVE


async def exports(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    await pilot.press("enter")
    await until(pilot, lambda: Path("main-live.csv").exists())
    lines = Path("main-live.csv").read_text().splitlines()
    assert len(lines) == 1 + ROUNDS
    assert lines[0] == "round,mean"
    await pilot.press("w", "down", "enter")
    await until(pilot, lambda: Path("main-live.svg").exists())
    assert Path("main-live.svg").read_text().startswith("<svg")


def dialog(kind: type) -> Press:
    async def check(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
        await until(pilot, lambda: isinstance(app.screen, kind))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)

    return check


async def theme(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    before = app.theme
    await pilot.press("up", "enter")
    await pilot.pause()
    assert app.theme != before


def x_range(app: HtflApp) -> tuple[float, float]:
    return app.query(LineChart).first().x_range


async def zoom(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    whole = (1, ROUNDS)
    if argument != "1":
        assert x_range(app) == whole
        await pilot.press("plus")
    narrow = x_range(app)
    assert narrow[1] - narrow[0] < ROUNDS - 1
    if argument != "1":
        await pilot.press("minus" if argument == "-1" else "0")
        assert x_range(app) == whole


async def pan(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    await pilot.press("plus", "plus", "shift+left")
    left = x_range(app)
    await pilot.press("shift+right")
    right = x_range(app)
    assert left[0] < right[0]
    await pilot.press("shift+left" if argument == "-0.25" else "shift+right")
    assert x_range(app) == pytest.approx(left if argument == "-0.25" else right)


async def focus(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    there = app.focused
    await pilot.press("tab")
    assert app.focused is not there
    await pilot.press("shift+tab")
    assert app.focused is there


async def maximise(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    part = app.screen.maximized
    assert isinstance(part, Part) and part.border_title
    assert [app.main.query_one(row).region.y for row in ("#status", "#tabs")] == [0, 1]
    assert (part.region.y, part.region.height) == (2, 37)
    assert app.main.query_one("#keys").region.y == 39
    await pilot.press("z")
    assert app.screen.maximized is None


async def not_live(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    """Of a finished session: a notice with the reason, and nothing in the mailbox."""
    assert len(app.screen_stack) == 1
    assert "finished" in [*app._notifications][-1].message
    assert asked(app.sessions_dir) == []


async def computes_cka(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    """Of a finished session: from its checkpoint, and nothing in the mailbox."""
    assert len(app.screen_stack) == 1
    assert app.view.similarities.computing(app.view.run) == app.view.shown
    assert asked(app.sessions_dir) == []


EFFECTS: dict[str, Press] = {
    "describe": dialog(Describe),
    "show_panel": show_panel,
    "panel": panel,
    "travel": travel,
    "live": live_again,
    "crosshair": moves_crosshair,
    "replay": replays,
    "compare": compare,
    "filter": words,
    "mouse": mouse,
    "quit": quits,
    "suspend": suspends,
    "export": exports,
    "help": dialog(Help),
    "why": dialog(WhyDialog),
    "attach": dialog(AttachDialog),
    "new_run": dialog(NewRunDialog),
    "note": dialog(NoteDialog),
    "rename": dialog(RenameDialog),
    "delete": dialog(DeleteDialog),
    "fork": dialog(ForkDialog),
    "shadow": dialog(ShadowDialog),
    "effect": dialog(EffectDialog),
    "switch": dialog(SwitchDialog),
    "pause": dialog(ResumeDialog),
    "command_palette": dialog(CommandPalette),
    "change_theme": theme,
    "zoom": zoom,
    "pan": pan,
    "focus_next": focus,
    "focus_previous": focus,
    "maximise": maximise,
    "checkpoint": computes_cka,
    "stop": not_live,
}


NEED_PARTS = ("zoom", "pan", "focus_next", "focus_previous", "maximise", "crosshair", "replay")
"""Actions on what a panel is made of: these are tried on a real panel."""


IN_ONE_APP = ("show_panel", "panel")
"""Actions whose keys are pressed one after another: each leaves the app as the next expects it."""


def tried_together() -> dict[str, list[tuple[Key, str]]]:
    """Each key by itself, or all keys of an action."""
    found: dict[str, list[tuple[Key, str]]] = {}
    for key in KEYS:
        for pressed in key.keys.split(","):
            name = key.name if key.name in IN_ONE_APP else f"{key.action}-{pressed}"
            found.setdefault(name, []).append((key, pressed))
    return found


@pytest.mark.parametrize("keys", tried_together().values(), ids=tried_together())
def test_a_key_does_what_the_table_says(keys: list[tuple[Key, str]], home: Path) -> None:
    first = keys[0][0]
    app = opened(home, (*first.where, "live")[0]) if first.name in NEED_PARTS else opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for key, pressed in keys:
            await go_to(app, pilot, key)
            await pilot.press(pressed)
            await pilot.pause()
            effect = EFFECTS[key.argument if key.name in ("steer", "edit") else key.name]
            await effect(app, pilot, key.argument)

    drive(app, script)


def test_z_gives_any_part_of_a_panel_the_whole_screen(home: Path) -> None:
    names = ("similarity", "cost")
    app = opened(home, *names)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for name in names:
            app.show_panel(name)
            await pilot.pause()
            for part in (each for each in app.panel.query(Part) if each.is_on_screen):
                next(each for each in part.query("*") if each.focusable).focus()
                await pilot.press("z")
                await pilot.pause()
                assert part.region[:] == (0, 2, 120, 37), part.border_title
                await pilot.press("z")

    drive(app, script)


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        (["space"], ("pause", {})),
        (["c", "enter"], ("checkpoint", {})),
        (["c", "down", "enter"], ("checkpoint", {"cka": True})),
        (["S", "down", "enter"], ("stop", {})),
    ],
)
def test_a_live_session_is_asked_through_its_mailbox_and_the_status_row_says_so(
    keys: list[str], command: tuple[str, dict[str, object]], live: Path
) -> None:
    app = opened(live)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await until(pilot, lambda: app.view.run.live)
        await pilot.press(*keys)
        await until(pilot, lambda: asked(live) == [command])
        await until(pilot, lambda: bool(app.waiting))
        assert app.waiting[0].endswith("…")

    drive(app, script)


def test_confirmations_do_nothing_when_the_first_line_is_taken(live: Path) -> None:
    app = opened(live)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await until(pilot, lambda: app.view.run.live)
        await pilot.press("S", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Choose) is False
        assert asked(live) == []

    drive(app, script)


@pytest.mark.parametrize("name", WHILE_REPLAYING)
def test_while_an_earlier_round_is_shown_the_run_cannot_be_steered(name: str, live: Path) -> None:
    app = opened(live)
    key = next(key for key in KEYS if (key.name, key.argument) == ("steer", name))

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await pilot.press("left_square_bracket", key.keys)
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert "You are viewing round" in [*app._notifications][-1].message
        assert asked(live) == []

    drive(app, script)


@pytest.mark.parametrize(
    ("words", "panel"), [("cka", "similarity"), ("who is behind", "clients"), ("flops", "cost")]
)
def test_the_palette_finds_a_panel_by_what_it_shows(words: str, panel: str, home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        found = [hit async for hit in Commands(app.screen).search(words)]
        title = next(key for key in KEYS if key.argument == panel).label
        assert any(title in str(hit.match_display) for hit in found)

    drive(app, script)


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("worst", "why"), ("worst", "Clients"), ("better", "Compare"), ("better", "gain"), ("explain", "why"),
        ("traffic", "Cost"), ("cost", "Cost"), ("eta", "Cost"), ("difference", "effect"), ("significant", "Compare"),
        ("confusion", "why"), ("copy", "mouse"), ("exit", "quit"), ("search", "filter"), ("dark", "theme"),
        ("light", "theme"), ("screenshot", "export"), ("branch", "fork"),
    ],
)  # fmt: skip
def test_help_and_palette_find_a_key_by_the_words_of_users(words: str, label: str, home: Path) -> None:
    key = next(key for key in KEYS if key.label == label)
    about = listing("live", "braille", words, 300).plain
    assert f"  {key.print} " in about and key.about in about
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        found = [hit async for hit in Commands(app.screen).search(words)]
        assert f"{label} ({key.print})" in [str(hit.match_display) for hit in found]

    drive(app, script)


def test_the_palette_shows_brackets_as_they_are(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        [found] = [hit async for hit in Commands(app.screen).search("show the round under")]
        assert "as [ and ] do." in Content.from_markup(found.help).plain
        listed = [hit async for hit in Commands(app.screen).discover()]
        assert "round back ([)" in [Content.from_markup(hit.display).plain for hit in listed]

    drive(app, script)


def test_a_number_in_the_palette_shows_this_round(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for words, then in (("4", 4), ("round 7", 7), ("goto 99", ROUNDS)):
            first = max([hit async for hit in Commands(app.screen).search(words)])
            await first.command()
            assert app.view.shown == then

    drive(app, script)


def test_no_key_is_a_multiplexers_prefix_and_none_is_given_twice() -> None:
    keys = [pressed for key in KEYS for pressed in key.keys.split(",")]
    assert not {"ctrl+a", "ctrl+b"} & set(keys)
    assert len(keys) == len(set(keys))
    assert [binding.key for binding in bindings()] == [key.keys for key in KEYS]
