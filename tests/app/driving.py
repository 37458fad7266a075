"""Stand-ins for the panels, and how to drive the app by keys."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static

from htfl_sim.catalog import MethodCard
from tui.app.app import HtflApp
from tui.app.keys import KEYS, PANEL_TITLES
from tui.app.panels import PANELS
from tui.app.runs import LaunchOptions
from tui.app.view import Panel, View

ACTIONS = {key.argument for key in KEYS if key.name == "panel"}


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
        action = name.removeprefix("action_")
        if action in ACTIONS and action != name:
            return lambda: self.called.append(action)
        raise AttributeError(name)


def blanks() -> list[Panel]:
    return [Blank(name) for name in PANEL_TITLES]


def opened(home: Path, start: Any = "main", *real: str, **about: Any) -> HtflApp:
    """The app on the session of this name, or with another start, and stand-ins for all panels but `real`."""
    panels = [PANELS[each.id](each.id) if each.id in real else each for each in blanks()]
    first = home / start if isinstance(start, str) else start
    return HtflApp(LaunchOptions(home, home / "data"), first, panels=panels, **about)


async def shown(app: HtflApp, pilot: Pilot[Any], round: int = 12) -> None:
    """Wait until the session has been read and drawn."""
    await until(pilot, lambda: app.view.run.round == round)
    await pilot.pause()


def notices(app: HtflApp) -> list[str]:
    return [notice.message for notice in app._notifications]


def text(app: HtflApp) -> str:
    """The characters of the screen on top."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row).rstrip() for row in rows) + "\n"


@asynccontextmanager
async def driven(
    app: Any, size: tuple[int, int] = (120, 40), toasts: bool = False
) -> AsyncIterator[Pilot[Any]]:
    """The app at work without a terminal, to press its keys. toasts: it also shows its notices."""
    async with app.run_test(size=size, notifications=toasts) as pilot:
        await pilot.pause()
        yield pilot


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


def method_choice(
    name: str,
    title: str,
    needs: str,
    obstacle: str | None = None,
    parameters: Sequence[tuple[str, object, str]] = (),
) -> MethodCard:
    """A method in the dialog of a switch, with its parameters as key, default, and meaning."""
    rows = [{"key": key, "default": default, "description": about} for key, default, about in parameters]
    return MethodCard(title, "", "", needs, "", "", name=name, parameters=rows, space={}, obstacle=obstacle)
