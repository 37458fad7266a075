"""What the app does with answers, failures and damage: a sentence each, and it goes on."""

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

import checkpoints
from checkpoints import Command, Store
from htfl_sim.compatibility import MethodChoice, Parameter
from htfl_sim.configuring import Choices
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import Blank, blanks, drive, until
from tui.app.app import HtflApp
from tui.app.dialogs.run_forms import ForkDialog, ForkWish, NewRunDialog, SwitchDialog, SwitchWish
from tui.app.panels.log import upto
from tui.app.runs import Beginning, LaunchOptions, ThreadRun
from tui.app.steering import _waiting
from tui.app.view import View


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    return tmp_path


def opened(home: Path, start: Path | Choices | None = None) -> HtflApp:
    return HtflApp(LaunchOptions(home, home / "data"), start or home / "main", panels=blanks())


def notices(app: HtflApp) -> str:
    return " ".join(notice.message for notice in app._notifications)


def test_a_refused_command_is_said_with_its_reason(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        with Store.open(home / "main") as store:
            store.heartbeat("running", round=12, rounds=40, phase="train", done=1, clients=4)
            await until(pilot, lambda: app.view.run.live)
            await pilot.press("space")
            await until(pilot, lambda: "pausing…" in app.waiting)
            (command,) = store.commands()
            store.answer(command, "refused", "it is paused already")
            await until(pilot, lambda: "it is paused already" in notices(app))
            await until(pilot, lambda: app.waiting == [])

    drive(app, script)


def test_a_command_whose_run_ends_without_an_answer_ends_with_what_became_of_it(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        with Store.open(home / "main") as store:
            store.heartbeat("running", round=12, rounds=40, phase="train", done=1, clients=4)
            await until(pilot, lambda: app.view.run.live)
            app.steering.post("checkpoint")
            await until(pilot, lambda: "checkpoint…" in app.waiting)
            store.close("stopped")
        await until(pilot, lambda: "checkpoint was too late: the run is stopped" in notices(app))
        await until(pilot, lambda: not app.view.run.live)
        assert app.view.run.pending  # until the next start refuses it
        assert app.waiting == []

    drive(app, script)


def test_a_run_that_fails_is_shown_as_failed_with_a_notice_and_a_line_in_the_log(home: Path) -> None:
    app = opened(home)

    def fail() -> None:
        raise ConfigError("the group has no such model.")

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.runs.start(Beginning(home / "main", fail, ()))  # type: ignore[arg-type]
        await until(pilot, lambda: app.view.run.state == "failed")
        assert "the group has no such model." in notices(app)
        assert app.view.run.events[-1]["event"] == "failed"
        assert app.view.run.events[-1]["message"] == "the group has no such model."
        assert not app.runs.running

    drive(app, script)


def test_a_bug_under_the_app_is_a_sentence_too(home: Path) -> None:
    posted: list[object] = []

    def fail() -> None:
        raise ZeroDivisionError

    launch = ThreadRun(home, fail, posted.append)  # type: ignore[arg-type]
    launch.start()
    launch.join()
    assert isinstance(launch.error, ZeroDivisionError)
    assert "bug in htfl-sim" in str(posted[-1])


def damage(session: Path) -> None:
    (session / "session.json").write_bytes(b"{}")


def garble(session: Path) -> None:
    (session / "ledger.jsonl").write_bytes(b"{}\n" * 13)


@pytest.mark.parametrize("harm", [damage, garble, shutil.rmtree])
def test_a_session_that_is_damaged_or_vanishes_while_shown_is_said_and_the_app_goes_on(
    harm: Callable[[Path], None], home: Path
) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        harm(home / "main")
        await until(pilot, lambda: app.view.run.error is not None)
        assert str(app.view.run.error) in notices(app)
        assert app.view.run.round == 12  # as it was read last
        row = str(app.main.query_one("#status", Static).content)
        assert row.startswith("main · ! gone · " if harm is shutil.rmtree else "main · ! cannot be read · ")
        (event,) = app.view.run.outages
        assert event["event"] == ("gone" if harm is shutil.rmtree else "unreadable")
        assert upto(app.view)[-1] is event  # the last line of the log
        await pilot.press("space")
        assert not (home / "main" / "control" / "inbox").is_dir() or not checkpoints.pending(home / "main")
        await pilot.press("6")
        assert app.panel.id == "log"

    drive(app, script)


def test_a_switch_for_a_later_round_waits_with_its_round(home: Path) -> None:
    app = opened(home)
    checkpoints.post(home / "main", "switch", {"method": "fedssa", "set": [], "at_round": 30})

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.waiting == ["switching to fedssa after round 30"])

    drive(app, script)


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        ("pause", {}, "pausing…"),
        ("stop", {}, "stopping…"),
        ("checkpoint", {}, "checkpoint…"),
        ("checkpoint", {"cka": True}, "checkpoint with CKA…"),
        ("switch", {"method": "fedssa", "set": []}, "switching to fedssa after round 13"),
        ("switch", {"method": "fedssa", "set": ["method.mu=1"]}, "switching to fedssa after round 13"),
        ("switch", {"method": None, "set": ["training.lr=0.1"]}, "changing training.lr=0.1 after round 13"),
        (
            "switch",
            {"method": None, "set": ["rounds=9", "seed=1"]},
            "changing rounds=9 and 1 more after round 13",
        ),
        ("switch", {"method": "moon", "set": [], "at_round": 30}, "switching to moon after round 30"),
    ],
)
def test_a_request_that_waits_names_its_contents(kind: str, arguments: dict[str, Any], said: str) -> None:
    progress = {"round": 13, "phase": "train"}
    command = Command("1", kind, arguments, "2026-01-02T10:15:00Z", "me@here 1")
    assert _waiting(command, SessionData(Path("main"), progress=progress)) == said
    asleep = _waiting(command, SessionData(Path("main"), progress=progress, state="stopped"))
    assert asleep == (said.replace("after round 13", "at the next start") if kind == "switch" else "")


