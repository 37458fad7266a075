"""Runs and steering: what the app starts and asks for, answers, failures, and damage."""

import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer.main
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Command, Store
from htfl_sim.configuring import Choices
from simulator.base.errors import ConfigError
from simulator.config.user_files import Files
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.board import StudySummary
from tests import sessions
from tests.app.driving import Blank, driven, notices, opened, shown, until
from tui.app import runs
from tui.app.app import HtflApp
from tui.app.dialogs.run_forms import ForkWish, NewRun
from tui.app.host import Alert, sequence, tell_news
from tui.app.panels.log import upto
from tui.app.panels.sessions import SessionList
from tui.app.runs import Beginning, LaunchOptions, LocalRuns, ProcessRun, RunEnded, RunStarted, _failure
from tui.app.steering import Steering, _waiting
from tui.app.terminal import CANNOT, RUNS
from tui.app.view import View
from tui.app.watch import RunRead
from tui.cli import app as commands
from tui.cli.tui import _say_who_goes_on

# What the app does with answers, failures and damage: a sentence each, and it goes on.


HEARTBEAT = {"rounds": 40, "phase": "train", "done": 1, "clients": 4}


def said(app: HtflApp) -> str:
    return " ".join(notices(app))


@pytest.mark.long
async def test_commands_that_are_refused_too_late_or_made_are_said_and_wait_no_more(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
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
        assert app.view.run.pending and app.waiting == []  # until the next start refuses it


WAITS: list[tuple[str, dict[str, Any], str]] = [
    ("pause", {}, "pausing…"),
    ("stop", {}, "stopping…"),
    ("checkpoint", {}, "checkpoint…"),
    ("checkpoint", {"cka": True}, "checkpoint with CKA…"),
    ("switch", {"method": "fedssa", "set": ["method.mu=1"]}, "switching to fedssa after round 13"),
    ("switch", {"method": None, "set": ["lr=1"]}, "changing lr=1 after round 13"),
    ("switch", {"method": None, "set": ["a=9", "b=1"]}, "changing a=9 and 1 more after round 13"),
    ("switch", {"method": "moon", "set": [], "at_round": 30}, "switching to moon after round 30"),
]


def test_a_request_that_waits_names_its_contents() -> None:
    session = SessionData(Path("main"), progress={"round": 13, "phase": "train"})
    for kind, arguments, words in WAITS:
        command = Command("1", kind, arguments, "2026-01-02T10:15:00Z", "me@here 1")
        assert _waiting(command, session) == words
        asleep = words.replace("after round 13", "at the next start") if kind == "switch" else ""
        assert _waiting(command, replace(session, state="stopped")) == asleep


async def test_a_run_that_fails_is_shown_as_failed_with_a_notice_and_a_line_in_the_log(home: Path) -> None:
    app = opened(home)

    def fail() -> None:
        raise ZeroDivisionError

    async with driven(app) as pilot:
        await shown(app, pilot)
        app.runs.start(Beginning(home / "main", fail, ()))  # type: ignore[arg-type]
        await until(pilot, lambda: app.view.run.state == "failed")
        assert "main failed: this is a bug in htfl-sim" in said(app)
        assert app.view.run.events[-1]["event"] == "failed"
        assert "bug in htfl-sim" in app.view.run.events[-1]["message"]
        assert app.runs.launch is not None and isinstance(app.runs.launch.error, ZeroDivisionError)
        assert not app.runs.running


@pytest.mark.parametrize("harm", [pytest.param("ledger.jsonl", marks=pytest.mark.long), ""])
async def test_the_app_goes_on_if_its_session_is_damaged_or_vanishes(harm: str, home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
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


@pytest.mark.long
async def test_the_failure_of_a_second_runs_process_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, done, made = opened(home), threading.Event(), threading.Event()
    monkeypatch.setattr("htfl_sim.running.branch", lambda *given, **options: made.wait(600))

    def wait() -> None:
        done.wait(600)
        raise ConfigError("over")

    async with driven(app) as pilot:
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
        assert app.runs.elsewhere == [] and app.runs.running
        done.set()
        await until(pilot, lambda: not app.runs.running)


@pytest.mark.long
async def test_only_the_visible_panel_draws_and_may_fail(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Blank, view: View) -> None:
        raise ZeroDivisionError("a fault in a panel")

    app = opened(home)
    async with driven(app) as pilot:
        await shown(app, pilot)
        assert all(not panel.views for panel in app.query(Blank) if panel.id != "live")
        monkeypatch.setattr(Blank, "show", fail)
        await pilot.press("2")
        await until(pilot, lambda: "ZeroDivisionError: a fault in a panel" in said(app))
        monkeypatch.undo()
        await pilot.press("1")
        assert app.panel.id == "live"
    app.on_run_read(RunRead(app.view.run))  # read while the app ends: it draws nothing


# Runs in processes of their own: how they are begun, how their end is told, and that nothing is left of them.


SAID: dict[str, Any] = {
    "file": Path("x.toml"), "preset": "fedlora_htm5", "profile": "authors", "dataset": "digits", "method": "fedssa",
    "rounds": 7, "until": 0.9, "clients": 4, "seed": 3, "device": "cpu", "workers": 2, "partition": Path("p.json"),
    "assignments": ["method.mu=0.5", "training.epochs=2"], "models": ["cnn1", "mine.py:Net"],
    "metrics": [Path("f1.py")],
}  # fmt: skip
"""A value of every choice."""


def parsed(arguments: tuple[str, ...]) -> dict[str, Any]:
    """What `htfl-sim` makes of them."""
    name, *given = arguments
    command = typer.main.get_command(commands).commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, given)
    return {key: value for key, value in context.params.items() if value not in (None, False, [], ())}


def test_a_new_run_s_process_is_told_all_that_the_form_and_the_command_line_said(tmp_path: Path) -> None:
    assert list(Choices().typed()) == []
    options = LaunchOptions(tmp_path, tmp_path / "data", files=Files(plugins=("/home/me/mine.py",)))
    assert parsed(options.new(NewRun(Choices(**SAID), tmp_path / "one")).arguments) == {
        **SAID,
        "plugins": [Path("/home/me/mine.py")],
        "session": "one",
        "sessions_dir": tmp_path,
        "data_dir": str(tmp_path / "data"),
    }


def test_a_resume_s_process_is_told_rounds_files_and_whether_other_bits_will_do(tmp_path: Path) -> None:
    files = Files(("/m/a.py",), ("/m/b.py",), ("/m/c.py",))
    options = LaunchOptions(tmp_path, tmp_path / "data", workers=3, device="cpu", files=files)
    assert parsed(options.again(tmp_path / "one", 30, True).arguments) == {
        "session": str(tmp_path / "one"),
        "rounds": 30,
        "workers": 3,
        "device": "cpu",
        "data_dir": str(tmp_path / "data"),
        "allow_inexact": True,
        "plugins": [Path("/m/a.py")],
        "models": [Path("/m/b.py")],
        "metrics": [Path("/m/c.py")],
    }


def ended(folder: Path, *arguments: str, under_way: list[bool] | None = None) -> list[Any]:
    """What is told of a process from its start to its end. under_way: whether it was active then."""
    told: list[Any] = []

    def tell(message: Any) -> None:
        told.append(message)
        if under_way is not None:
            under_way.append(run.is_active)

    run = ProcessRun(folder, arguments, tell)
    run.start()
    assert run.is_active or under_way is None
    run.join(600)
    assert not run.is_alive()
    return told


@pytest.mark.long
def test_a_failed_process_is_quoted_and_is_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    under_way: list[bool] = []
    (last,) = ended(tmp_path / "none", "resume", str(tmp_path / "none"), under_way=under_way)
    assert under_way == [False]  # what it told may be answered before its thread is gone
    assert isinstance(last, RunEnded)
    assert last.folder == tmp_path / "none"
    assert last.failure is not None
    assert last.failure.startswith(f"no session '{tmp_path / 'none'}' in sessions.")
    assert [each for each in psutil.Process().children() if each.status() == psutil.STATUS_ZOMBIE] == []
    assert capfd.readouterr() == ("", "")  # nothing of it comes into the app's terminal


def test_a_process_that_cannot_be_had_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(runs, "Process", refuse)
    (last,) = ended(tmp_path / "none", "run")
    assert last == RunEnded(tmp_path / "none", "stopped", last.failure)
    assert "Resource temporarily unavailable" in last.failure


def test_what_a_process_did_not_say_is_told_by_how_it_ended() -> None:
    assert _failure(2, "session  one\nerror: no such preset.\n") == "no such preset."
    assert _failure(-9, "round 1/2 …") == "its process was stopped by SIGKILL."
    assert _failure(9, "") == "its process ended with exit code 9."


async def test_leaving_the_app_says_whose_processes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalRuns, "running", True)
    monkeypatch.setattr(LocalRuns, "name", "one")
    monkeypatch.setattr(LocalRuns, "elsewhere", ["two", "three"])
    async with driven(opened(tmp_path, None)) as pilot:
        await pilot.press("q")
        said = str(pilot.app.screen.query_one(".text", Static).content)
        assert said.startswith("one runs in this process.")
        assert "two continues in its own process. three continues in its own process." in said
    _say_who_goes_on(["two"])
    assert "end it: htfl-sim stop two" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own_owns_its_session_and_finishes_it(tmp_path: Path) -> None:
    options = LaunchOptions(tmp_path, tmp_path / "data")
    choices = Choices(rounds=2, clients=2, assignments=("data.limit=200",))
    beginning = options.new(NewRun(choices, tmp_path / "one"))
    began, last = ended(tmp_path / "one", *beginning.arguments)
    assert began == RunStarted(tmp_path / "one")
    assert last == RunEnded(tmp_path / "one", "finished")
    assert len(checkpoints.SessionReader(tmp_path / "one").records()) == 2


