"""An app with one widget on it, for tests of what the widget does when it lives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from tui.app.charts.look import Glyphs
from tui.app.widgets.canvas_widget import CanvasWidget


class Stage(App[None]):
    """Shows a widget, and keeps the messages it posts."""

    def __init__(self, widget: Widget, glyphs: Glyphs) -> None:
        super().__init__()
        self.widget, self.glyphs = widget, glyphs
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.widget.focus()

    def on_table_cursor_moved(self, message: Message) -> None:
        self.posted.append(message)

    def on_line_chart_pointed(self, message: Message) -> None:
        self.posted.append(message)


def on_stage(
    widget: Widget,
    act: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    glyphs: Glyphs = "braille",
) -> Stage:
    """Run an app of `widget` at `size`, with `act` at the keys."""
    app = Stage(widget, glyphs)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(pilot)

    asyncio.run(run())
    return app


def living(
    make: Callable[[], Widget],
) -> Callable[[Callable[[Any, Pilot[None]], Awaitable[None]]], Callable[[], None]]:
    """A test as a script of a widget's life: of the widget, and of the app's pilot."""

    def of(script: Callable[[Any, Pilot[None]], Awaitable[None]]) -> Callable[[], None]:
        def test() -> None:
            widget = make()
            on_stage(widget, lambda pilot: script(widget, pilot))

        return test

    return of


def lines(widget: CanvasWidget) -> list[str]:
    """What the widget shows, line by line."""
    return [strip.text for strip in widget.render_lines(Region(0, 0, *widget.size))]


class Refreshed:
    """The lines a widget asks to be sent again, noted from now on."""

    def __init__(self, widget: CanvasWidget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[int] = []
        asked = widget.refresh

        def note(*regions: Region, **options: bool) -> Widget:
            everything = (Region(0, 0, *widget.size),)
            self.lines += [line for region in regions or everything for line in region.line_range]
            return asked(*regions, **options)

        monkeypatch.setattr(widget, "refresh", note)