def test_a_fork_that_is_made_names_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, done = opened(home), threading.Event()
    monkeypatch.setattr("htfl_sim.running.branch", lambda *given, **options: done.wait(600))

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.runs._fork(home / "main", ForkWish(home / "main-2", 7, "fedssa", (), "stay"))
        assert app.waiting == ["forking main-2 to fedssa after round 7…"]
        done.set()
        await until(pilot, lambda: app.waiting == [])

    drive(app, script)


def test_a_switch_that_has_been_made_is_not_said_to_wait_until_it_is_answered(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        with Store.open(home / "main") as store:
            store.heartbeat("running", round=13, rounds=40, phase="train", done=1, clients=4)
            command = checkpoints.post(home / "main", "switch", {"method": "fedssa", "set": []})
            await until(pilot, lambda: app.waiting == ["switching to fedssa after round 13"])
            changes = ["method fedlora → fedssa"]
            about = {"before": "fedlora", "changes": changes, "adopted": "", "command": command.id}
            store.event("switched", round=12, method="fedssa", **about)
            store.heartbeat("paused", round=12, rounds=40, phase="train", done=1, clients=4)
            await until(pilot, lambda: app.waiting == [])
            assert [each.id for each in app.view.run.pending] == [command.id]

    drive(app, script)


def fill(app: HtflApp, **values: str) -> None:
    for name, value in values.items():
        app.screen.query_one(f"#field-{name}", Input).value = value


def fault(app: HtflApp) -> str:
    return str(app.screen.query_one("#fault", Static).content)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rounds": "none"}, "rounds: 'none' is not a whole number"),
        ({"set": "epochs"}, "'epochs' is not key=value"),
        ({"set": "training.epoch=2"}, "training.epochs"),
        ({"method": "fedloar"}, "fedlora"),
        ({"name": "../out"}, "not a session name"),
        ({"name": "main"}, "exists"),
        ({"dataset": "cifar10"}, "Press ctrl+f to download it"),
    ],
)
def test_a_new_run_that_cannot_be_is_refused_in_the_form(
    values: dict[str, str], said: str, home: Path
) -> None:
    app = opened(home, Choices(preset="quickstart"))

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: isinstance(app.screen, NewRunDialog) and bool(app.screen.query("#fault")))
        await pilot.pause()
        fill(app, **values)
        await pilot.press("enter")
        await until(pilot, lambda: said in fault(app))
        assert isinstance(app.screen, NewRunDialog)
        assert app.runs.launch is None

    drive(app, script)


def test_digits_stand_in_for_a_data_set_that_is_not_there(home: Path) -> None:
    app = opened(home, Choices(preset="fedlora_htm5"))

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: isinstance(app.screen, NewRunDialog) and bool(app.screen.query("#fault")))
        await pilot.pause()
        remark = app.screen.query_one("#remark", Static)
        assert "Missing: cifar10" in str(remark.content)
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert "Missing" not in str(remark.content)
        assert "digits" in str(remark.content)

    drive(app, script)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "main"}, "exists"),
        ({"rounds": "7"}, "The fork starts after round 7"),
        ({"seed": "-1"}, "seed: '-1' is not a whole number"),
        ({"set": "'open"}, "No closing quotation"),
    ],
)
def test_a_fork_that_cannot_be_is_refused_in_the_dialog(
    values: dict[str, str], said: str, home: Path
) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.push_screen(ForkDialog(app.view.run, 7, home, [("fedgh", "FedGH")]))
        await until(pilot, lambda: bool(app.screen.query("#fault")))
        await pilot.pause()
        fill(app, **values)
        await pilot.press("enter")
        await until(pilot, lambda: said in fault(app))

    drive(app, script)