# Steering sessions from the list, without opening them: the one under the cursor, or all that are marked.


Stores = dict[str, Store]


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """a and b are run by `live`, c and d were stopped, all after 4 of 12 rounds."""
    for name in "abcd":
        sessions.make(tmp_path / name, rounds=4, of=12, clients=4, state="stopped")
    return tmp_path


@pytest.fixture
def live(four: Path) -> Iterator[Stores]:
    with ExitStack() as stack:
        stores = {name: stack.enter_context(Store.open(four / name)) for name in "ab"}
        for store in stores.values():
            store.heartbeat("running", round=5, rounds=12, phase="train", done=1, clients=4)
        yield stores


@asynccontextmanager
async def on_list(
    four: Path, start: str | None = None
) -> AsyncIterator[tuple[HtflApp, Pilot[Any], SessionList]]:
    """The app on the list of sessions, once that has been read."""
    app = opened(four, start, "sessions")
    async with driven(app) as pilot:
        await pilot.press("s")
        table = app.query_one(SessionList)
        await until(pilot, lambda: bool(table.found))
        await pilot.pause()
        yield app, pilot, table


def asked(store: Store) -> list[str]:
    return [command.kind for command in checkpoints.pending(store.folder)]


async def test_space_pauses_the_session_under_the_cursor_and_opens_nothing(four: Path, live: Stores) -> None:
    async with on_list(four) as (app, pilot, table):
        table.put_cursor(four / "b")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["b"]) == ["pause"])
        assert asked(live["a"]) == []
        assert app.view.run.name == ""
        (command,) = live["b"].commands()
        live["b"].answer(command, "applied", "no client trains", 4)
        await until(pilot, lambda: "b: pause: no client trains (after round 4)" in " ".join(notices(app)))


