"""Forms: what is typed goes where it is meant to, and what a form will start is said before it does."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

import checkpoints
import htfl_sim as hs
from checkpoints import SessionUnreadable, Store
from htfl_sim import catalog
from htfl_sim.catalog import method_choices
from htfl_sim.configuring import Choices
from htfl_sim.errors import ConfigError, DataError
from simulator.config import Config
from simulator.results.analysis.gain import SHADOW, Pair, Partners
from tests import sessions
from tests.app.driving import driven, method_choice, notices, opened, shown, typed_at_once, until
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs import upkeep
from tui.app.dialogs.form import Field, Form
from tui.app.dialogs.pages import Help
from tui.app.dialogs.run_forms import (
    BESIDE,
    ForkDialog,
    ForkWish,
    NewRun,
    NewRunDialog,
    ResumeDialog,
    ResumeWish,
    ShadowDialog,
    SwitchDialog,
    SwitchWish,
)
from tui.app.dialogs.upkeep import DeleteDialog, NoteDialog, RenameDialog
from tui.app.panels.sessions import SessionList
from tui.app.runs import LaunchOptions
from tui.cli.tui import _start

CHOICES = [
    method_choice("fedgh", "FedGH", "…", None, (("server_epochs", "1", ""),)),
    method_choice("fedlora", "FedLoRA", "…", None, (("mu", "0.9", ""), ("hidden", "60", ""))),
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


@asynccontextmanager
async def in_form(
    home: Path, form: Any, then: Callable[[Any], object] = lambda given: None, **about: Any
) -> AsyncIterator[tuple[HtflApp, Pilot[Any]]]:
    """The app with a form open. then: receives what the form returns. A form that is a function receives the run."""
    app = opened(home)
    async with driven(app, **about) as pilot:
        await shown(app, pilot)
        app.ask(form(app.view.run) if callable(form) else form, then)
        await until(pilot, lambda: bool(app.screen.query("#fault")))
        await pilot.pause()
        yield app, pilot


@pytest.mark.long
async def test_keys_typed_at_once_go_each_where_the_one_before_has_led(home: Path) -> None:
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
        # Of the present method, the parameters hold what is in force.
        (
            SwitchDialog(FEDLORA, CHOICES, "…"),
            "up down tab tab 7 enter",
            SwitchWish(None, ("method.hidden=7",)),
        ),
    ]
    app = opened(home)
    async with driven(app) as pilot:
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


def test_a_switch_has_what_differs_from_the_settings_in_force() -> None:
    form, given = SwitchDialog(FEDLORA, CHOICES, "…"), {"method.mu": "0.5", "method.hidden": "", "other": ""}
    assert form.accept({**given, "method": "fedlora"}) == SwitchWish(None, ("method.mu=0.5",))
    to = {"method": "fedgh", "other": "rounds=99"}
    assert form.accept(to) == SwitchWish("fedgh", ("rounds=99",))


async def test_a_switch_that_cannot_be_is_refused_in_the_dialog(home: Path) -> None:
    async with in_form(home, SwitchDialog(FEDLORA, CHOICES, "…")) as (app, pilot):
        await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
        await pilot.press("enter")
        await until(pilot, lambda: "nothing would change" in part(app, "fault"))
        field(app, "other").value = "training.lr=fast"
        await pilot.press("enter")
        await until(pilot, lambda: "training.lr" in part(app, "fault"))


class Slow(Form[str]):
    """Thinks until it is told what to answer."""

    answered = False

    def accept(self, values: dict[str, str]) -> str:
        while not self.answered:
            time.sleep(0.01)
        return "done"


async def test_a_slow_answer_is_said_to_be_worked_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, given = Slow("Slow", [Field("x")]), list[str]()
    timers: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(form, "set_timer", lambda *timer: timers.append(timer))
    async with in_form(home, form, given.append) as (app, pilot):
        title = app.screen.query_one(".title", Static)
        await pilot.press("enter")
        assert str(title.content) == "Slow"
        [(seconds, tell)] = timers
        tell()
        assert (seconds, str(title.content)) == (0.5, "Slow · checking…")
        form.answered = True
        await until(pilot, lambda: len(app.screen_stack) == 1)
    assert given == ["done"]


# What a form says before it sets anything going, and what it refuses. A round of the sessions here took 2.5 s.


METHODS = [("fedlora", "FedLoRA"), ("fedgh", "FedGH"), ("standalone", "Standalone")]
NOTHING = dict.fromkeys(("method", "seed", "rounds", "set"), "")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """main: rounds 1 to 12 of 20. Checkpoints are kept of rounds 5, 10 and 12."""
    sessions.make(tmp_path / "main", rounds=12, of=20, clients=4, state="stopped")
    return tmp_path


def shadow(stopped: Path, round: int = 12, pair: Pair | None = None) -> ShadowDialog:
    return ShadowDialog(read(stopped / "main"), round, stopped, METHODS, pair)


def new_run(home: Path, **choices: Any) -> NewRunDialog:
    return NewRunDialog(home, home / "data", Choices(**choices))


def values(form: Form[Any]) -> dict[str, str]:
    """What a form is filled in with."""
    return {name: each.value for name, each in form._fields.items()}


SAME = "Without changes, the fork repeats its parent bit for bit."


def test_a_fork_says_what_is_computed_again_and_how_it_ends(home: Path, tmp_path: Path) -> None:
    run = read(home / "main")
    assert run.checkpoints == (5, 10, 12)
    said = {round: ForkDialog(run, round, home, KNOWN).remark(NOTHING) for round in (3, 6, 9, 10)}
    assert said == {
        9: f"4 rounds must be computed again, about 10 s. {SAME}",
        6: f"1 round must be computed again, about 2 s. {SAME}",
        3: f"3 rounds must be computed again, about 8 s. {SAME}",
        10: SAME,
    }
    # The parent went on with FedSSA after round 6, which is no part of a fork of an earlier round.
    sessions.make(tmp_path / "turned", rounds=8, clients=4, switch=(6, "fedssa"), checkpoint_every=1)
    run = read(tmp_path / "turned")
    until = "Without changes, the fork continues with fedlora, which its parent used until round 6."
    assert [ForkDialog(run, each, home, KNOWN).remark(NOTHING) for each in (6, 7)] == [until, SAME]


def test_a_fork_of_a_studys_session_has_a_name_that_a_session_can_have(tmp_path: Path) -> None:
    sessions.make(tmp_path / "t3" / "fedgh-s0", rounds=2, clients=2)
    (tmp_path / "t3" / "points.json").write_text("[]")
    form = ForkDialog(read(tmp_path / "t3" / "fedgh-s0"), 1, tmp_path, KNOWN)
    assert form.accept(values(form)).folder == tmp_path / "t3-fedgh-s0-at1"


def test_a_fork_has_as_many_rounds_as_its_parent_had_then(home: Path) -> None:
    """The parent was to end with round 12 and has been given 30 since."""
    run = read(home / "main")
    more = {"from_round": 13, "method": run.history[0]["method"], "settings": {"rounds": 30}}
    run = replace(run, history=(*run.history, more), progress={**run.progress, "rounds": 30})
    assert run.rounds == 30
    assert ForkDialog(run, 5, home, KNOWN)._fields["rounds"].placeholder == "unchanged: 12"


def test_going_on_says_which_rounds_are_computed_and_how_long_that_takes(stopped: Path) -> None:
    form = ResumeDialog(read(stopped / "main"))
    said = {rounds: form.remark({"rounds": rounds}) for rounds in ("20", "30", "12")}
    assert said == {
        "20": "Computes rounds 13 to 20, about 20 s.",
        "30": "Computes rounds 13 to 30, about 45 s.",
        "12": "",
    }


def test_another_method_beside_a_session_says_what_is_computed_and_who_is_compared(stopped: Path) -> None:
    form = shadow(stopped)
    assert values(form) == {"method": "standalone", "round": "12"}
    assert [name for name, _ in form._fields["method"].known()] == ["fedgh", "standalone"]
    made = stopped / "main-shadow-standalone"
    assert form.accept(values(form)) == ForkWish(made, 12, "standalone", (), BESIDE)
    made.mkdir()
    assert form.accept(values(form)).folder.name == "main-shadow-standalone-2"
    said = form.remark({"round": "9"})
    assert "First, 4 rounds are computed again, about 10 s." in said  # from round 5 on
    assert "Then 11 rounds run in a process of their own, about 28 s." in said  # 11 · 2.5
    assert "First" not in form.remark({"round": "10"})
    sessions.make(stopped / "base", rounds=12, of=20, clients=4, method="standalone")
    run = read(stopped / "main")
    [partner] = Partners().find(run, stopped)
    pair = Pair(run.folder, partner, read(partner.folder))
    assert (
        shadow(stopped, pair=pair).remark({"round": ""}).startswith("main is already compared with base (B).")
    )


def test_another_method_beside_a_finished_run_begins_at_the_beginning(home: Path) -> None:
    assert values(shadow(home))["round"] == "0"
    assert "Then 1 round runs in a process of its own, about 2 s." in shadow(home).remark({"round": "11"})


REFUSED: dict[str, list[tuple[str, str, str]]] = {
    "fork": [
        ("name", "main", "exists"),
        ("rounds", "7", "The fork starts after round 7"),
        ("seed", "-1", "seed: '-1' is not a whole number"),
        ("set", "'open", "No closing quotation"),
        ("method", "fedhg", "fedgh"),
        ("then", "x", "then: one of show, run, stay"),
    ],
    "new run": [
        ("rounds", "none", "rounds: 'none' is not a whole number"),
        ("set", "epochs", "'epochs' is not key=value"),
        ("set", "training.epoch=2", "training.epochs"),
        ("method", "fedloar", "fedlora"),
        ("name", "../out", "not a session name"),
        ("name", "main", "exists"),
        ("dataset", "cifar10", r"Press ctrl\+f to download it"),
    ],
    "shadow": [
        ("round", "13", "main has rounds 0 to 12"),
        ("round", "", "main has rounds 0 to 12"),
        ("method", "fedlora", "continues with fedlora itself"),
        ("method", "fedlorra", "fedlora"),
    ],
    "resume": [("rounds", "12", "Round 12 is done"), ("inexact", "maybe", "enter yes or no")],
    "note": [("tags", "-x", "'-x' is not a tag"), ("note", "x" * 1001, "this one has 1001.")],
    "rename": [
        ("name", "other", "is there already. Choose another name."),
        ("name", "a/b", "not a session name"),
    ],
}


def test_what_cannot_be_is_refused_with_the_reason(stopped: Path) -> None:
    (stopped / "other").mkdir()
    run = read(stopped / "main")
    forms: dict[str, Form[Any]] = {
        "fork": ForkDialog(run, 7, stopped, [("fedgh", "FedGH")]),
        "new run": new_run(stopped, preset="quickstart"),
        "shadow": shadow(stopped),
        "resume": ResumeDialog(run),
        "note": NoteDialog(stopped / "main", stopped),
        "rename": RenameDialog(stopped / "main"),
    }
    for name, faults in REFUSED.items():
        for field, value, said in faults:
            with pytest.raises((ConfigError, DataError), match=said):
                forms[name].accept(values(forms[name]) | {field: value})
    usual = values(forms["fork"]) | {"name": "new"}
    assert forms["fork"].accept(usual) == ForkWish(stopped / "new", 7, None, (), "show")
    given = {"seed": "0", "name": "mine", "set": "training.lr=0.1"}
    wish = forms["new run"].accept(values(forms["new run"]) | given)
    assert (wish.folder, wish.choices.seed) == (stopped / "mine", 0)
    assert wish.choices.assignments == ["training.lr=0.1"]


async def test_a_made_fork_is_shown_if_that_was_asked_for_and_nobody_looks_elsewhere(home: Path) -> None:
    app = opened(home)

    def forked(then: str) -> str:
        app.runs.forked(home / "main", ForkWish(home / "fork", 3, None, (), then))
        return app.view.run.name

    async with driven(app) as pilot:
        await shown(app, pilot)
        assert forked("stay") == "main"
        await pilot.press("question_mark")
        assert forked("show") == "main"
        assert "Created fork fork." in notices(app)[-1]
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert forked("show") == "fork"


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The methods answer once something stands in it."""
    told: list[bool] = []

    def slow(config: object) -> Sequence[object]:
        while not told:
            time.sleep(0.01)
        return CHOICES

    monkeypatch.setattr("tui.app.host.method_choices", slow)
    return told


