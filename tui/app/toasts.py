"""Notices over the screen, each only as long as it is true."""

from typing import Any

from textual.app import App
from textual.notifications import Notification, Notify
from textual.widgets._toast import Toast

from tui.app.host import Holds, Host, Severity
from tui.app.keys import PLACES, Key

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
        """Remove the notices that are not true any more."""
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


def say_fault(host: Host, before: str | None) -> None:
    """Say what keeps the session shown from being read, as long as it does. before: what did until now."""
    run = host.view.run
    if run.error and run.error != before:
        fault = run.folder, run.error
        host.say(run.error, "error", lambda: (host.view.run.folder, host.view.run.error) == fault)


def say_places(host: Host, key: Key) -> None:
    """Say where a key works, as long as the panel is shown in which it does not."""
    places, panel = ", ".join(PLACES[each] for each in key.where), host.panel.id
    host.say(f"{key.print} works in {places}: {key.about}", holds=lambda: host.panel.id == panel)
