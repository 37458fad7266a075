"""An app with one panel on it: what it shows as text, and what it posts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from simulator.base.record import Record
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tui.app.app import FRAME_ROWS
from tui.app.charts.look import Glyphs
from tui.app.panels import PANELS
from tui.app.panels.base import SizedPanel
from tui.app.panels.sessions import UNREAD, SessionList
from tui.app.terminal import use_scroll_bars
from tui.app.view import ClientSelected, View


def read(folder: Path) -> SessionData:
    """The session in a folder, as it is now."""
    feed = Feed(folder)
    feed.poll()
    return feed.run


def with_records(view: View, records: Sequence[Any]) -> View:
    """The same view of a run with these records."""
    return replace(view, run=replace(view.run, ledger=Ledger.of(records)))  # type: ignore[arg-type]


def measured(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The same records with what was measured on the test part: its loss 2.0 − 0.1 · round, but rising by 0.1 from
    round 11 on; its F1 0.4 + 0.005 · round; and a metric of the user's own, 3 + 0.01 · round.

    A client's values are the means plus a tenth of its number.
    """

    def of(mean: float, clients: int) -> dict[str, Any]:
        each = [mean + client / 10 for client in range(clients)]
        return {"mean": mean, "weighted": mean, "per_client": each}

    found = []
    for record in records:
        round, clients = record["round"], len(record["accuracy"]["per_client"])
        loss = 2.0 - 0.1 * round if round <= 10 else 0.1 * round
        part = {
            "accuracy": of(0.5, clients),
            "loss": of(loss, clients),
            "f1": of(0.4 + 0.005 * round, clients),
            "metrics": {"recall_of_0": of(3 + 0.01 * round, clients)},
        }
        found.append({**record, "evaluation": {"test": part}})
    return found


class Stage(App[None]):
    """Shows one panel, and keeps the messages it posts."""

    def __init__(self, panel: SizedPanel, view: View, glyphs: Glyphs) -> None:
        super().__init__()
        use_scroll_bars(glyphs)
        self.panel, self.view, self.glyphs = panel, view, glyphs
        self.posted: list[Message] = []
        self.selected: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.panel.show(self.view)

    def on_client_selected(self, message: ClientSelected) -> None:
        self.selected.append(message.client)

    def keep(self, message: Message) -> None:
        self.posted.append(message)

    on_client_pinned = on_wanted = on_session_marked = on_session_opened = keep

    def text(self) -> str:
        """The screen's characters, line by line, without the spaces at their ends."""
        rows = self.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in row).rstrip() for row in rows) + "\n"


Size = tuple[int, int]
Act = Callable[[Pilot[None], Any], Awaitable[None]]


def on_stage(
    panel: str,
    view: View,
    act: Act | Sequence[str] = (),
    *,
    size: Size = (120, 40),
    glyphs: Glyphs = "braille",
) -> tuple[Any, str]:
    """Show a panel on a screen of `size`, let `act` do something, and return the app and what was shown last.

    act: a function, or steps as for `doing`.
    """
    acts = doing(*act) if isinstance(act, Sequence) else act
    app = Stage(PANELS[panel](panel), view, glyphs)

    async def run() -> str:
        async with app.run_test(size=(size[0], size[1] - FRAME_ROWS)) as pilot:
            await settle(pilot, app.panel)
            await acts(pilot, app.panel)
            await settle(pilot, app.panel)
            return app.text()

    return app, asyncio.run(run())


def words(panel: str, view: View, *steps: str, **options: Any) -> str:
    """What a panel shows after these steps, with single spaces and without line breaks."""
    return " ".join(on_stage(panel, view, steps, **options)[1].split())


def doing(*steps: str, each: Callable[[Any], object] = lambda panel: None) -> Act:
    """Call actions of the panel by name, or press keys, one after the other. each: called with the panel after each."""

    async def act(pilot: Pilot[None], panel: Any) -> None:
        for step in steps:
            if action := getattr(panel, f"action_{step}", None):
                action()
            else:
                await pilot.press(step)
            await pilot.pause()
            await pilot.pause()
            each(panel)

    return act


def pictures(panel: str, view: View, sizes: Sequence[Size], glyphs: Glyphs = "braille") -> dict[Size, str]:
    """What a panel shows at each of the sizes, its terminal being resized from one to the next."""
    seen: dict[Size, str] = {}

    async def look(pilot: Pilot[None], shown: Any) -> None:
        for size in sizes:
            await pilot.resize_terminal(size[0], size[1] - FRAME_ROWS)
            await settle(pilot, shown)
            seen[size] = pilot.app.text()  # type: ignore[attr-defined]

    on_stage(panel, view, look, size=sizes[0], glyphs=glyphs)
    return seen


async def settle(pilot: Pilot[None], panel: SizedPanel) -> None:
    """Wait until the sessions have been read, their ledgers too, where a list of them is in sight, and all is drawn."""
    await pilot.pause()
    for _ in range(1000):
        if all(is_read(one) for one in panel.query(SessionList) if one.is_on_screen):
            await pilot.pause()
            await pilot.pause()
            if UNREAD not in pilot.app.text():  # type: ignore[attr-defined]
                return
        await pilot.pause(0.02)


def is_read(shown: SessionList) -> bool:
    """Whether a list shows all that it will."""
    if shown.found is None:
        return False
    return len(shown.sketches) == sum(each.error is None for each in shown.found)
