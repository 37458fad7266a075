"""Forms: what is typed goes where it is meant to, and what a form will set going is said before it does."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from htfl_sim import catalog
from htfl_sim.catalog import MethodChoice, Parameter
from htfl_sim.configuring import Choices
from htfl_sim.errors import ConfigError, DataError
from simulator.config import Config
from tests import sessions
from tests.app.driving import drive, opened, shown, typed_at_once, until
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs.base import Reflowed
from tui.app.dialogs.form import VALUE_CELLS, Field, Form
from tui.app.dialogs.pages import Help
from tui.app.dialogs.run_forms import (
    ForkDialog,
    ForkWish,
    NewRunDialog,
    ResumeDialog,
    ResumeWish,
    SwitchDialog,
    SwitchWish,
)
from tui.app.runs import LaunchOptions
from tui.common.cells import cell_count

CHOICES = [
    MethodChoice("fedgh", "FedGH", "…", None, (Parameter("server_epochs", "1", ""),)),
    MethodChoice(
        "fedlora", "FedLoRA", "…", None, (Parameter("mu", "0.9", ""), Parameter("hidden", "60", ""))
    ),
]
KNOWN = [("fedgh", "FedGH"), ("fedssa", "FedSSA"), ("moon", "MOON")]
FEDLORA = Config.read({"method": {"name": "fedlora"}}).to_json()


def part(app: HtflApp, name: str) -> str:
    line = app.screen.query_one(f"#{name}", Static)
    return str(line.content) if line.display else ""


def field(app: HtflApp, name: str) -> Input:
    return app.screen.query_one(f"#field-{name}", Input)


def listed(app: HtflApp) -> list[str]:
    return [str(option.id) for option in app.screen.query_one("#known", OptionList).options]


async def write(pilot: Pilot[str], name: str, *keys: str) -> str:
    """Type into a field of the form. Returns its text."""
    field(pilot.app, name).focus()  # type: ignore[arg-type]
    await pilot.pause()
    await pilot.press(*keys)
    return field(pilot.app, name).value  # type: ignore[arg-type]


def in_form(home: Path, form: Any, script: Callable[[HtflApp, Pilot[str]], Any], **about: Any) -> list[Any]:
    """Run a script with a form open. Returns what the form returned. A function receives the run first."""
    app, given = opened(home), list[Any]()

    async def run(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.ask(form(app.view.run) if callable(form) else form, given.append)
        await until(pilot, lambda: bool(app.screen.query("#fault")))
        await pilot.pause()
        await script(app, pilot)

    drive(app, run, **about)
    return given


@pytest.mark.long
def test_keys_typed_at_once_go_each_where_the_one_before_has_led(home: Path) -> None:
    """What is typed into a filled-in line replaces it, and a method is changed before its settings are typed."""
    forms: list[tuple[Any, str, Any]] = [
        (ResumeDialog, "2 4 enter", ResumeWish(24, False)),
        (
            lambda run: ForkDialog(run, 7, home, KNOWN),
            "tab f e d s s a tab tab 2 8 tab s e e d = 3 enter",
            ForkWish(home / "main-at7", 7, "fedssa", ("rounds=28", "seed=3"), "show"),
        ),
        (
            SwitchDialog(FEDLORA, CHOICES, "…"),
            "up tab 3 tab r o u n d s = 9 9 enter",
            SwitchWish("fedgh", ("method.server_epochs=3", "rounds=99")),
        ),
    ]
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for form, keys, wish in forms:
            given = list[Any]()
            app.ask(form(app.view.run) if callable(form) else form, given.append)
            typed_at_once(app, keys)
            await until(pilot, lambda given=given: bool(given))  # type: ignore[misc]
            assert given == [wish]
        typed_at_once(app, "space 2 4")  # the first opens a form
        await until(pilot, lambda: bool(app.screen.query("#field-rounds")))
        await until(pilot, lambda: field(app, "rounds").value == "24")
        assert app.panel.id == "live"
        await pilot.press("x", "5")
        assert field(app, "rounds").value == "245"  # a number has no letters

    drive(app, script)


@pytest.mark.long
def test_a_switch_asks_for_what_was_changed_and_for_nothing_else(home: Path) -> None:
    wishes = {
        # The present method is highlighted, and its parameters hold what is in force.
        "tab tab 7 enter": SwitchWish(None, ("method.hidden=7",)),
        "tab 0 full_stop 5 enter": SwitchWish(None, ("method.mu=0.5",)),
        "up enter": SwitchWish("fedgh", ()),
    }
    for keys, wish in wishes.items():

        async def script(app: HtflApp, pilot: Pilot[str], keys: str = keys) -> None:
            await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
            await pilot.pause()
            for key in keys.split():
                await pilot.press(key)
                await pilot.pause()
            await until(pilot, lambda: len(app.screen_stack) == 1)

        assert in_form(home, SwitchDialog(FEDLORA, CHOICES, "…"), script) == [wish]


def test_a_switch_that_cannot_be_is_refused_in_the_dialog(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
        await pilot.press("enter")
        await until(pilot, lambda: "nothing would change" in part(app, "fault"))
        field(app, "other").value = "training.lr=fast"
        await pilot.press("enter")
        await until(pilot, lambda: "training.lr" in part(app, "fault"))

    in_form(home, SwitchDialog(FEDLORA, CHOICES, "…"), script)


class Slow(Form[str]):
    """Thinks until it is told what to answer."""

    def __init__(self) -> None:
        super().__init__("Slow", [Field("x")])
        self.answered = False

    def accept(self, values: dict[str, str]) -> str:
        while not self.answered:
            time.sleep(0.01)
        return "done"


def test_an_answer_that_takes_over_half_a_second_is_said_to_be_worked_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = Slow()
    timers: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(form, "set_timer", lambda *timer: timers.append(timer))

    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        title = app.screen.query_one(".title", Static)
        await pilot.press("enter")
        assert str(title.content) == "Slow"
        [(seconds, tell)] = timers
        assert seconds == 0.5
        tell()
        assert str(title.content) == "Slow · checking…"
        form.answered = True
        await until(pilot, lambda: len(app.screen_stack) == 1)

    assert in_form(home, form, script) == ["done"]


NOTHING = dict.fromkeys(("method", "seed", "rounds", "set"), "")


def test_a_fork_says_what_is_computed_again_and_how_it_ends(home: Path) -> None:
    run = read(home / "main")
    assert run.checkpoints == (5, 10, 12)
    said = {round: ForkDialog(run, round, home, KNOWN).remark(NOTHING) for round in (3, 6, 9, 10)}
    assert said[9].startswith("4 rounds must be computed again, about 10 s. Without changes")  # of 2.5 s each
    assert said[6].startswith("1 round must be computed again, about 2 s.")
    assert said[3].startswith("3 rounds must be computed again, about 8 s.")
    assert said[10] == "Without changes, the fork repeats its parent bit for bit."


def test_a_fork_from_before_a_switch_is_not_said_to_end_as_its_parent(tmp_path: Path) -> None:
    """The parent went on with FedSSA after round 6, which is no part of a fork of an earlier round."""
    sessions.make(tmp_path / "main", rounds=8, clients=4, switch=(6, "fedssa"), checkpoint_every=1)
    said = {
        each: ForkDialog(read(tmp_path / "main"), each, tmp_path, KNOWN).remark(NOTHING) for each in (6, 7)
    }
    assert said[6] == "Without changes, the fork continues with fedlora, which its parent used until round 6."
    assert said[7] == "Without changes, the fork repeats its parent bit for bit."


def test_a_fork_that_cannot_be_is_refused(home: Path) -> None:
    form = ForkDialog(read(home / "main"), 7, home, [("fedgh", "FedGH")])
    usual = {"name": "new", "method": "", "seed": "", "rounds": "", "set": "", "then": "show"}
    faults = {
        ("name", "main"): "exists",
        ("rounds", "7"): "The fork starts after round 7",
        ("seed", "-1"): "seed: '-1' is not a whole number",
        ("set", "'open"): "No closing quotation",
        ("method", "fedhg"): "fedgh",
        ("then", "x"): "then: one of show, run, stay",
    }
    for (name, value), said in faults.items():
        with pytest.raises(ConfigError, match=said):
            form.accept(usual | {name: value})
    assert form.accept(usual) == ForkWish(home / "new", 7, None, (), "show")


def test_a_fork_of_a_studys_session_has_a_name_that_a_session_can_have(tmp_path: Path) -> None:
    sessions.make(tmp_path / "t3" / "fedgh-s0", rounds=2, clients=2)
    (tmp_path / "t3" / "points.json").write_text("[]")
    form = ForkDialog(read(tmp_path / "t3" / "fedgh-s0"), 1, tmp_path, KNOWN)
    given = NOTHING | {"name": form._fields["name"].value, "then": "show"}
    assert form.accept(given).folder == tmp_path / "t3-fedgh-s0-at1"


def test_a_fork_has_as_many_rounds_as_its_parent_had_then(home: Path) -> None:
    """The parent was to end with round 12 and has been given 30 since."""
    run = read(home / "main")
    more = {"from_round": 13, "method": run.history[0]["method"], "settings": {"rounds": 30}}
    run = replace(run, history=(*run.history, more), progress={**run.progress, "rounds": 30})
    assert run.rounds == 30
    assert ForkDialog(run, 5, home, KNOWN)._fields["rounds"].placeholder == "unchanged: 12"


def test_going_on_says_which_rounds_are_computed_and_how_long_that_takes(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=12, of=20, clients=4, checkpoint_every=10, state="interrupted")
    form = ResumeDialog(read(tmp_path / "main"))
    assert form.remark({"rounds": "20"}) == "Computes rounds 13 to 20, about 20 s."
    assert form.remark({"rounds": "30"}) == "Computes rounds 13 to 30, about 45 s."
    assert form.remark({"rounds": "12"}) == ""
    for values in ({"rounds": "12", "inexact": "no"}, {"rounds": "13", "inexact": "maybe"}):
        with pytest.raises(ConfigError):
            form.accept(values)


def test_a_fork_that_is_made_is_shown_if_that_was_asked_for_and_nobody_looks_at_anything_else(
    home: Path,
) -> None:
    app = opened(home)

    def forked(then: str) -> str:
        app.runs.forked(home / "main", ForkWish(home / "fork", 3, None, (), then))
        return app.view.run.name

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        assert forked("stay") == "main"
        await pilot.press("question_mark")
        assert forked("show") == "main"
        assert "Created fork fork." in [*app._notifications][-1].message
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert forked("show") == "fork"

    drive(app, script)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The methods answer once something stands in it."""
    told: list[bool] = []

    def slow(config: object) -> Sequence[MethodChoice]:
        while not told:
            time.sleep(0.01)
        return CHOICES

    monkeypatch.setattr("tui.app.host.method_choices", slow)
    return told


