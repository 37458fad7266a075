"""An app with one panel on it: what it shows as text, and what it posts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
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
from tests.app.driving import driven
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


@asynccontextmanager
async def staged(
    panel: str, view: View, *, size: tuple[int, int] = (120, 40), glyphs: Glyphs = "braille"
) -> AsyncIterator[tuple[Any, Pilot[None]]]:
    """The app with a panel on a screen of `size`, once all of it is drawn, and the pilot of the app."""
    app = Stage(PANELS[panel](panel), view, glyphs)
    async with driven(app, (size[0], size[1] - FRAME_ROWS)) as pilot:
        await settle(pilot)
        yield app, pilot


def on_stage(panel: str, view: View, steps: Sequence[str] = (), **options: Any) -> tuple[Any, str]:
    """The app with a panel that is `staged`, and what the panel shows after these steps."""

    async def run() -> tuple[Any, str]:
        async with staged(panel, view, **options) as (app, pilot):
            await take(pilot, *steps)
            return app, await settle(pilot)

    return asyncio.run(run())


def words(panel: str, view: View, *steps: str, **options: Any) -> str:
    """What a panel shows after these steps, with single spaces and without line breaks."""
    return " ".join(on_stage(panel, view, steps, **options)[1].split())


def after_each(
    panel: str, view: View, steps: Sequence[str], look: Callable[[Any], Any], **options: Any
) -> list[Any]:
    """What `look` finds in a panel after each of these steps."""

    async def run() -> list[Any]:
        found = []
        async with staged(panel, view, **options) as (app, pilot):
            for step in steps:
                await take(pilot, step)
                found.append(look(app.panel))
        return found

    return asyncio.run(run())


async def take(pilot: Pilot[None], *steps: str) -> None:
    """Call actions of the panel by name, or press keys, one after the other."""
    for step in steps:
        if action := getattr(pilot.app.panel, f"action_{step}", None):  # type: ignore[attr-defined]
            action()
        else:
            await pilot.press(step)
        await pilot.pause()
        await pilot.pause()


async def settle(pilot: Pilot[Any]) -> str:
    """Wait until all is drawn, and lists in sight have read their sessions and ledgers. Returns what is shown."""
    app: Any = pilot.app
    await pilot.pause()
    for _ in range(1000):
        if all(is_read(one) for one in app.panel.query(SessionList) if one.is_on_screen):
            await pilot.pause()
            await pilot.pause()
            if UNREAD not in app.text():
                break
        await pilot.pause(0.02)
    return str(app.text())


def is_read(shown: SessionList) -> bool:
    """Whether a list shows all that it will."""
    if shown.found is None:
        return False
    return len(shown.sketches) == sum(each.error is None for each in shown.found)
