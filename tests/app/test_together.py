"""Steering sessions from the list, without opening them: the one under the cursor, or all that are marked."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Store
from tests import sessions
from tests.app.driving import blanks, drive, until
from tui.app.app import HtflApp
from tui.app.dialogs.choose import Choose
from tui.app.dialogs.resume import ResumeDialog
from tui.app.launch_options import Beginning, LaunchOptions
from tui.app.panels.session_list import SessionList
from tui.app.panels.sessions import SessionsPanel

Stores = dict[str, Store]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """a and b run, c and d were stopped after 4 of 12 rounds, e is finished."""
    for name in "abcde":
        sessions.make(
            tmp_path / name,
            rounds=12 if name == "e" else 4,
            of=12,
            clients=4,
            state="finished" if name == "e" else "stopped",
        )
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
    start: Path | None = None,
) -> None:
    """The app on the list of sessions, once that has been read."""
    app = HtflApp(
        LaunchOptions(home, home / "data"), start, panels=[*blanks()[:-1], SessionsPanel("sessions")]
    )

    async def act(pilot: Pilot[str]) -> None:
        await pilot.press("s")
        table = app.query_one(SessionList)
        await until(pilot, lambda: bool(table.found))
        await pilot.pause()
        await script(pilot, app, table)

    drive(app, act)


def asked(store: Store) -> list[str]:
    return [command.kind for command in checkpoints.pending(store.folder)]


def notices(app: HtflApp) -> str:
    return " ".join(notice.message for notice in app._notifications)


def test_space_pauses_the_session_under_the_cursor_and_opens_nothing(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "b")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["b"]) == ["pause"])
        assert asked(live["a"]) == []
        assert app.view.run.name == ""
        (command,) = live["b"].commands()
        live["b"].answer(command, "applied", "no client trains", 4)
        await until(pilot, lambda: "b: pause: no client trains (after round 4)" in notices(app))

    drive_list(home, script)


def test_a_session_that_is_held_goes_on(home: Path, live: Stores) -> None:
    live["a"].heartbeat("paused", round=5, rounds=12)

    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "a")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["a"]) == ["resume"])

    drive_list(home, script)


def test_on_a_marked_one_keys_mean_all_that_are_marked(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        for name in "abc":
            table.put_cursor(home / name)
            await pilot.press("x")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["a"]) == asked(live["b"]) == ["pause"])
        assert checkpoints.pending(home / "c") == []  # nobody runs it
        assert "pause asked for: a, b." in notices(app)

    drive_list(home, script)


def test_on_one_that_is_not_marked_keys_mean_that_one(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "a")
        await pilot.press("x")
        table.put_cursor(home / "b")
        await pilot.press("space")
        await until(pilot, lambda: asked(live["b"]) == ["pause"])
        assert asked(live["a"]) == []

    drive_list(home, script)


def test_a_stop_names_whom_it_stops_and_asks_first(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        for name in "ab":
            table.put_cursor(home / name)
            await pilot.press("x")
        await pilot.press("S")
        assert isinstance(app.screen, Choose)
        assert "Stop a, b?" in str(app.screen.query_one(".title", Static).content)
        assert asked(live["a"]) == []
        await pilot.press("down", "enter")
        await until(pilot, lambda: asked(live["a"]) == asked(live["b"]) == ["stop"])

    drive_list(home, script)


def test_checkpoints_are_asked_of_all_that_run(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        for name in "ab":
            table.put_cursor(home / name)
            await pilot.press("x")
        await pilot.press("c", "enter")
        await until(pilot, lambda: asked(live["a"]) == asked(live["b"]) == ["checkpoint"])

    drive_list(home, script)


def test_what_nobody_runs_cannot_be_stopped_and_is_said_so(home: Path) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "c")
        await pilot.press("S")
        assert "Nobody runs c, so stop makes no sense" in notices(app)

    drive_list(home, script)


def test_space_on_one_that_was_stopped_asks_how_it_is_to_go_on(home: Path) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        table.put_cursor(home / "c")
        assert "resume" in str(app.query_one("#keys", Static).content)
        await pilot.press("space")
        await until(pilot, lambda: isinstance(app.screen, ResumeDialog))
        assert "Go on with c after round 4" in str(app.screen.query_one(".title", Static).content)
        assert app.view.run.name == ""

    drive_list(home, script)


def test_several_that_were_stopped_start_again_each_to_its_last_round(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Beginning] = []

    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        monkeypatch.setattr(app.runs, "start", begun.append)
        for name in "cde":
            table.put_cursor(home / name)
            await pilot.press("x")
        await pilot.press("space")
        assert "Start c, d again?" in str(app.screen.query_one(".title", Static).content)
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(begun) == 2)

    drive_list(home, script)
    assert [each.folder.name for each in begun] == ["c", "d"]  # e is finished
    assert begun[0].arguments[:2] == ("resume", str(home / "c"))


def test_of_the_session_shown_keys_mean_what_they_mean_everywhere(home: Path, live: Stores) -> None:
    async def script(pilot: Pilot[str], app: HtflApp, table: SessionList) -> None:
        await until(pilot, lambda: app.view.run.live)
        await pilot.press("s")
        table.put_cursor(home / "a")
        await pilot.press("space")
        await until(pilot, lambda: "pausing…" in app.waiting)
        assert asked(live["a"]) == ["pause"]

    drive_list(home, script, start=home / "a")