@pytest.mark.long
def test_keys_typed_while_the_methods_are_asked_are_for_the_form_that_lists_them(
    home: Path, answered: list[bool]
) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        typed_at_once(app, "f tab f e d g h tab tab 2 8")
        await until(pilot, lambda: app.waiting == ["checking the methods…"])
        await asyncio.sleep(0.1)
        answered.append(True)
        await until(pilot, lambda: bool(app.screen.query("#field-rounds")))
        await until(pilot, lambda: field(app, "rounds").value == "28")
        assert field(app, "method").value == "fedgh"

    drive(app, script)


@pytest.mark.long
def test_escape_gives_up_a_form_that_waits_for_the_methods(home: Path, answered: list[bool]) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await pilot.press("f", "escape", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help))
        assert app.waiting == ["checking the methods…"]
        answered.append(True)
        await until(pilot, lambda: app.waiting == [])
        await asyncio.sleep(0.1)
        assert isinstance(app.screen, Help)
        for key, dialog in (("f", ForkDialog), ("m", SwitchDialog)):
            await pilot.press("escape", key)  # they are known now, and it opens at once
            await until(pilot, lambda dialog=dialog: isinstance(app.screen, dialog))  # type: ignore[misc]

    drive(app, script)


@pytest.mark.long
def test_the_name_given_on_the_command_line_is_offered_while_it_is_free(home: Path) -> None:
    app = opened(home)
    app.runs._options = LaunchOptions(home, home / "data", name="other")

    async def script(pilot: Pilot[str]) -> None:
        for filled_in in ("other", ""):
            await pilot.press("n")
            await until(pilot, lambda: bool(app.screen.query("#field-name")))
            assert field(app, "name").value == filled_in
            await pilot.press("escape")
            (home / "other").mkdir(exist_ok=True)

    drive(app, script)


