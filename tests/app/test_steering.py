"""Steering sessions from the list, without opening them: the one under the cursor, or all that are marked."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Store
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.board import StudySummary
from tests import sessions
from tests.app.driving import drive, notices, opened, until
from tui.app.app import HtflApp
from tui.app.panels.session_list import SessionList
from tui.app.runs import LaunchOptions
from tui.app.steering import Steering

Stores = dict[str, Store]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """a and b are run by `live`, c and d were stopped, all after 4 of 12 rounds."""
    for name in "abcd":
        sessions.make(tmp_path / name, rounds=4, of=12, clients=4, state="stopped")
    return tmp_path


@pytest.fixture
def live(home: Path) -> Iterator[Stores]:
    with ExitStack() as stack:
        stores = {name: stack.enter_context(Store.open(home / name)) for name in "ab"}
        for store in stores.values():
            store.heartbeat("running", round=5, rounds=12, phase="train", done=1, clients=4)
        yield stores


def drive_list(
    home: Path,
    script: Callable[[Pilot[str], HtflApp, SessionList], Awaitable[None]],
    start: str | None = None,
) -> None:
    """The app on the list of sessions, once that has been read."""
    app = opened(home, start, "sessions")

    async def act(pilot: Pilot[str]) -> None:
        await pilot.press("s")
        table = app.query_one(SessionList)
        await until(pilot, lambda: bool(table.found))
        await pilot.pause()
        await script(pilot, app, table)

    drive(app, act)


def asked(store: Store) -> list[str]:
    return [command.kind for command in checkpoints.pending(store.folder)]


def test_space_pauses_the_session_under_the_cursor_and_opens_nothing(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "b")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["b"]) == ["pause"])
        assert asked(live["a"]) == []
        assert app.view.run.name == ""
        (command,) = live["b"].commands()
        live["b"].answer(command, "applied", "no client trains", 4)
        await until(pilot, lambda: "b: pause: no client trains (after round 4)" in " ".join(notices(app)))

    drive_list(home, script)


@pytest.mark.long
def test_on_a_marked_one_keys_mean_all_that_are_marked(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        for name in "abc":
            table.put_cursor(home / name)
            await pilot.press("x")
        assert [each.name for each in app.panel.steered()] == ["a", "b", "c"]
        await pilot.press("space")
        await until(pilot, lambda: asked(live["a"]) == asked(live["b"]) == ["pause"])
        assert checkpoints.pending(home / "c") == []  # nobody runs it
        assert "Requested pause: a, b." in " ".join(notices(app))
        table.put_cursor(home / "d")
        await pilot.pause()
        assert [each.name for each in app.panel.steered()] == ["d"]
        assert "resume" in str(app.query_one("#keys", Static).content)

    drive_list(home, script)


@pytest.mark.long
def test_of_the_session_shown_keys_mean_what_they_mean_everywhere(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        await until(pilot, lambda: app.view.run.live)
        table.put_cursor(home / "a")
        await pilot.press("space")
        await until(pilot, lambda: "pausing…" in app.waiting)
        assert asked(live["a"]) == ["pause"]

    drive_list(home, script, "a")


class Desk:
    """Host, mailboxes and runs in one, that note what they are asked for; a question is answered with `answer`."""

    def __init__(self, answer: str = "yes") -> None:
        self.answer, self.background = answer, self
        self.said: list[str] = []
        self.posted: list[tuple[str, str]] = []
        self.resumed: list[str] = []
        self.started: list[list[str]] = []
        self.titles: list[str] = []

    def say(self, message: str, severity: str = "information", holds: Any = None) -> None:
        self.said.append(message)

    def ask(self, dialog: Any, then: Callable[[str], None]) -> None:
        self.titles.append(dialog._title)
        then(self.answer)

    def post(self, kind: str, arguments: object = None, folder: Path = Path()) -> None:
        self.posted.append((kind, folder.name))

    def start_study(self, study: StudySummary) -> None:
        self.started.append([study.name])

    def resume(self, run: SessionData) -> None:
        self.resumed.append(run.name)

    def resume_as_they_are(self, folders: Sequence[Path]) -> None:
        self.started.append([folder.name for folder in folders])

    def run(self, topic: str, doing: str, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())


def steered(desk: Desk, what: str, *states: str, folder: Path = Path()) -> Desk:
    """What comes of a key on sessions a, b, … in these states."""
    chosen = [Summary(name, str(folder / name), state) for name, state in zip("abcdef", states, strict=False)]
    return told(desk, what, chosen)


def told(desk: Desk, what: str, chosen: Sequence[Any]) -> Desk:
    steering = Steering(desk, desk, desk)  # type: ignore[arg-type]
    steering.post = desk.post  # type: ignore[assignment, method-assign]
    steering.steer_listed(what, chosen)
    return desk


def test_those_that_run_are_held_first_and_go_on_once_none_does() -> None:
    assert steered(Desk(), "pause", "running", "paused", "stopped").posted == [("pause", "a")]
    assert steered(Desk(), "pause", "paused", "pausing", "stopped").posted == [
        ("resume", "a"),
        ("resume", "b"),
    ]


def test_a_stop_names_whom_it_stops_and_asks_first() -> None:
    desk = steered(Desk(), "stop", "running", "paused", "finished")
    assert desk.titles == ["Stop a, b?"]
    assert desk.posted == [("stop", "a"), ("stop", "b")]
    assert steered(Desk("no"), "stop", "running").posted == []
    assert steered(Desk(), "stop", *["running"] * 5).titles == ["Stop a, b, c, 2 more?"]


def test_checkpoints_and_stops_are_for_those_that_run() -> None:
    for what in ("stop", "checkpoint"):
        desk = steered(Desk(), what, "stopped")
        assert desk.posted == []
        assert desk.said[0].startswith("a: not running.")
    posted = steered(Desk(), "checkpoint", "running", "stopped", "paused").posted
    assert posted == [("checkpoint", "a"), ("checkpoint", "c")]


def test_one_that_was_stopped_asks_how_it_is_to_go_on(tmp_path: Path) -> None:
    sessions.make(tmp_path / "a", rounds=2, clients=2, state="stopped")
    assert steered(Desk(), "pause", "stopped", folder=tmp_path).resumed == ["a"]


def test_several_that_were_stopped_start_again_and_what_is_finished_is_left() -> None:
    desk = steered(Desk(), "pause", "stopped", "interrupted", "finished")
    assert desk.titles == ["Resume a, b?"]
    assert desk.started == [["a", "b"]]
    assert steered(Desk(), "pause", "finished", "finished").said == ["a, b: already finished."]


def test_a_study_s_sweep_is_held_in_its_own_mailbox_and_started_by_its_own_command(tmp_path: Path) -> None:
    for state, posted, started, words in (
        ("running", [("pause", "t3")], [], "Requested pause: t3."),
        ("stopped", [], [["t3"]], None),
        ("finished", [], [], "t3: already finished."),
    ):
        desk = told(Desk(), "pause", [StudySummary("t3", "x/t3", state, 4, ())])
        assert (desk.posted, desk.started, desk.said) == (posted, started, [words] if words else [])
    options = LaunchOptions(tmp_path, tmp_path / "data", workers=2)
    for tuning, command in ((False, "sweep"), (True, "tune")):
        study = StudySummary("t3", str(tmp_path / "t3"), "stopped", 4, (), is_tuning=tuning)
        assert options.study(study) == (
            command, "t3", "--sessions-dir", str(tmp_path), "--workers", "2", "--data-dir", str(tmp_path / "data"),
        )  # fmt: skip
