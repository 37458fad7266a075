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
from tests.app.driving import Blank, driven, method_choice, notices, opened, shown, until
from tui.app import app as module
from tui.app.app import HtflApp
from tui.app.dialogs.pages import Describe, EffectDialog, Help, WhyDialog, listing
from tui.app.dialogs.run_forms import ForkDialog, NewRunDialog, ResumeDialog, ShadowDialog, SwitchDialog
from tui.app.dialogs.upkeep import AttachDialog, DeleteDialog, NoteDialog, RenameDialog
from tui.app.keys import KEYS, WHILE_REPLAYING, Commands, Key, bindings
from tui.app.panels.base import Part
from tui.app.terminal import CANNOT
from tui.app.widgets import LineChart

Press = Callable[[HtflApp, Pilot[str], str], Awaitable[None]]
ROUNDS = 12


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of sessions is the working folder, and the methods are known at once."""
    monkeypatch.chdir(home)
    fedlora = method_choice("fedlora", "FedLoRA", "…", None, ())
    monkeypatch.setattr("tui.app.host.method_choices", lambda config: [fedlora])


@pytest.fixture
def live(home: Path) -> Iterator[Path]:
    """The same session with an owner, who answers nothing."""
    with Store.open(home / "main") as store:
        store.heartbeat("running", round=ROUNDS, rounds=40, phase="train", done=1, clients=4)
        yield home
        store.heartbeat("stopped")


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
    (cursor,) = {chart.figure.cursor for chart in app.panel.query(LineChart)}
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
    assert "Choose a round first" in notices(app)[-1]
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
    assert notices(app)[-1] == CANNOT  # tests have no terminal


async def quits(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    assert app.return_value == module.LEAVE


async def exports(app: HtflApp, pilot: Pilot[str], argument: str) -> None:
    csv, svg = Path("main-live.csv"), Path("main-live.svg")
    await pilot.press("enter")
    await until(pilot, csv.exists)
    lines = csv.read_text().splitlines()
    assert (len(lines), lines[0]) == (1 + ROUNDS, "round,mean")
    await pilot.press("w", "down", "enter")
    await until(pilot, svg.exists)
    assert svg.read_text().startswith("<svg")


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
    seen = list[tuple[float, float]]()
    await pilot.press("plus", "plus")
    for key in ("shift+left", "shift+right", "shift+left" if argument == "-0.25" else "shift+right"):
        await pilot.press(key)
        seen.append(x_range(app))
    assert seen[0][0] < seen[1][0]
    assert seen[2] == pytest.approx(seen[0] if argument == "-0.25" else seen[1])


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
    assert "finished" in notices(app)[-1]
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


TOGETHER = ("show_panel", "panel")
"""Actions whose keys are pressed one after another, as those that open a dialog: each leaves the app as it was."""


def tried_together() -> dict[str, list[tuple[Key, str]]]:
    """Each key by itself, or all keys of a kind."""
    found: dict[str, list[tuple[Key, str]]] = {}
    for key in KEYS:
        opens = effect_of(key).__qualname__.startswith("dialog.")
        for pressed in key.keys.split(","):
            name = "dialogs" if opens else key.name if key.name in TOGETHER else f"{key.action}-{pressed}"
            found.setdefault(name, []).append((key, pressed))
    return found


def effect_of(key: Key) -> Press:
    return EFFECTS[key.argument if key.name in ("steer", "edit") else key.name]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(keys, id=name, marks=[] if name in ("dialogs", *TOGETHER) else pytest.mark.long)
        for name, keys in tried_together().items()
    ],
)
async def test_a_key_does_what_the_table_says(keys: list[tuple[Key, str]], home: Path) -> None:
    first = keys[0][0]
    app = opened(home, "main", (*first.where, "live")[0]) if first.name in NEED_PARTS else opened(home)
    async with driven(app) as pilot:
        await shown(app, pilot)
        for key, pressed in keys:
            await go_to(app, pilot, key)
            await pilot.press(pressed)
            await pilot.pause()
            await effect_of(key)(app, pilot, key.argument)


@pytest.mark.long
async def test_a_live_session_is_asked_through_its_mailbox_and_the_status_row_says_so(live: Path) -> None:
    app = opened(live)
    commands: dict[str, tuple[str, dict[str, object]]] = {
        "S down enter": ("stop", {}),
        "c enter": ("checkpoint", {}),
        "c down enter": ("checkpoint", {"cka": True}),
        "space": ("pause", {}),
    }
    async with driven(app) as pilot:
        await shown(app, pilot)
        await until(pilot, lambda: app.view.run.live)
        await pilot.press("S", "enter")  # the first line of a confirmation changes nothing
        await pilot.pause()
        assert len(app.screen_stack) == 1 and asked(live) == []
        for number, (keys, command) in enumerate(commands.items(), 1):
            await pilot.press(*keys.split())
            await until(pilot, lambda: len(asked(live)) == number)  # noqa: B023 - awaited here
            assert command in asked(live)
            await until(pilot, lambda: len(app.waiting) == number)  # noqa: B023 - awaited here
        assert all(each.endswith("…") for each in app.waiting)


async def test_while_an_earlier_round_is_shown_the_run_cannot_be_steered(live: Path) -> None:
    app = opened(live)
    async with driven(app) as pilot:
        await shown(app, pilot)
        await pilot.press("left_square_bracket")
        for name in WHILE_REPLAYING:
            app._notifications.clear()
            await pilot.press(next(key for key in KEYS if key.action == f"steer('{name}')").keys)
            await pilot.pause()
            assert len(app.screen_stack) == 1
            assert "You are viewing round" in notices(app)[-1]
        assert asked(live) == []


FOUND_BY = {
    "worst": "why Clients", "better": "Compare gain", "explain": "why", "traffic": "Cost", "cost": "Cost",
    "eta": "Cost", "difference": "effect", "significant": "Compare", "confusion": "why", "copy": "mouse",
    "exit": "quit", "search": "filter", "dark": "theme", "light": "theme", "screenshot": "export", "branch": "fork",
    "cka": "Similarity", "who is behind": "Clients", "flops": "Cost",
}  # fmt: skip


async def test_help_and_palette_find_a_key_by_the_words_of_users(home: Path) -> None:
    app, faults = opened(home), []
    async with driven(app):
        for words, labels in FOUND_BY.items():
            about = listing("live", "braille", words, 300).plain
            found = [str(hit.match_display) async for hit in Commands(app.screen).search(words)]
            for key in (key for key in KEYS if key.label in labels.split()):
                if key.about not in about or f"{key.label} ({key.print})" not in found:
                    faults.append((words, key.label))
    assert faults == []


def test_words_narrow_the_help_and_long_sentences_go_on_under_themselves() -> None:
    assert listing("live", "braille", "pin drawn", 60).plain.splitlines() == [
        "In Live",
        "  p           Pin the client under the cursor: its line is",
        "              drawn on top and named.",
    ]
    assert listing("live", "braille", "mousexyz", 80).plain == "No key fits these words."


async def test_the_palette_shows_brackets_as_they_are_and_goes_to_a_round(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
        await shown(app, pilot)
        [found] = [hit async for hit in Commands(app.screen).search("show the round under")]
        assert "as [ and ] do." in Content.from_markup(found.help).plain
        listed = [hit async for hit in Commands(app.screen).discover()]
        assert "round back ([)" in [Content.from_markup(hit.display).plain for hit in listed]
        for words, then in (("4", 4), ("round 7", 7), ("goto 99", ROUNDS)):
            first = max([hit async for hit in Commands(app.screen).search(words)])
            await first.command()
            assert app.view.shown == then


def test_no_key_is_a_multiplexers_prefix_and_none_is_given_twice() -> None:
    keys = [pressed for key in KEYS for pressed in key.keys.split(",")]
    assert not {"ctrl+a", "ctrl+b"} & set(keys)
    assert len(keys) == len(set(keys))
    assert [binding.key for binding in bindings()] == [key.keys for key in KEYS]