def new_run(home: Path, **choices: Any) -> NewRunDialog:
    return NewRunDialog(home, home / "data", Choices(**choices))


def test_a_new_run_that_cannot_be_is_refused(home: Path) -> None:
    form = new_run(home, preset="quickstart")
    usual = {name: each.value for name, each in form._fields.items()}
    faults = {
        ("rounds", "none"): "rounds: 'none' is not a whole number",
        ("set", "epochs"): "'epochs' is not key=value",
        ("set", "training.epoch=2"): "training.epochs",
        ("method", "fedloar"): "fedlora",
        ("name", "../out"): "not a session name",
        ("name", "main"): "exists",
        ("dataset", "cifar10"): r"Press ctrl\+f to download it",
    }
    for (name, value), said in faults.items():
        with pytest.raises((ConfigError, DataError), match=said):
            form.accept(usual | {name: value})
    wish = form.accept(usual | {"seed": "0", "name": "mine", "set": "training.lr=0.1"})
    assert wish.folder == home / "mine" and wish.choices.seed == 0
    assert wish.choices.assignments == ["training.lr=0.1"]


@pytest.mark.long
def test_a_missing_data_set_is_named_replaced_by_digits_or_downloaded_with_its_progress(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Callable[[int, int | None], None]] = []
    there: list[bool] = []

    def fetch(name: str, data: Path, progress: Callable[[int, int | None], None]) -> None:
        told.append(progress)
        while not there:
            time.sleep(0.01)
        raise DataError("no network.")

    monkeypatch.setattr(catalog, "fetch_dataset", fetch)

    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        assert "Missing: cifar10" in part(app, "remark")
        await pilot.press("ctrl+f")
        assert part(app, "remark") == "downloading cifar10…"  # before the first byte
        await until(pilot, lambda: bool(told))
        await asyncio.to_thread(told[0], 1 << 20, 2 << 20)
        assert part(app, "remark") == "downloading cifar10: 1.0 MiB of 2.0 MiB"
        there.append(True)
        await until(pilot, lambda: part(app, "fault") == "no network.")
        assert "Missing: cifar10" in part(app, "remark")
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert "Missing" not in part(app, "remark") and "digits" in part(app, "remark")
        there.clear()
        await pilot.press("ctrl+f")
        assert part(app, "remark") == "checking digits…"  # which is here
        await pilot.press("escape")  # the app goes on without the dialog
        there.append(True)
        await app.workers.wait_for_complete()
        assert len(app.screen_stack) == 1 and app.is_running

    in_form(home, new_run(home, preset="fedlora_htm5"), script)


