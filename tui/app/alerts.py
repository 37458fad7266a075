"""Tell the user when a watcher notices something: in the app, and by the terminal's bell or a desktop notice."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from simulator.base.documents import Event
from simulator.results.analysis.events import description
from simulator.results.analysis.run import SessionData
from tui.app.host import Severity

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


class Alerts:
    """Tells what is new each time a session is read."""

    def __init__(
        self, alert: Alert, say: Callable[[str, Severity], None], write: Callable[[str], object]
    ) -> None:
        """say: shows a sentence in the app. write: sends characters to the terminal."""
        self._alert, self._say, self._write = alert, say, write

    def look(self, before: SessionData, now: SessionData) -> None:
        """Tell what watchers noticed since `before`."""
        for event in news(before, now):
            words = f"Round {event['round']}: {description(event)}"
            self._say(words, "warning")
            if found := sequence(f"{now.name}, {words}", self._alert):
                self._write(found)
