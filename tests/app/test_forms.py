"""Forms: what is typed goes where it is meant to, and what a form will set going is said before it does."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from htfl_sim.compatibility import MethodChoice, Parameter
from htfl_sim.configuring import Choices
from simulator.config import Config
from tests import sessions
from tests.app.driving import blanks, drive, typed_at_once, until
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs.form import VALUE_CELLS, Field, Form
from tui.app.dialogs.pages import Help, listing
from tui.app.dialogs.run_forms import (
    ForkDialog,
    ForkWish,
    NewRunDialog,
    ResumeDialog,
    ResumeWish,
    SwitchDialog,
    SwitchWish,
)
from tui.app.messages import RunRead
from tui.app.runs import LaunchOptions
from tui.common.cells import cell_count

CHOICES = [
    MethodChoice("fedgh", "FedGH", "…", None, (Parameter("server_epochs", "1", ""),)),
    MethodChoice("fedlora", "FedLoRA", "…", None, (Parameter("mu", "0.9", ""),)),
]
KNOWN = [("fedgh", "FedGH"), ("fedssa", "FedSSA"), ("moon", "MOON")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    return tmp_path


def opened(home: Path, **options: str) -> HtflApp:
    return HtflApp(LaunchOptions(home, home / "data", **options), home / "main", panels=blanks())  # type: ignore[arg-type]


async def shown(app: HtflApp, pilot: Pilot[str]) -> None:
    await until(pilot, lambda: app.view.run.round == 12)


def remark(app: HtflApp) -> str:
    return str(app.screen.query_one("#remark", Static).content)


def test_what_is_typed_into_a_filled_in_line_takes_the_place_of_what_stood_there(home: Path) -> None:
    app, given = opened(home), list[ResumeWish]()

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.ask(ResumeDialog(app.view.run), given.append)
        typed_at_once(app, "2 4 enter")
        await until(pilot, lambda: bool(given))
        assert given == [ResumeWish(24, False)]

    drive(app, script)


def test_a_line_for_a_number_takes_nothing_else(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.push_screen(ResumeDialog(app.view.run))
        await pilot.pause()
        await pilot.press("3", "x", "0")
        assert app.screen.query_one("#field-rounds", Input).value == "30"

    drive(app, script)


def test_keys_typed_at_once_go_each_where_the_one_before_has_led(home: Path) -> None:
    app, given = opened(home), list[ForkWish]()

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.ask(ForkDialog(app.view.run, 7, home, KNOWN), given.append)
        typed_at_once(app, "tab f e d s s a tab tab 2 8 tab s e e d = 3 enter")
        await until(pilot, lambda: bool(given))
        assert (given[0].method, given[0].settings) == ("fedssa", ("rounds=28", "seed=3"))

    drive(app, script)


def test_a_method_is_changed_before_the_next_key_reaches_its_settings(home: Path) -> None:
    app, given = opened(home), list[SwitchWish]()
    settings = Config.read({"method": {"name": "fedlora"}}).to_json()

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.ask(SwitchDialog(settings, CHOICES, "…"), given.append)
        typed_at_once(app, "up tab 3 tab r o u n d s = 9 9 enter")
        await until(pilot, lambda: bool(given))
        assert given == [SwitchWish("fedgh", ("method.server_epochs=3", "rounds=99"))]

    drive(app, script)


def test_keys_typed_after_the_one_that_opens_a_form_are_for_the_form(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        typed_at_once(app, "space 2 4")
        await until(pilot, lambda: bool(app.screen.query("#field-rounds")))
        await until(pilot, lambda: app.screen.query_one("#field-rounds", Input).value == "24")
        assert app.panel.id == "live"

    drive(app, script)


def test_the_name_given_on_the_command_line_is_offered_while_it_is_free(home: Path) -> None:
    app = opened(home, name="other")

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for filled_in in ("other", ""):
            await pilot.press("n")
            await until(pilot, lambda: bool(app.screen.query("#field-name")))
            assert app.screen.query_one("#field-name", Input).value == filled_in
            await pilot.press("escape")
            (home / "other").mkdir(exist_ok=True)

    drive(app, script)


class Slow(Form[str]):
    """Thinks until it is told what to answer."""

    def __init__(self) -> None:
        super().__init__("Slow", [Field("x", "x")])
        self.answered = False

    def accept(self, values: dict[str, str]) -> str:
        while not self.answered:
            time.sleep(0.01)
        return "done"


def test_an_answer_that_takes_over_half_a_second_is_said_to_be_worked_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, form, given = opened(home), Slow(), list[str]()
    timers: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(form, "set_timer", lambda *timer: timers.append(timer))

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.ask(form, given.append)
        await pilot.pause()
        title = app.screen.query_one(".title", Static)
        await pilot.press("enter")
        assert str(title.content) == "Slow"
        [(seconds, tell)] = timers
        assert seconds == 0.5
        tell()
        assert str(title.content) == "Slow · checking…"
        form.answered = True
        await until(pilot, lambda: given == ["done"])

    drive(app, script)


@pytest.mark.parametrize(
    ("round", "said"),
    [
        # Checkpoints are kept of rounds 5, 10 and 12; every round took 2.5 s.
        (9, "4 rounds must be computed again, about 10 s. Without changes"),
        (6, "1 round must be computed again, about 2 s. Without changes"),
        (10, "Without changes, the fork repeats its parent bit for bit."),
        (3, "3 rounds must be computed again, about 8 s."),
    ],
)
def test_a_fork_says_what_is_computed_again_for_it(round: int, said: str, home: Path) -> None:
    run = read(home / "main")
    assert run.checkpoints == (5, 10, 12)
    unchanged = dict.fromkeys(("method", "seed", "rounds", "set"), "")
    assert ForkDialog(run, round, home, KNOWN).remark(unchanged).startswith(said)


@pytest.mark.parametrize(
    ("round", "said"),
    [
        (4, "Without changes, the fork continues with fedlora, which its parent used until round 6."),
        (6, "Without changes, the fork continues with fedlora, which its parent used until round 6."),
        (7, "Without changes, the fork repeats its parent bit for bit."),
    ],
)
def test_a_fork_from_before_a_switch_is_not_said_to_end_as_its_parent(
    round: int, said: str, tmp_path: Path
) -> None:
    """The parent went on with FedSSA after round 6, which is no part of a fork of an earlier round."""
    sessions.make(tmp_path / "main", rounds=8, clients=4, switch=(6, "fedssa"), checkpoint_every=1)
    form = ForkDialog(read(tmp_path / "main"), round, tmp_path, KNOWN)
    assert form.remark(dict.fromkeys(("method", "seed", "rounds", "set"), "")).endswith(said)


def test_the_proposed_name_of_a_fork_of_a_studys_session_is_one_that_a_session_can_have(
    tmp_path: Path,
) -> None:
    sessions.make(tmp_path / "t3" / "fedgh-s0", rounds=2, clients=2)
    (tmp_path / "t3" / "points.json").write_text("[]")
    form = ForkDialog(read(tmp_path / "t3" / "fedgh-s0"), 1, tmp_path, KNOWN)
    given = {
        "name": form._fields["name"].value,
        "method": "",
        "seed": "",
        "rounds": "",
        "set": "",
        "then": "show",
    }
    assert form.accept(given).folder == tmp_path / "t3-fedgh-s0-at1"


def test_a_fork_has_as_many_rounds_as_its_parent_had_then(home: Path) -> None:
    """The parent was to end with round 12 and has been given 30 since."""
    run = read(home / "main")
    more = {"from_round": 13, "method": run.history[0]["method"], "settings": {"rounds": 30}}
    run = replace(run, history=(*run.history, more), progress={**run.progress, "rounds": 30})
    assert run.rounds == 30
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.push_screen(ForkDialog(run, 5, home, KNOWN))
        await until(pilot, lambda: bool(app.screen.query("#field-rounds")))
        assert app.screen.query_one("#field-rounds", Input).placeholder == "unchanged: 12"

    drive(app, script)


def test_going_on_says_which_rounds_are_computed_and_how_long_that_takes(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=12, of=20, clients=4, checkpoint_every=10, state="interrupted")
    form = ResumeDialog(read(tmp_path / "main"))
    assert form.remark({"rounds": "20"}) == "Computes rounds 13 to 20, about 20 s."
    assert form.remark({"rounds": "30"}) == "Computes rounds 13 to 30, about 45 s."
    assert form.remark({"rounds": "12"}) == ""


def wish(home: Path, then: str) -> ForkWish:
    return ForkWish(home / "fork", 3, None, (), then)


def test_a_fork_that_is_made_is_shown_if_that_was_asked_for_and_nobody_looks_at_anything_else(
    home: Path,
) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.runs.forked(home / "main", wish(home, "stay"))
        assert app.view.run.name == "main"
        await pilot.press("question_mark")
        app.runs.forked(home / "main", wish(home, "show"))
        assert app.view.run.name == "main"
        assert "Created fork fork." in [*app._notifications][-1].message
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        app.runs.forked(home / "main", wish(home, "show"))
        assert app.view.run.name == "fork"

    drive(app, script)


def test_what_is_read_while_the_app_ends_is_not_drawn(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)

    drive(app, script)
    app.on_run_read(RunRead(app.view.run))


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
        await until(pilot, lambda: app.screen.query_one("#field-rounds", Input).value == "28")
        assert app.screen.query_one("#field-method", Input).value == "fedgh"

    drive(app, script)


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


def test_from_120_columns_on_long_names_of_some_presets_cut_the_titles_of_no_others(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.push_screen(NewRunDialog(home, home / "data", Choices()))
        await until(pilot, lambda: bool(app.screen.query("#known")))
        await pilot.pause()
        known = app.screen.query_one("#known", OptionList)
        assert known.option_count > 400
        for option in known.options:
            assert isinstance(option.prompt, Content) and option.id
            if len(option.id) <= VALUE_CELLS:
                assert option.prompt.cell_length <= known.scrollable_content_region.width

    drive(app, script, (120, 40))


def test_a_new_run_on_own_data_says_what_it_would_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,x,y\n1,5,a\n2,7,b\n3,9,a\n")
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), Choices(), panels=blanks())

    def remark() -> str:
        return str(app.screen.query_one("#remark", Static).content)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#field-dataset")))
        app.screen.query_one("#field-dataset", Input).value = str(tmp_path / "t.csv")
        await until(pilot, lambda: "nothing says which column holds the classes" in remark())
        app.screen.query_one("#field-set", Input).value = "data.target=y"
        await until(pilot, lambda: "Read: 3 samples, 2 classes, 2 features" in remark())
        assert "Warning: Column 'n' numbers the rows (1, 2, …)" in remark()

    drive(app, script)


def fault(app: HtflApp) -> str:
    line = app.screen.query_one("#fault", Static)
    return str(line.content) if line.display else ""


def listed(app: HtflApp) -> list[str]:
    return [str(option.id) for option in app.screen.query_one("#known", OptionList).options]


def test_an_unknown_method_is_said_while_it_is_typed_with_the_nearest(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), Choices(), panels=blanks())

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#field-method")))
        app.screen.query_one("#field-method", Input).focus()
        await pilot.press(*"feds")  # as fedssa begins
        assert fault(app) == "" and "fedssa" in listed(app)
        await pilot.press("a")
        assert fault(app).startswith("method: 'fedsa' is not in the list. Did you mean fedssa or ")
        assert listed(app)[0] == "fedssa"
        await pilot.press("down")
        assert app.screen.query_one("#field-method", Input).value == "fedssa" and fault(app) == ""
        await pilot.press("backspace", "tab")  # left unfinished
        assert "'fedss' is not in the list" in fault(app)

    drive(app, script, size=(80, 24))


def test_an_unknown_preset_is_said_as_well(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), Choices(), panels=blanks())

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#field-preset")))
        await pilot.press(*"quickstrt")
        assert "preset: 'quickstrt' is not in the list. Did you mean quickstart" in fault(app)
        assert listed(app)[0] == "quickstart"

    drive(app, script, size=(80, 24))


def test_presets_in_a_narrow_form_show_where_they_differ(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), Choices(), panels=blanks())

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#field-preset")))
        await pilot.press(*"fedlora_htm5")
        await pilot.pause()
        known = app.screen.query_one("#known", OptionList)
        room = known.scrollable_content_region.width
        shown = [str(option.prompt) for option in known.options]
        assert any("N=50 C=20%" in text for text in shown)
        assert {text[-12:].strip(" ,") for text in shown} >= {"N=10 C=100%", "N=50 C=20%", "N=100 C=10%"}
        assert all(cell_count(text) <= room for text in shown if len(text.split()[0]) <= VALUE_CELLS)

    drive(app, script, size=(80, 24))


async def write(pilot: Pilot[str], field: str, *keys: str) -> str:
    """Type into a field of the form. Returns its text."""
    pilot.app.screen.query_one(f"#field-{field}", Input).focus()
    await pilot.pause()
    await pilot.press(*keys)
    return pilot.app.screen.query_one(f"#field-{field}", Input).value


def test_settings_of_a_fork_are_completed_word_by_word(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.push_screen(ForkDialog(app.view.run, 7, home, KNOWN))
        await until(pilot, lambda: bool(app.screen.query("#field-set")))
        assert await write(pilot, "set", *"tlr", "down") == "training.lr="
        assert await write(pilot, "set", "end", *"0.1", "space", *"mu") == "training.lr=0.1 mu"
        assert listed(app)[0] == "method.mu="  # of fedlora, as no method is typed
        assert not any(name.startswith("data.") for name in listed(app))  # a fork keeps its data
        assert await write(pilot, "set", "down") == "training.lr=0.1 method.mu="
        await pilot.press("end", *"0.7")
        assert listed(app) == []  # a value is no name

    drive(app, script)


def test_settings_of_a_new_run_are_those_of_its_method(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), Choices(), panels=blanks())

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: bool(app.screen.query("#field-set")))
        await write(pilot, "method", *"fedgh")
        await write(pilot, "set", *"mse")
        assert "method.server_epochs=" in listed(app)
        await write(pilot, "set", *["backspace"] * 3, *"dalpha")
        assert listed(app)[0] == "data.alpha="

    drive(app, script, size=(80, 24))


def test_words_narrow_the_help_to_the_keys_that_fit(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.push_screen(help := Help("live"))
        await until(pilot, lambda: app.screen is help)
        await pilot.press(*"mouse")
        lines = listing("live", "braille", help.words, 80).plain.splitlines()
        assert [line.split()[0] for line in lines if line] == ["App", "%"]
        await pilot.press(*"xyz")
        assert listing("live", "braille", help.words, 80).plain == "No key fits these words."

    drive(app, script)
