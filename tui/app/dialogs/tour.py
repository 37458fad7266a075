"""Pages for newcomers on the first start."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog

PAGES = (
    "Clients with different models and different data learn together. The status row shows the session, its state, and "
    "its progress. The tabs below it are the panels. Press a panel's digit, or s for Sessions.",
    "Start with Live. It shows accuracy over the rounds, the clients, the traffic, and the similarity of the models. "
    "Press y to change the chart, p to pin a client, and z to give one part the whole screen.",
    "space pauses and resumes, c writes a checkpoint, m switches the method during a run, and S stops. A command acts "
    "between two clients or two rounds. Until then, the status row shows it.",
    "[ and ] show earlier and later rounds. L returns to the newest round. f forks a new session from the round shown, "
    "with another method or seed. In Sessions, x marks sessions and v compares them.",
    "q asks whether training continues without the app. ? lists every key. ctrl+p finds every command by name.",
)


class Tour(Dialog[None]):
    """A few pages. Escape skips the rest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,right,space", "page(1)", "on", show=False),
        Binding("left,backspace", "page(-1)", "back", show=False),
    ]
    hint = "enter next · ← back · esc skip the tour"

    def __init__(self) -> None:
        super().__init__("Welcome to htfl-sim")
        self._page = 0

    def body(self) -> Iterable[Widget]:
        yield Static(self._text(), id="page", markup=False)

    def action_page(self, step: int) -> None:
        self._page = max(self._page + step, 0)
        if self._page == len(PAGES):
            self.dismiss(None)
        else:
            self.query_one("#page", Static).update(self._text())

    def _text(self) -> str:
        return self.spelled(f"{PAGES[self._page]}\n\n{self._page + 1} of {len(PAGES)}")


def is_due(folder: Path) -> bool:
    """Whether the tour has not been shown yet, and mark it as shown. If that cannot be stored, it is not shown."""
    seen = folder / "tour-seen"
    if seen.exists():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        seen.touch()
    except OSError:
        return False
    return True
