"""Typed commands: what each does, how tab completes it, and what an error says to do."""

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Store
from htfl_sim.compatibility import MethodChoice
from tests import sessions
from tests.app.driving import blanks, drive, until
from tui.app.app import HtflApp
from tui.app.dialogs.choose import Choose
from tui.app.dialogs.describe import Describe
from tui.app.dialogs.fork import ForkDialog
from tui.app.dialogs.help import Help
from tui.app.dialogs.new_run import NewRunDialog
from tui.app.launch_options import LaunchOptions
from tui.app.typed import COMMANDS, named
from tui.app.widgets.command_line import CommandLine

PAGE = Path(__file__).parents[2] / "docs" / "terminal.md"
KEYS = {" ": "space", "%": "percent_sign", "-": "minus", "+": "plus", ".": "full_stop", "=": "equals_sign"}
METHODS = [
    MethodChoice("fedlora", "FedLoRA", "…", None, ()),
    MethodChoice("fedssa", "FedSSA", "…", None, ()),
    MethodChoice("fedavg", "FedAvg", "…", "the models differ.", ()),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tui.app.compatibility.method_choices", lambda config: METHODS)
    for name in ("main", "other"):
        sessions.make(tmp_path / name, rounds=12, clients=4)
    return tmp_path


async def typed(pilot: Pilot[Any], *parts: str) -> None:
    """Open the line and enter texts, or single keys as <tab>. The first letter of a text is typed, the rest pasted."""
    await pilot.press("colon")
    for part in parts:
        key, rest = (part[1:-1], "") if part.startswith("<") else (KEYS.get(part[0], part[0]), part[1:])
        await pilot.press(key)
        if rest:
            pilot.app.query_one(CommandLine).line.insert_text_at_cursor(rest)
            await pilot.pause()
    await pilot.pause()


def line(app: HtflApp) -> str:
    return app.query_one(CommandLine).line.value


def offered(app: HtflApp) -> str:
    return str(app.query_one("#completions", Static).content)


def in_app(home: Path, script: Any) -> None:
    app = HtflApp(LaunchOptions(home, home / "data"), home / "main", panels=blanks())

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        await pilot.pause()
        await script(app, pilot)

    drive(app, run)


def test_a_long_error_wraps_and_is_gone_with_the_next_letter(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.resize_terminal(60, 16)
        await typed(pilot, "a-command-that-there-is-not", "<enter>")
        assert "Press tab for the list of commands." in offered(app)
        shown = app.query_one("#completions", Static)
        assert shown.region.height == 2
        await pilot.press("x")
        await pilot.pause()
        assert shown.region.height == 1

    in_app(home, script)


def test_a_line_is_carried_out_and_leaves(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        for words, holds in (
            ("goto 4", lambda: app.view.shown == 4),
            ("goto +3", lambda: app.view.shown == 7),
            ("goto -2", lambda: app.view.shown == 5),
            ("goto live", lambda: not app.view.replaying),
            ("client 2", lambda: app.view.client == 2),
            ("pin 1 3", lambda: app.view.pinned == {1, 3}),
            ("unpin 1", lambda: app.view.pinned == {3}),
            ("unpin", lambda: app.view.pinned == set()),
            ("filter cnn1 x", lambda: app.view.filter == "cnn1 x"),
            ("undo", lambda: app.view.filter == ""),
            ("set sort change", lambda: app.view.sort == ("change", True)),
            ("set theme light", lambda: app.theme == "textual-light"),
            ("set theme nord", lambda: app.theme == "nord"),
            ("show clients", lambda: app.panel.id == "clients"),
            ("mark other", lambda: app.view.marked == (home / "other",)),
            ("compare", lambda: app.panel.id == "compare"),
            ("open other", lambda: app.view.run.folder == home / "other" and app.panel.id == "live"),
        ):
            await typed(pilot, words, "<enter>")
            await until(pilot, holds)
            assert not app.query_one(CommandLine).display, words
            assert app.focused is not app.query_one(CommandLine).line

    in_app(home, script)


@pytest.mark.parametrize(
    ("words", "kind"),
    [("fork", ForkDialog), ("new", NewRunDialog), ("help", Help), ("export", Choose), ("describe", Describe)],
)
def test_a_command_without_arguments_is_the_action_of_its_key(words: str, kind: type, home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, words, "<enter>")
        await until(pilot, lambda: isinstance(app.screen, kind))

    in_app(home, script)


def test_q_leaves(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, "q", "<enter>")
        await until(pilot, lambda: app.return_value == "leave")

    in_app(home, script)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("pause", ("pause", {})),
        ("checkpoint", ("checkpoint", {})),
        ("checkpoint cka", ("checkpoint", {"cka": True})),
        ("switch fedssa", ("switch", {"method": "fedssa", "set": []})),
        ("switch training.lr=0.5", ("switch", {"method": None, "set": ["training.lr=0.5"]})),
        ("until 80%", ("switch", {"method": None, "set": ["until=0.8"]})),
    ],
)
def test_a_live_session_is_asked_through_its_mailbox(
    words: str, command: tuple[str, dict[str, object]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []
    monkeypatch.setattr("htfl_sim.configuring.check_switch", lambda *given: checked.append(given[1:]))

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.live)
        await typed(pilot, words, "<enter>")
        await until(pilot, lambda: bool(checkpoints.pending(home / "main")))
        assert [(each.kind, each.arguments) for each in checkpoints.pending(home / "main")] == [command]
        assert checked == [tuple(command[1].values())] * (command[0] == "switch")

    with Store.open(home / "main") as store:
        store.heartbeat("running", round=12, rounds=40, phase="train", done=1, clients=4)
        in_app(home, script)
        store.heartbeat("stopped")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("swich", "No command is named 'swich'. Did you mean 'switch'?"),
        ("xyz", "Press tab for the list of commands."),
        ("s", "'s' may be show or set or stop or switch. Type more letters."),
        ("goto 13", "No round is '13'. Type 1 to 12, a step such as -5, or live."),
        ("goto x", "No round is 'x'."),
        ("goto", "Type one round after the command. Tab completes it."),
        ("pin 4", "No client is '4'. Type numbers from 0 to 3."),
        ("pin", "such as `pin 3 5`"),
        ("set colour x", "No setting is named 'colour'. Choose one of theme, sort."),
        ("set theme nrod", "No theme is named 'nrod'. Did you mean 'nord'?"),
        ("show sesions", "Did you mean 'sessions'?"),
        ("open othr", "Did you mean 'other'?"),
        ("until much", "'much' is no accuracy. Type 80%, 0.8, or off."),
        ("until 180%", "is no accuracy"),
        ("switch fedssa lr", "'lr' is not key=value."),
        ("checkpoint now", "takes no argument but cka"),
        ("quit now", "'now' is too much"),
    ],
)
def test_an_error_says_what_to_type_and_the_line_stays(words: str, says: str, home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, words, "<enter>")
        assert says in offered(app)
        assert app.query_one(CommandLine).display
        assert line(app) == words
        await pilot.press("escape")
        assert not app.query_one(CommandLine).display

    in_app(home, script)


