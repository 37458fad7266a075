"""What the app and its terminal do when a watcher notices something."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import drive, opened, until
from tui.app.toasts import Alert, news, sequence, tell_news

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


def test_what_came_since_the_last_reading_is_news() -> None:
    assert list(news(run(BEFORE), run(BEFORE, NOTICED))) == [NOTICED]
    assert list(news(run(BEFORE, NOTICED), run(BEFORE, NOTICED, BEFORE))) == []


def test_what_was_there_when_a_session_is_opened_is_no_news() -> None:
    assert list(news(run(document={}), run(NOTICED))) == []
    assert list(news(run(BEFORE), replace(run(BEFORE, NOTICED), folder=Path("other")))) == []


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


def test_the_app_says_it_and_the_terminal_rings() -> None:
    said: list[tuple[str, str]] = []
    written: list[str] = []
    alerts: tuple[Alert, ...] = ("off", "bell")
    for alert in alerts:
        tell_news(
            run(BEFORE),
            run(BEFORE, NOTICED),
            alert,
            lambda words, tone: said.append((words, tone)),
            written.append,
        )
    words = "Round 3: plateau: mean accuracy has not exceeded 50.0 %; the run pauses"
    assert said == [(words, "warning")] * 2
    assert written == ["\a"]


def test_a_session_that_is_shown_tells_what_its_watchers_notice(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=3, clients=4)
    app = opened(tmp_path, alert="bell")

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 3)
        before = app.view.run
        app.on_run_read(type("Read", (), {"run": replace(before, events=(*before.events, NOTICED))})())
        await pilot.pause()
        (notice,) = app._notifications
        assert notice.message == "Round 3: plateau: mean accuracy has not exceeded 50.0 %; the run pauses"

    drive(app, script)