@pytest.mark.long
def test_a_new_run_on_own_data_says_what_it_would_read(home: Path) -> None:
    (home / "t.csv").write_text("n,x,y\n1,5,a\n2,7,b\n3,9,a\n")

    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        field(app, "dataset").value = str(home / "t.csv")
        await until(pilot, lambda: "nothing says which column holds the classes" in part(app, "remark"))
        field(app, "set").value = "data.target=y"
        await until(pilot, lambda: "Read: 3 samples, 2 classes, 2 features" in part(app, "remark"))
        assert "Warning: Column 'n' numbers the rows (1, 2, …)" in part(app, "remark")

    in_form(home, new_run(home), script)


@pytest.mark.long
def test_an_unknown_value_is_said_while_it_is_typed_with_the_nearest(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        await pilot.press(*"quickstrt")
        assert "preset: 'quickstrt' is not in the list. Did you mean quickstart" in part(app, "fault")
        assert listed(app)[0] == "quickstart"
        field(app, "preset").value = ""
        await write(pilot, "method", *"feds")  # as fedssa begins
        assert part(app, "fault") == "" and "fedssa" in listed(app)
        await pilot.press("a")
        assert part(app, "fault").startswith("method: 'fedsa' is not in the list. Did you mean fedssa or ")
        assert listed(app)[0] == "fedssa"
        await pilot.press("down")
        assert field(app, "method").value == "fedssa" and part(app, "fault") == ""
        await pilot.press("backspace", "tab")  # left unfinished
        assert "'fedss' is not in the list" in part(app, "fault")

    in_form(home, new_run(home), script, size=(80, 24))


@pytest.mark.long
def test_long_names_of_presets_cut_no_others_and_show_where_they_differ(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        known = app.screen.query_one("#known", OptionList)
        assert known.option_count > 400
        for option in known.options:
            assert isinstance(option.prompt, Content) and option.id
            if len(option.id) <= VALUE_CELLS:
                assert option.prompt.cell_length <= known.scrollable_content_region.width
        await pilot.resize_terminal(80, 24)
        await pilot.press(*"fedlora_htm5")
        await pilot.pause()
        room = known.scrollable_content_region.width
        texts = [str(option.prompt) for option in known.options]
        assert any("N=50 C=20%" in each for each in texts)
        assert {each[-12:].strip(" ,") for each in texts} >= {"N=10 C=100%", "N=50 C=20%", "N=100 C=10%"}
        assert all(cell_count(each) <= room for each in texts if len(each.split()[0]) <= VALUE_CELLS)

    in_form(home, new_run(home), script)


@pytest.mark.long
def test_arrows_choose_and_settings_are_completed_word_by_word(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        assert await write(pilot, "method", *"fed", "down", "down") == "fedssa"
        assert await write(pilot, "method", "down") == "fedgh"  # after the last, the first
        field(app, "method").value = ""
        assert await write(pilot, "set", *"tlr", "down") == "training.lr="
        assert await write(pilot, "set", "end", *"0.1", "space", *"mu") == "training.lr=0.1 mu"
        assert listed(app)[0] == "method.mu="  # of fedlora, as no method is typed
        assert not any(name.startswith("data.") for name in listed(app))  # a fork keeps its data
        assert await write(pilot, "set", "down") == "training.lr=0.1 method.mu="
        await pilot.press("end", *"0.7")
        assert listed(app) == []  # a value is no name

    in_form(home, lambda run: ForkDialog(run, 7, home, KNOWN), script)


@pytest.mark.long
def test_settings_of_a_new_run_are_those_of_its_method(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        await write(pilot, "method", *"fedgh")
        await write(pilot, "set", *"mse")
        assert "method.server_epochs=" in listed(app)
        await write(pilot, "set", *["backspace"] * 3, *"dalpha")
        assert listed(app)[0] == "data.alpha="

    in_form(home, new_run(home), script, size=(80, 24))


@pytest.mark.long
def test_words_narrow_the_help_to_the_keys_that_fit(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[str]) -> None:
        help = app.screen
        assert isinstance(help, Help)
        await pilot.press(*"mouse")
        page = help.query_one(Reflowed)
        lines = page.render().plain.splitlines()
        assert [line.split()[0] for line in lines if line] == ["App", "%"]
        await pilot.press(*"xyz")
        assert page.render().plain == "No key fits these words."

    in_form(home, lambda _: Help("live"), script)
