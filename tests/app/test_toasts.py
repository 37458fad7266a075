"""Notices: each is true while it is shown, and hides no line of keys."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Static
from textual.widgets._toast import Toast

from checkpoints import Store
from tests import sessions
from tests.app.driving import drive, notices, opened, shown, until
from tui.app.app import HtflApp
from tui.app.dialogs.base import Text
from tui.app.messages import RoundRefused, RunEnded
from tui.app.widgets.screen import Filter

ROUNDS = 12


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions.make(tmp_path / "main", rounds=ROUNDS, clients=4, state="stopped")
    sessions.make(tmp_path / "other", rounds=3, clients=4)
    return tmp_path


Ending = Callable[[HtflApp, Pilot[str], Path], Awaitable[object]]


async def press(pilot: Pilot[str], keys: str) -> None:
    await pilot.press(*keys.split())
    await pilot.pause()


async def comes_to_life(app: HtflApp, pilot: Pilot[str], home: Path) -> None:
    with Store.open(home / "main") as store:
        store.heartbeat("running", round=13, rounds=40)
        await until(pilot, lambda: app.view.run.live)


async def opens_other(app: HtflApp, pilot: Pilot[str], home: Path) -> None:
    app.open_session(home / "other")


ENDINGS: list[tuple[str, str, str, Ending]] = [
    ("left_square_bracket", "space", "You are viewing round 11.", lambda app, pilot, home: press(pilot, "L")),
    ("", "r", "Choose a round first", lambda app, pilot, home: press(pilot, "left_square_bracket")),
    ("", "u", "u works in Cost", lambda app, pilot, home: press(pilot, "4")),
    ("", "percent_sign", "The mouse selects text", lambda app, pilot, home: press(pilot, "percent_sign")),
    ("L", "S", "main is stopped, and a stop needs a running session.", comes_to_life),
    ("left_square_bracket", "space", "You are viewing round 11.", opens_other),
]


@pytest.mark.long
def test_a_notice_disappears_when_its_cause_ends(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        for before, key, said, ending in ENDINGS:

            def stands(said: str = said) -> bool:
                toasts = [str(toast.render()) for toast in app.query(Toast)]
                return all(any(said in each for each in texts) for texts in (notices(app), toasts))

            await press(pilot, before)
            await press(pilot, key)
            await until(pilot, stands)
            app.draw()
            assert stands()  # a new look does not end it
            await ending(app, pilot, home)
            await until(pilot, lambda: not stands())
            assert not any(said in each for each in notices(app))

    drive(app, script, toasts=True)


def test_without_a_session_the_reason_is_that_and_ends_with_it(home: Path) -> None:
    app = opened(home, None)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.panel.id == "sessions")
        await press(pilot, "1 m")
        assert notices(app) == ["No session is open. Press a to open one or n to start a run."]
        app.open_session(home / "main")
        assert notices(app) == []

    drive(app, script)


@pytest.mark.long
def test_notices_are_said_only_while_true_and_none_twice(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        app.runs.ended(RunEnded(home / "main", "stopped"))
        assert notices(app) == ["main is stopped."]
        app.runs._latest = lambda folder: object()  # type: ignore[assignment, method-assign, return-value]
        app.draw()
        assert notices(app) == []  # as it runs again
        app.post_message(RoundRefused("The checkpoint of round 11 is gone.", 11))
        await pilot.pause()
        assert notices(app) == []  # not the round shown
        for _ in range(3):
            app.say("Wrote it.")
        assert notices(app) == ["Wrote it."]
        shutil.move(home / "main", home / "away")
        await until(pilot, lambda: len(notices(app)) == 2)
        shutil.move(home / "away", home / "main")
        await until(pilot, lambda: notices(app) == ["Wrote it."])  # it can be read again

    drive(app, script)


@pytest.mark.parametrize("size", [(60, 16), pytest.param((120, 40), marks=pytest.mark.long)])
def test_notices_hide_no_line_of_keys(size: tuple[int, int], home: Path) -> None:
    app = opened(home)

    def hidden(line: Region) -> bool:
        return any(toast.region.overlaps(line) for toast in app.screen.query(Toast))

    async def say(pilot: Pilot[str]) -> None:
        app.say("You are viewing round 114. Press L for the newest round, or f to fork here. " * 2)
        app.say("Requested pause: main.")
        await until(pilot, lambda: len(app.screen.query(Toast)) == 2)
        await until(pilot, lambda: all(toast.region.height for toast in app.screen.query(Toast)))

    async def script(pilot: Pilot[str]) -> None:
        await shown(app, pilot)
        await say(pilot)
        for row in ("#status", "#tabs", "#keys"):
            assert not hidden(app.main.query_one(row).region)
        await press(pilot, "slash")
        assert app.main.query_one(Filter).region.height
        assert not hidden(app.main.query_one(Filter).region)
        await press(pilot, "escape")
        app.push_screen(Text("A long text", "line\n" * 60))
        await say(pilot)
        assert not hidden(app.screen.query_one(".hint", Static).region)

    drive(app, script, size=size, toasts=True)