@pytest.mark.long
async def test_on_a_marked_one_keys_mean_all_that_are_marked(four: Path, live: Stores) -> None:
    async with on_list(four) as (app, pilot, table):
        for name in "abc":
            table.put_cursor(four / name)
            await pilot.press("x")
        assert [each.name for each in app.panel.steered()] == ["a", "b", "c"]
        await pilot.press("space")
        await until(pilot, lambda: asked(live["a"]) == asked(live["b"]) == ["pause"])
        assert checkpoints.pending(four / "c") == []  # nobody runs it
        assert "Requested pause: a, b." in " ".join(notices(app))
        table.put_cursor(four / "d")
        await pilot.pause()
        assert [each.name for each in app.panel.steered()] == ["d"]
        assert "resume" in str(app.query_one("#keys", Static).content)


@pytest.mark.long
async def test_of_the_session_shown_keys_mean_what_they_mean_everywhere(four: Path, live: Stores) -> None:
    async with on_list(four, "a") as (app, pilot, table):
        await until(pilot, lambda: app.view.run.live)
        table.put_cursor(four / "a")
        await pilot.press("space")
        await until(pilot, lambda: "pausing…" in app.waiting)
        assert asked(live["a"]) == ["pause"]


class Desk:
    """Host, mailboxes and runs in one, that note what they are asked for; a question is answered with `answer`."""

    def __init__(self, answer: str) -> None:
        self.answer, self.background = answer, self
        self.done: list[str] = []

    def say(self, message: str, severity: str = "information", holds: Any = None) -> None:
        self.done.append(message)

    def ask(self, dialog: Any, then: Callable[[str], None]) -> None:
        self.done.append(dialog._title)
        then(self.answer)

    def post(self, kind: str, arguments: object = None, folder: Path = Path()) -> None:
        self.done.append(f"{kind} {folder.name}")

    def start_study(self, study: StudySummary) -> None:
        self.done.append(f"start {study.name}")

    def resume(self, run: SessionData) -> None:
        self.done.append(f"ask for {run.name}")

    def resume_as_they_are(self, folders: Sequence[Path]) -> None:
        self.done += [f"start {folder.name}" for folder in folders]

    def run(self, topic: str, doing: str, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())