CHOICES = [
    MethodChoice("fedgh", "FedGH", "…", None, (Parameter("server_epochs", "1", "epochs"),)),
    MethodChoice(
        "fedlora", "FedLoRA", "…", None, (Parameter("mu", "0.9", ""), Parameter("hidden", "60", ""))
    ),
]


@pytest.mark.parametrize(
    ("keys", "wish"),
    [
        # The present method is highlighted, and its parameters hold what is in force.
        ("tab tab 7 enter", SwitchWish(None, ("method.hidden=7",))),
        ("tab 0 full_stop 5 enter", SwitchWish(None, ("method.mu=0.5",))),
        ("up enter", SwitchWish("fedgh", ())),
        (
            "up tab 3 tab r o u n d s equals_sign 9 9 enter",
            SwitchWish("fedgh", ("method.server_epochs=3", "rounds=99")),
        ),
    ],
)
def test_a_switch_asks_for_what_was_changed_and_for_nothing_else(
    keys: str, wish: SwitchWish, home: Path
) -> None:
    app, given = opened(home), list[SwitchWish]()
    settings = Config.read({"method": {"name": "fedlora"}}).to_json()

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.ask(SwitchDialog(settings, CHOICES, "…"), given.append)
        await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
        await pilot.pause()
        for key in keys.split():
            await pilot.press(key)
            await pilot.pause()
        await until(pilot, lambda: bool(given))
        assert given == [wish]

    drive(app, script)


def test_a_switch_that_cannot_be_is_refused_in_the_dialog(home: Path) -> None:
    app = opened(home)
    settings = Config.read({"method": {"name": "fedlora"}}).to_json()

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.push_screen(SwitchDialog(settings, CHOICES, "…"))
        await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
        await pilot.press("enter")
        await until(pilot, lambda: "nothing would change" in fault(app))
        fill(app, other="training.lr=fast")
        await pilot.press("enter")
        await until(pilot, lambda: "training.lr" in fault(app))

    drive(app, script)


def test_a_second_run_gets_a_process_of_its_own_whose_failure_is_told(home: Path) -> None:
    app, done = opened(home), threading.Event()

    def wait() -> None:
        done.wait(600)
        raise ConfigError("over")

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.runs.start(Beginning(home / "main", wait, ()))  # type: ignore[arg-type]
        app.runs.forked(home / "main", ForkWish(home / "fork", 7, None, (), "run"))
        assert app.runs.name == "main"  # on its thread, as before
        assert app.runs.elsewhere == ["fork"]
        app.runs.start(Beginning(home / "fork", wait, ()))  # type: ignore[arg-type]
        await pilot.pause()
        assert "fork runs in its own process, beside main." in notices(app)
        assert "fork is already starting or running." in notices(app)
        await until(pilot, lambda: "fork failed:" in notices(app))
        assert "fork" in notices(app).split("fork failed:")[1]  # there is no such session
        assert app.runs.elsewhere == []
        assert app.runs.running
        done.set()
        await until(pilot, lambda: not app.runs.running)

    drive(app, script)


def test_arrows_choose_from_the_values_that_match_what_was_typed(home: Path) -> None:
    app = opened(home)
    known: Sequence[tuple[str, str]] = [("fedavg", "FedAvg"), ("fedgh", "FedGH"), ("moon", "MOON")]

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.push_screen(ForkDialog(app.view.run, 7, home, known))
        await until(pilot, lambda: bool(app.screen.query("#fault")))
        await pilot.pause()
        await pilot.press("tab", "f", "e", "d", "down", "down")
        assert app.screen.query_one("#field-method", Input).value == "fedgh"
        await pilot.press("down")
        assert app.screen.query_one("#field-method", Input).value == "fedavg"

    drive(app, script)


def test_only_the_visible_panel_is_asked_to_draw(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        others = [panel for panel in app.query(Blank) if panel.id != "live"]
        assert all(not panel.views for panel in others)

    drive(app, script)


def test_a_command_waits_in_the_mailbox_of_a_session_that_nobody_runs(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.steering.post("switch", {"method": None, "set": ["rounds=20"]})
        await until(pilot, lambda: app.waiting == ["changing rounds=20 at the next start"])
        (command,) = checkpoints.pending(home / "main")
        assert command.arguments == {"method": None, "set": ["rounds=20"]}

    drive(app, script)


def test_a_panel_that_fails_is_said_and_the_app_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Blank, view: View) -> None:
        raise ZeroDivisionError("a fault in a panel")

    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        monkeypatch.setattr(Blank, "show", fail)
        await pilot.press("2")
        await until(pilot, lambda: "ZeroDivisionError: a fault in a panel" in notices(app))
        monkeypatch.undo()
        await pilot.press("1")
        assert app.panel.id == "live"

    drive(app, script)
