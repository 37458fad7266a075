"""Stand-ins for the panels, and how to drive the app by keys."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static

from tui.app.keys import PANEL_TITLES
from tui.app.view import Panel, View


class Blank(Panel):
    """A panel that notes what it is asked to show, and which of its actions are called."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.views: list[View] = []
        self.called: list[str] = []

    def compose(self) -> Any:
        yield Static(f"[{self.id}]", markup=False)

    def show(self, view: View) -> None:
        self.views.append(view)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        return ["round", "mean"], [
            [record["round"], record["accuracy"]["mean"]] for record in view.run.records
        ]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("action_") and name.removeprefix("action_") in (
            "mark",
            "pin",
            "sort",
            "reverse",
            "chart",
            "gain",
            "least",
            "scale",
            "previous",
            "next",
            "unit",
            "embed",
            "colours",
            "samples",
        ):
            return lambda: self.called.append(name.removeprefix("action_"))
        raise AttributeError(name)


def blanks() -> list[Panel]:
    return [Blank(name) for name in PANEL_TITLES]


def drive(
    app: Any,
    script: Callable[[Pilot[Any]], Awaitable[None]],
    size: tuple[int, int] = (120, 40),
    toasts: bool = False,
) -> None:
    """Run the app without a terminal, and a script of keys and assertions beside it. toasts: also show its notices."""

    async def run() -> None:
        async with app.run_test(size=size, notifications=toasts) as pilot:
            await pilot.pause()
            await script(pilot)

    asyncio.run(run())


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for something that another thread brings about."""
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(
            0.05
        )  # pilot.pause waits for an idle processor, which a run in this process is not
    raise AssertionError("it did not come about in time")


def typed_at_once(app: Any, keys: str) -> None:
    """Keys that are there before the app has dealt with the first of them."""
    assert app._driver is not None
    for key in keys.split():
        name, character = (key, key) if len(key) == 1 else (key, None)
        app._driver.send_message(Key(name, character))