STEERED = [
    # Those that run are held first, and go on once none does.
    ("pause", "running paused stopped", ["pause a", "Requested pause: a."]),
    ("pause", "paused pausing stopped", ["resume a", "resume b", "Requested resume: a, b."]),
    ("stop", "running paused finished", ["Stop a, b?", "stop a", "stop b", "Requested stop: a, b."]),
    ("stop no", "running " * 5, ["Stop a, b, c, 2 more?"]),
    ("stop", "stopped", ["a: not running. Press space to resume."]),
    ("checkpoint", "stopped", ["a: not running. Press space to resume."]),
    ("checkpoint", "running stopped paused", ["Write a checkpoint", "checkpoint a", "checkpoint c"]),
    ("pause", "stopped", ["ask for a"]),
    ("pause", "stopped interrupted finished", ["Resume a, b?", "start a", "start b"]),
    ("pause", "finished finished", ["a, b: already finished."]),
    ("pause", "stopping", ["a: already stopping."]),
    ("pause", "damaged", ["a: damaged."]),
]
"""What a key does to sessions a, b, … in these states, and "no" to its question."""


def done(keys: str, chosen: Sequence[Any]) -> list[str]:
    what, _, answer = keys.partition(" ")
    desk = Desk(answer or "yes")
    steering = Steering(desk, desk, desk)  # type: ignore[arg-type]
    steering.post = desk.post  # type: ignore[assignment, method-assign]
    steering.steer_listed(what, chosen)
    return desk.done


def test_a_key_on_sessions_of_the_list_does_what_their_states_allow(tmp_path: Path) -> None:
    sessions.make(tmp_path / "a", rounds=2, clients=2, state="stopped")
    for keys, states, expected in STEERED:
        named = zip("abcdef", states.split(), strict=False)
        fault = {"damaged": "cannot be read"}
        chosen = [Summary(name, str(tmp_path / name), state, error=fault.get(state)) for name, state in named]
        assert done(keys, chosen) == expected


def test_a_study_s_sweep_is_held_in_its_own_mailbox_and_started_by_its_own_command(tmp_path: Path) -> None:
    for state, expected in (
        ("running", ["pause t3", "Requested pause: t3."]),
        ("stopped", ["Continue t3?", "start t3"]),
        ("finished", ["t3: already finished."]),
    ):
        assert done("pause", [StudySummary("t3", "x/t3", state, 4, ())]) == expected
    running = StudySummary("t3", "x/t3", "running", 4, ())
    assert done("checkpoint", [running]) == ["t3: only sessions write checkpoints."]
    options = LaunchOptions(tmp_path, tmp_path / "data", workers=2)
    for tuning, command in ((False, "sweep"), (True, "tune")):
        study = StudySummary("t3", str(tmp_path / "t3"), "stopped", 4, (), is_tuning=tuning)
        assert options.study(study) == (
            command, "t3", "--sessions-dir", str(tmp_path), "--workers", "2", "--data-dir", str(tmp_path / "data"),
        )  # fmt: skip


