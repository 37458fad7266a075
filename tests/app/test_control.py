"""What the app does with answers, failures and damage: a sentence each, and it goes on."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Command, Store
from simulator.base.errors import ConfigError
from simulator.results.analysis.run import SessionData
from tests.app.driving import Blank, drive, notices, opened, shown, until
from tui.app.app import HtflApp
from tui.app.dialogs.run_forms import ForkWish
from tui.app.messages import RunRead
from tui.app.panels.log import upto
from tui.app.runs import Beginning, ThreadRun
from tui.app.steering import _waiting
from tui.app.view import View

HEARTBEAT = {"rounds": 40, "phase": "train", "done": 1, "clients": 4}


def said(app: HtflApp) -> str:
    return " ".join(notices(app))


@pytest.mark.long
def test_commands_that_are_refused_too_late_or_made_are_said_and_wait_no_more(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        with Store.open(home / "main") as store:
            store.heartbeat("running", round=13, **HEARTBEAT)
            await until(pilot, lambda: app.view.run.live)
            await pilot.press("space")
            await until(pilot, lambda: "pausing…" in app.waiting)
            (command,) = store.commands()
            store.answer(command, "refused", "it is paused already")
            await until(pilot, lambda: "it is paused already" in said(app))
            await until(pilot, lambda: app.waiting == [])
            # A switch waits until a round with its settings is committed, and is answered after that.
            command = checkpoints.post(home / "main", "switch", {"method": "fedssa", "set": []})
            await until(pilot, lambda: app.waiting == ["switching to fedssa after round 13"])
            changes = ["method fedlora → fedssa"]
            about = {"before": "fedlora", "changes": changes, "adopted": "", "command": command.id}
            store.event("switched", round=12, method="fedssa", **about)
            await until(pilot, lambda: app.waiting == [])
            assert [each.id for each in app.view.run.pending] == [command.id]
            store.answer(command, "applied", "switched", 12)
            app.steering.post("checkpoint")
            await until(pilot, lambda: "checkpoint…" in app.waiting)
            store.close("stopped")
        await until(pilot, lambda: "checkpoint was too late: the run is stopped" in said(app))
        await until(pilot, lambda: not app.view.run.live)
        assert app.view.run.pending  # until the next start refuses it
        assert app.waiting == []

    drive(app, script)


def test_a_switch_waits_in_the_mailbox_of_a_session_that_nobody_runs(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.steering.post("switch", {"method": None, "set": ["rounds=20"]})
        await until(pilot, lambda: app.waiting == ["changing rounds=20 at the next start"])
        (command,) = checkpoints.pending(home / "main")
        assert command.arguments == {"method": None, "set": ["rounds=20"]}

    drive(app, script)


def test_a_request_that_waits_names_its_contents() -> None:
    waits: list[tuple[str, dict[str, Any], str]] = [
        ("pause", {}, "pausing…"),
        ("stop", {}, "stopping…"),
        ("checkpoint", {}, "checkpoint…"),
        ("checkpoint", {"cka": True}, "checkpoint with CKA…"),
        ("switch", {"method": "fedssa", "set": ["method.mu=1"]}, "switching to fedssa after round 13"),
        ("switch", {"method": None, "set": ["lr=1"]}, "changing lr=1 after round 13"),
        ("switch", {"method": None, "set": ["a=9", "b=1"]}, "changing a=9 and 1 more after round 13"),
        ("switch", {"method": "moon", "set": [], "at_round": 30}, "switching to moon after round 30"),
    ]
    progress = {"round": 13, "phase": "train"}
    for kind, arguments, words in waits:
        command = Command("1", kind, arguments, "2026-01-02T10:15:00Z", "me@here 1")
        assert _waiting(command, SessionData(Path("main"), progress=progress)) == words
        asleep = _waiting(command, SessionData(Path("main"), progress=progress, state="stopped"))
        assert asleep == (words.replace("after round 13", "at the next start") if kind == "switch" else "")


def test_a_run_that_fails_is_shown_as_failed_with_a_notice_and_a_line_in_the_log(home: Path) -> None:
    app = opened(home)

    def fail() -> None:
        raise ConfigError("the group has no such model.")

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.runs.start(Beginning(home / "main", fail, ()))  # type: ignore[arg-type]
        await until(pilot, lambda: app.view.run.state == "failed")
        assert "the group has no such model." in said(app)
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


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param("session.json", marks=pytest.mark.long),
        pytest.param("ledger.jsonl", marks=pytest.mark.long),
        "",
    ],
)
def test_a_session_that_is_damaged_or_vanishes_while_shown_is_said_and_the_app_goes_on(
    harm: str, home: Path
) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        if harm:
            (home / "main" / harm).write_bytes(b"{}\n" * 13)
        else:
            shutil.rmtree(home / "main")
        await until(pilot, lambda: app.view.run.error is not None)
        assert str(app.view.run.error) in said(app)
        assert app.view.run.round == 12  # as it was read last
        row = str(app.main.query_one("#status", Static).content)
        assert row.startswith("main · ! cannot be read · " if harm else "main · ! gone · ")
        (event,) = app.view.run.outages
        assert event["event"] == ("unreadable" if harm else "gone")
        assert upto(app.view)[-1] is event  # the last line of the log
        await pilot.press("space")
        assert not (home / "main" / "control" / "inbox").is_dir() or not checkpoints.pending(home / "main")
        await pilot.press("6")
        assert app.panel.id == "log"

    drive(app, script)


@pytest.mark.long
def test_a_second_run_gets_a_process_of_its_own_whose_failure_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, done, made = opened(home), threading.Event(), threading.Event()
    monkeypatch.setattr("htfl_sim.running.branch", lambda *given, **options: made.wait(600))

    def wait() -> None:
        done.wait(600)
        raise ConfigError("over")

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.runs.start(Beginning(home / "main", wait, ()))  # type: ignore[arg-type]
        app.runs._fork(home / "main", ForkWish(home / "fork", 7, "fedssa", (), "run"))
        assert "forking fork to fedssa after round 7…" in app.waiting
        made.set()
        await until(pilot, lambda: app.runs.elsewhere == ["fork"])
        assert app.runs.name == "main"  # on its thread, as before
        app.runs.start(Beginning(home / "fork", wait, ()))  # type: ignore[arg-type]
        await pilot.pause()
        assert "fork runs in its own process, beside main." in said(app)
        assert "fork is already starting or running." in said(app)
        await until(pilot, lambda: "fork failed:" in said(app))
        assert "fork" in said(app).split("fork failed:")[1]  # there is no such session
        assert app.runs.elsewhere == []
        assert app.runs.running
        done.set()
        await until(pilot, lambda: not app.runs.running)

    drive(app, script)


@pytest.mark.long
def test_only_the_visible_panel_draws_and_one_that_fails_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Blank, view: View) -> None:
        raise ZeroDivisionError("a fault in a panel")

    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        assert all(not panel.views for panel in app.query(Blank) if panel.id != "live")
        monkeypatch.setattr(Blank, "show", fail)
        await pilot.press("2")
        await until(pilot, lambda: "ZeroDivisionError: a fault in a panel" in said(app))
        monkeypatch.undo()
        await pilot.press("1")
        assert app.panel.id == "live"

    drive(app, script)
    app.on_run_read(RunRead(app.view.run))  # read while the app ends: it draws nothing