@pytest.mark.long
async def test_keys_typed_while_the_methods_are_asked_are_for_their_form(
    home: Path, answered: list[bool]
) -> None:
    app = opened(home)
    async with driven(app) as pilot:
        await shown(app, pilot)
        typed_at_once(app, "f tab f e d g h tab tab 2 8")
        await until(pilot, lambda: app.waiting == ["checking the methods…"])
        await asyncio.sleep(0.1)
        answered.append(True)
        await until(pilot, lambda: bool(app.screen.query("#field-rounds")))
        await until(pilot, lambda: field(app, "rounds").value == "28")
        assert field(app, "method").value == "fedgh"


@pytest.mark.long
async def test_escape_gives_up_a_form_that_waits_for_the_methods(home: Path, answered: list[bool]) -> None:
    app = opened(home)
    async with driven(app) as pilot:
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


@pytest.mark.long
async def test_the_name_given_on_the_command_line_is_offered_while_it_is_free(home: Path) -> None:
    app = opened(home)
    app.runs._options = LaunchOptions(home, home / "data", name="other")
    async with driven(app) as pilot:
        for filled_in in ("other", ""):
            await pilot.press("n")
            await until(pilot, lambda: bool(app.screen.query("#field-name")))
            assert field(app, "name").value == filled_in
            await pilot.press("escape")
            (home / "other").mkdir(exist_ok=True)


