"""Notices over the screen, each only as long as it is true, and what tells of news outside the app."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from textual.app import App
from textual.notifications import Notification, Notify
from textual.widgets._toast import Toast

from simulator.base.documents import Event
from simulator.results.analysis.events import description
from simulator.results.analysis.run import SessionData
from tui.app.host import Holds, Severity

SECONDS: dict[Severity, float] = {"information": 5.0, "warning": 8.0, "error": 12.0}


class Toasts:
    """The notices of an app that may end before their time."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._shown: list[tuple[Notification, Holds]] = []

    def show(self, text: str, severity: Severity, holds: Holds | None) -> None:
        """Show a notice, unless it is not true any more. It replaces an equal one."""
        self.review()
        if holds is not None and not holds():
            return
        self._remove([each for each in self._app._notifications if each.message == text])
        notice = Notification(text, severity=severity, timeout=SECONDS[severity], markup=False)
        if holds is not None:
            self._shown.append((notice, holds))
        self._app._on_notify(Notify(notice))

    def review(self) -> None:
        self._shown = [(each, holds) for each, holds in self._shown if not each.has_expired]
        if over := [each for each, holds in self._shown if not holds()]:
            self._shown = [(each, holds) for each, holds in self._shown if each not in over]
            self._remove(over)

    def _remove(self, notices: list[Notification]) -> None:
        toasts = {id(toast._notification): toast for toast in self._app.screen.query(Toast)}
        for each in notices:
            if (toast := toasts.get(id(each))) is not None:
                toast._expire()  # with the room that it takes
            elif each in self._app._notifications:
                self._app._unnotify(each)


Alert = Literal["off", "bell", "desktop"]
BELL = "\a"
LONGEST = 200
"""Characters of a desktop notice."""


def news(before: SessionData, now: SessionData) -> Iterator[Event]:
    """What watchers have noticed since the session was read before. Nothing when it is opened."""
    if before.document and before.folder == now.folder and before.events is not now.events:
        for event in now.events[len(before.events) :]:
            if event["event"] == "noticed":
                yield event


def sequence(text: str, alert: Alert, environment: Mapping[str, str] = os.environ) -> str:
    """The characters that make a terminal ring and, for 'desktop', show a notice (OSC 9).

    tmux passes the notice on only if its option `allow-passthrough` is on. screen does not, so there it only rings.
    """
    if alert == "off":
        return ""
    if alert == "bell" or "STY" in environment:
        return BELL
    plain = "".join(each for each in text if each.isprintable())[:LONGEST]
    notice = f"\x1b]9;htfl-sim: {plain}{BELL}"
    if "TMUX" in environment:
        notice = "\x1bPtmux;" + notice.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return BELL + notice


def tell_news(
    before: SessionData,
    now: SessionData,
    alert: Alert,
    say: Callable[[str, Severity], None],
    write: Callable[[str], object],
) -> None:
    """Tell what watchers noticed since `before`. say: shows a sentence. write: sends characters to the terminal."""
    for event in news(before, now):
        words = f"Round {event['round']}: {description(event)}"
        say(words, "warning")
        if found := sequence(f"{now.name}, {words}", alert):
            write(found)