# ctrl+z gives the terminal to the shell, except while this process runs a session.


@pytest.mark.long
@pytest.mark.parametrize(
    ("able", "running", "expected"),
    [
        (True, "", (os.getpid(), signal.SIGTSTP)),
        (False, "", CANNOT),
        (True, "main", RUNS.format(name="main")),
    ],
)
async def test_ctrl_z_stops_this_process_unless_that_is_impossible_or_would_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: bool, running: str, expected: Any
) -> None:
    app, sent = opened(tmp_path, None), list[Any]()
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    async with driven(app) as pilot:
        monkeypatch.setattr(type(app._driver), "can_suspend", property(lambda _: able))
        if running:
            monkeypatch.setattr(LocalRuns, "running", True)
            monkeypatch.setattr(LocalRuns, "name", running)
        await pilot.press("ctrl+z")
        await until(pilot, lambda: bool(sent or app._notifications))
        assert [*sent, *notices(app)] == [expected]
    monkeypatch.undo()


# What the app and its terminal do when a watcher notices something.


NOTICED: Any = {
    "at": "2026-01-02T10:15:00Z",
    "event": "noticed",
    "round": 3,
    "watcher": "plateau",
    "message": "mean accuracy has not exceeded 50.0 %",
    "clients": [],
    "action": "pause",
}
BEFORE: Any = {"at": "2026-01-02T10:14:00Z", "event": "checkpoint", "round": 2}


def run(*events: Any, document: Any = {"id": "x"}) -> SessionData:  # noqa: B006 - nobody changes it
    return SessionData(Path("mu07"), document=document, events=events)


def test_a_terminal_rings_and_shows_a_short_notice_also_under_tmux() -> None:
    alerts: list[tuple[Alert, dict[str, str], str]] = [
        ("off", {}, ""),
        ("bell", {}, "\a"),
        ("desktop", {}, "\a\x1b]9;htfl-sim: mu07\a"),
        ("desktop", {"TMUX": "/tmp/tmux"}, "\a\x1bPtmux;\x1b\x1b]9;htfl-sim: mu07\a\x1b\\"),
        ("desktop", {"STY": "1.screen"}, "\a"),
    ]
    for alert, environment, expected in alerts:
        assert sequence("mu07", alert, environment) == expected
    long = sequence("a\x1b]0;b\a\n" + 300 * "c", "desktop", {})  # it steers no terminal
    assert long == "\a\x1b]9;htfl-sim: a]0;b" + 195 * "c" + "\a"


def test_what_came_since_the_last_reading_is_said_and_rings_and_nothing_when_a_session_is_opened() -> None:
    later, words = (
        run(BEFORE, NOTICED),
        "Round 3: plateau: mean accuracy has not exceeded 50.0 %; the run pauses",
    )
    cases: list[tuple[SessionData, SessionData, Alert, list[str]]] = [
        (run(BEFORE), later, "off", [words]),
        (run(BEFORE), later, "bell", [words, "\a"]),
        (later, run(BEFORE, NOTICED, BEFORE), "bell", []),
        (run(document={}), later, "bell", []),
        (run(BEFORE), replace(later, folder=Path("other")), "bell", []),
    ]
    for before, now, alert, expected in cases:
        told = list[str]()
        tell_news(before, now, alert, lambda said, tone, told=told: told.append(said), told.append)  # type: ignore[misc]
        assert told == expected


async def test_a_session_that_is_shown_tells_what_its_watchers_notice(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=3, clients=4)
    app = opened(tmp_path, alert="bell")
    async with driven(app) as pilot:
        await until(pilot, lambda: app.view.run.round == 3)
        before = app.view.run
        app.on_run_read(type("Read", (), {"run": replace(before, events=(*before.events, NOTICED))})())
        await pilot.pause()
        (notice,) = app._notifications
        assert notice.message == "Round 3: plateau: mean accuracy has not exceeded 50.0 %; the run pauses"