@pytest.mark.long
async def test_a_missing_data_set_is_replaced_or_downloaded(
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
    async with in_form(home, new_run(home, preset="fedlora_htm5")) as (app, pilot):
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


@pytest.mark.long
async def test_a_new_run_on_own_data_says_what_it_would_read(home: Path) -> None:
    (home / "t.csv").write_text("n,x,y\n1,5,a\n2,7,b\n3,9,a\n")
    async with in_form(home, new_run(home)) as (app, pilot):
        field(app, "dataset").value = str(home / "t.csv")
        await until(pilot, lambda: "nothing says which column holds the classes" in part(app, "remark"))
        field(app, "set").value = "data.target=y"
        await until(pilot, lambda: "Read: 3 samples, 2 classes, 2 features" in part(app, "remark"))
        assert "Warning: Column 'n' numbers the rows (1, 2, …)" in part(app, "remark")


@pytest.mark.long
async def test_an_unknown_value_is_said_while_it_is_typed_with_the_nearest(home: Path) -> None:
    async with in_form(home, new_run(home), size=(80, 24)) as (app, pilot):
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


@pytest.mark.long
async def test_arrows_choose_and_settings_are_completed_word_by_word(home: Path) -> None:
    async with in_form(home, lambda run: ForkDialog(run, 7, home, KNOWN)) as (app, pilot):
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
    async with in_form(home, new_run(home), size=(80, 24)) as (app, pilot):
        await write(pilot, "method", *"fedgh")
        await write(pilot, "set", *"mse")
        assert "method.server_epochs=" in listed(app)
        await write(pilot, "set", *["backspace"] * 3, *"dalpha")
        assert listed(app)[0] == "data.alpha="


@pytest.mark.long
async def test_a_made_shadow_runs_in_its_own_process_and_becomes_the_partner(stopped: Path) -> None:
    app = opened(stopped)
    async with driven(app) as pilot:
        await until(pilot, lambda: app.view.run.round == 12)
        parent = app.view.run.folder, app.view.run.document["id"], 5
        about: dict[str, Any] = {"rounds": 12, "of": 20, "clients": 4, "method": "standalone"}
        sessions.make(stopped / "base", **about)
        made = sessions.make(stopped / "shadow", parent=parent, **about)
        app.runs.forked(stopped / "main", ForkWish(made, 5, "standalone", (), BESIDE))
        assert app.runs.elsewhere == ["shadow"] and app.view.run.name == "main"
        assert not app.runs.running  # the session itself was not started
        await until(pilot, lambda: app.view.paired is not None)
        pair = app.view.paired
        assert pair is not None and (pair.partner.name, pair.partner.shared) == ("shadow", 5)


@pytest.mark.slow
async def test_a_key_starts_standalone_beside_a_real_session(tmp_path: Path) -> None:
    config = {
        "method": {"name": "fedgh"},
        "rounds": 2,
        "data": {"dataset": "digits", "limit": 200},
        "federation": {"clients": 2, "group": "tiny"},
    }
    hs.run(hs.Config.read(config), tmp_path / "real")
    app = opened(tmp_path, "real")
    async with driven(app) as pilot:
        await until(pilot, lambda: app.view.run.round == 2)
        await pilot.press("A")
        await until(pilot, lambda: isinstance(app.screen, ShadowDialog))
        await until(pilot, lambda: bool(app.screen.query(Input)))
        await pilot.press("enter")
        folder = tmp_path / "real-shadow-standalone"
        await until(pilot, lambda: hs.sessions.state(folder) == "finished" if folder.exists() else False, 120)
        assert hs.sessions.tags(folder) == (SHADOW,)
        await until(pilot, lambda: app.view.paired is not None and app.view.paired.other.round == 2)
        pair = app.view.paired
        assert pair is not None and pair.partner.shared == 0
        samples = [each.document["data_fingerprint"] for each in (app.view.run, pair.other)]
        assert samples[0] == samples[1]


# What `htfl-sim tui` opens on, from what the command line says.


def test_the_command_line_opens_the_list_a_session_a_new_run_or_the_form(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=1, clients=2)
    places, more = LaunchOptions(tmp_path, tmp_path / "data"), Choices(rounds=3)
    assert _start(Choices(), None, places) is _start(Choices(workers=2), None, places) is None
    assert _start(Choices(), "main", places) == tmp_path / "main"
    assert _start(more, "new", places) == NewRun(more, tmp_path / "new")
    for choices, name, error, said in (
        (Choices(), "mian", SessionUnreadable, "Did you mean 'main'"),
        (more, "main", ConfigError, "exists already"),
    ):
        with pytest.raises(error, match=said):
            _start(choices, name, places)
    begun = _start(Choices(method="fedgh"), None, places)
    assert isinstance(begun, NewRun) and begun.folder.name.startswith("quickstart-fedgh-")
    without_data = Choices(preset="fedlora_htm5")
    assert _start(without_data, None, places) is without_data


# Tags, notes, names, and removal from the app: of the session under the cursor of the list, or the one shown.


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of three rounds: main, and its fork."""
    folder = tmp_path_factory.mktemp("two")
    sessions.make(folder / "main", rounds=3, clients=4)
    id = checkpoints.SessionReader(folder / "main").document["id"]
    sessions.make(folder / "fork", rounds=3, clients=4, parent=(folder / "main", id, 2))
    return folder


@pytest.fixture
def forked(tmp_path: Path, two: Path) -> Path:
    return shutil.copytree(two, tmp_path / "home")


@asynccontextmanager
async def in_app(forked: Path) -> AsyncIterator[tuple[HtflApp, Pilot[Any]]]:
    """The app with the real list of sessions."""
    app = opened(forked, "main", "sessions")
    async with driven(app) as pilot:
        await shown(app, pilot, 3)
        yield app, pilot


async def put_cursor(app: HtflApp, pilot: Pilot[Any], name: str, number: int = 2) -> SessionList:
    """The list of sessions, with the cursor on one of them."""
    app.show_panel("sessions")
    listed = app.panel.query_one(SessionList)
    await until(pilot, lambda: len(listed.rows) == number)
    listed.put_cursor(app.sessions_dir / name)
    there = app.sessions_dir / name
    await until(pilot, lambda: app.panel.under_cursor() is not None and listed.folder == there)
    return listed


@pytest.mark.long
@pytest.mark.parametrize("panel", ["sessions", "live"])
async def test_a_cursor_that_moves_while_the_list_is_drawn_stays_where_it_went(
    forked: Path, panel: str
) -> None:
    app = opened(forked, "main", "live", "sessions")
    async with driven(app, size=(200, 60)) as pilot:
        app.show_panel(panel)
        listed = app.panel.query_one(SessionList)
        await until(pilot, lambda: len(listed.rows) == 2)
        await pilot.pause()
        listed.put_cursor(forked / "main")
        app.panel.on_session_list_listed()  # type: ignore[attr-defined]
        listed.put_cursor(forked / "fork")
        await pilot.pause()
        assert listed.folder == forked / "fork"


@pytest.mark.long
async def test_tags_and_a_note_are_written_listed_and_found_by_the_filter(forked: Path) -> None:
    checkpoints.mark(forked / "main", ["paper"])
    checkpoints.mark(forked / "fork", ["old"], note="was wrong")
    async with in_app(forked) as (app, pilot):
        listed = await put_cursor(app, pilot, "fork")
        await pilot.press("N")
        assert isinstance(app.screen, NoteDialog)
        tags, note = app.screen.query(Input)
        assert (tags.value, note.value) == ("old", "was wrong")
        # What is typed replaces the line; down completes a word.
        await pilot.press(*"t3", "space", *"pa", "down")
        assert tags.value == "t3 paper"
        await pilot.press("tab", *"lr", "space", *"of", "space", *"FedProto", "enter")
        marks = (("paper", "t3"), "lr of FedProto")
        await until(pilot, lambda: checkpoints.marks_of(forked / "fork") == marks)

        def cells() -> tuple[object, ...]:
            return next(row.cells for row in listed.rows if row.key == forked / "fork")

        await until(pilot, lambda: "paper, t3: lr of FedProto" in cells())
        for words, found in (("t3", ["fork"]), ("fproto", ["fork"]), ("paper", ["fork", "main"])):
            app.change(filter=words)
            assert sorted(row.key.name for row in listed.rows) == found  # type: ignore[union-attr]


@pytest.mark.long
async def test_a_renamed_session_is_shown_and_marked_under_its_new_name(forked: Path) -> None:
    async with in_app(forked) as (app, pilot):
        app.mark_all((forked / "fork", forked / "main"))
        listed = await put_cursor(app, pilot, "main")
        await pilot.press("R", *"best", "enter")
        await until(pilot, lambda: app.view.run.folder == forked / "best" and app.view.run.round == 3)
        assert app.view.marked == (forked / "fork", forked / "best")
        await until(pilot, lambda: {row.key for row in listed.rows} == {forked / "best", forked / "fork"})
        assert notices(app)[-1] == "Renamed main to best."


@pytest.mark.long
async def test_a_session_is_deleted_only_after_its_name_is_typed(forked: Path) -> None:
    async with in_app(forked) as (app, pilot):
        app.mark_all((forked / "main",))
        await pilot.press("X")
        assert isinstance(app.screen, DeleteDialog)
        await until(pilot, lambda: "Its fork stays complete: fork." in part(app, "remark"))
        await pilot.press("enter")
        await until(pilot, lambda: part(app, "fault") == "Type main to delete it, or press esc.")
        assert (forked / "main").is_dir()
        await pilot.press(*"main", "enter")
        await until(pilot, lambda: not (forked / "main").exists())
        await until(pilot, lambda: app.view.run.name == "")
        assert app.view.marked == () and notices(app)[-1] == "Deleted main."
        assert checkpoints.verify(forked / "fork") == []


@pytest.mark.long
async def test_marked_sessions_are_deleted_until_one_stays(
    forked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = upkeep.sessions.remove

    def guarded(folder: Path) -> Path:
        if folder.name == "other":
            raise ConfigError("other stays.")
        return remove(folder)

    monkeypatch.setattr(upkeep.sessions, "remove", guarded)
    for name in ("other", "third"):
        sessions.make(forked / name, rounds=3, clients=4)

    async with in_app(forked) as (app, pilot):
        listed = await put_cursor(app, pilot, "fork", 4)
        app.mark_all((forked / "main", forked / "fork", forked / "other", forked / "third"))
        await pilot.press("X")
        about = "All rounds and checkpoints of main, fork, other, 1 more are"
        await until(pilot, lambda: part(app, "remark").startswith(about))
        assert "Its fork stays" not in part(app, "remark")  # it is deleted too
        await pilot.press(*"main", "enter")
        await until(pilot, lambda: part(app, "fault") == "Type 4 sessions to delete them, or press esc.")
        app.screen.query_one(Input).value = "4 sessions"
        await pilot.press("enter")
        await until(pilot, lambda: {row.key for row in listed.rows} == {forked / "other", forked / "third"})
        assert app.view.marked == (forked / "other", forked / "third")
        assert notices(app)[-2:] == ["Deleted main, fork.", "other stays."]


def test_a_session_that_a_process_runs_keeps_its_name_and_stays(forked: Path) -> None:
    forms = (RenameDialog(forked / "main"), "best"), (DeleteDialog([forked / "main"]), "main")
    for form, word in forms:
        with Store.open(forked / "main"), pytest.raises(checkpoints.Locked, match="is run by process"):
            form.accept({"name": word})


def test_the_choices_of_methods_say_what_the_owner_of_a_session_would_say() -> None:
    config = Config.read({"method": {"name": "fedlora"}, "federation": {"group": "htm5"}})
    choices = {choice.name: choice for choice in method_choices(config.to_json())}
    assert choices["fedgh"].obstacle is None
    assert "client 1 (cnn2) has 'conv2.weight'" in str(choices["heteroavg"].obstacle)
    first, *_ = parameters = choices["fedlora"].parameters
    assert [each["key"] for each in parameters] == ["mu", "structure", "hidden", "eta_theta"]
    assert first["default"] == 0.9