def test_a_method_that_the_models_cannot_run_is_refused_with_the_reason(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app._choices.known(app.view.run.config)
        await until(pilot, lambda: bool(app._choices.known(app.view.run.config)))
        await typed(pilot, "switch ")
        assert offered(app) == "fedlora FedLoRA  fedssa"
        await pilot.press("f", "e", "d", "a", "v", "g", "enter")
        await pilot.pause()
        assert "The models cannot run fedavg: the models differ." in offered(app)

    in_app(home, script)


@pytest.mark.parametrize(
    ("parts", "then"),
    [
        (["sw", "<tab>"], "switch "),  # one begins with it
        (["got", "<tab>", "7"], "goto 7"),
        (["op", "<tab>", "<tab>"], "open main"),  # several: one after another
        (["op", "<tab>", "<tab>", "<tab>"], "open other"),
        (["open ", "<shift+tab>"], "open other"),
        (["open ", "<tab>", "<tab>", "<tab>"], "open main"),
        (["set the", "<tab>", "nor", "<tab>"], "set theme nord "),
        (["pin 1 3", "<tab>"], "pin 1 3 "),
        (["filter c1", "<tab>"], "filter cnn1"),  # spread letters
        (["show ", "<tab>"], "show live"),
        (["nothing ", "<tab>"], "nothing "),
    ],
)
def test_tab_completes(parts: list[str], then: str, home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await typed(pilot, *parts)
        assert line(app) == then

    in_app(home, script)


def test_up_and_down_show_earlier_lines(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        for words in ("goto 3", "goto 4", "goto 4"):
            await typed(pilot, words, "<enter>")
        await typed(pilot)
        for key, then in (
            ("up", "goto 4"),
            ("up", "goto 3"),
            ("up", "goto 3"),
            ("down", "goto 4"),
            ("down", ""),
        ):
            await pilot.press(key)
            assert line(app) == then, key

    in_app(home, script)


def test_the_page_lists_every_command() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Typed commands")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z]+)", section, re.MULTILINE)
    assert listed == [each.name for each in COMMANDS]


@pytest.mark.parametrize(("typed", "name"), [("q", "quit"), ("g", "goto"), ("pin", "pin"), ("sw", "switch")])
def test_the_beginning_of_one_name_is_enough(typed: str, name: str) -> None:
    assert named(typed).name == name
