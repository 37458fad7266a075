"""Undo for pins, marks, and filters: what each was before."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tui.app.host import Host

STEPS = 50
"""Changes that can be undone: the last ones."""
PINS, MARKS, FILTER = "pins", "marks", "filter"


@dataclass(frozen=True)
class Step:
    """What was there before a change. run: the session whose clients were pinned. panel: where the filter was set."""

    what: str
    before: object
    run: Path
    panel: str


class Undo:
    """The app calls `note` before a change. `back` restores what differs by now."""

    def __init__(self, host: Host, mark: Callable[[tuple[Path, ...]], None]) -> None:
        """mark: marks these sessions and no others."""
        self._host, self._mark = host, mark
        self._steps: list[Step] = []
        self._restoring = False

    def note(self, what: str) -> None:
        """Remember the pins, marks, or filter before they change."""
        if self._restoring:
            return
        view, panel = self._host.view, self._host.panel.id or ""
        self._steps.append(Step(what, self._now(what), view.run.folder, panel))
        del self._steps[:-STEPS]

    def back(self) -> None:
        """Undo the last change that is still in force."""
        while self._steps:
            step = self._steps.pop()
            if step.what == FILTER and step.panel != self._host.panel.id:
                self._host.show_panel(step.panel)  # its words are of its rows
            of_another = step.what == PINS and step.run != self._host.view.run.folder
            if not of_another and step.before != self._now(step.what):
                self._restore(step)
                return
        self._host.say("No change of pins, marks, or filter is left to undo.")

    def _now(self, what: str) -> object:
        view = self._host.view
        return {PINS: view.pinned, MARKS: view.marked, FILTER: view.filter}[what]

    def _restore(self, step: Step) -> None:
        restore: dict[str, Callable[..., None]] = {
            PINS: self._host.pin,
            MARKS: self._mark,
            FILTER: self._host.filter,
        }
        self._restoring = True
        restore[step.what](step.before)
        self._restoring = False
        self._host.say(f"Undone. {SAID[step.what](step.before)}")


def _pins(clients: frozenset[int]) -> str:
    return f"Pinned: {', '.join(map(str, sorted(clients)))}." if clients else "No client is pinned."


def _marks(folders: tuple[Path, ...]) -> str:
    return f"Marked: {', '.join(each.name for each in folders)}." if folders else "No session is marked."


def _filter(words: str) -> str:
    return f"Filter: {words}." if words else "No filter."


SAID: dict[str, Callable[..., str]] = {PINS: _pins, MARKS: _marks, FILTER: _filter}
