"""A widget that shows a canvas. It draws after a change and refreshes only the changed lines."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from textwrap import wrap
from typing import Any, ClassVar

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset, Region, Size
from textual.strip import Strip
from textual.widget import Widget

from tui.app.charts.look import BOLD, DEFAULT, REVERSE, SECOND, Array, Canvas, Look, row_text
from tui.app.charts.samples import draw_samples
from tui.app.charts.scatter import draw_scatter
from tui.app.charts.timeline import draw_timeline
from tui.app.widgets.screen import look_of


class CanvasWidget(Widget):
    """Base class of the widgets that draw all their content at once.

    A subclass draws itself in `draw` and calls `changed` after a change. Several changes before the next turn of the
    message loop are drawn once. Lines with unchanged cells are not sent again. This class finds the theme's colors and
    the app's glyphs.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._canvas: Canvas | None = None  # None: out of date
        self._strips: list[Strip] = []
        self._stripped: Canvas | None = None
        """The canvas that the strips show."""
        self._drawn_on: tuple[Look, Size, Offset] | None = None
        self._waiting = False

    @abstractmethod
    def draw(self, width: int, height: int, look: Look) -> Canvas:
        """The content as [height, width] cells."""

    def changed(self) -> None:
        """Draw again soon. Many calls in a row are drawn once."""
        if self._waiting or not self.is_running:
            return
        self._waiting = True
        self.call_next(self._renew)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._bring_up_to_date()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        return (
            self._strips[y]
            if y < len(self._strips)
            else Strip.blank(self.content_size.width, self.rich_style)
        )

    def _renew(self) -> None:
        """Draw now if it is visible, and refresh the differences; otherwise when it is shown next."""
        self._waiting = False
        before, self._canvas = self._canvas, None
        if before is None or not self.is_on_screen:
            self.refresh()
            return
        self._bring_up_to_date()
        after = self._canvas
        assert after is not None
        if after.chars.shape != before.chars.shape:
            self.refresh()
            return
        left, top = self.content_region.x - self.region.x, self.content_region.y - self.region.y
        if rows := after.changed_rows(before):
            self.refresh(*(Region(left, top + row, after.width, 1) for row in rows))

    def _bring_up_to_date(self) -> None:
        """Draw, unless the last drawing had the same data, size, theme, and scrolling."""
        surface = (look_of(self), self.scrollable_content_region.size, self.scroll_offset)
        if self._canvas is None or surface != self._drawn_on:
            look, size, _ = surface
            self._canvas = self._drawing(size, look)
            self._strips = strips(self._canvas, self._stripped, self._strips)
            self._stripped = self._canvas
            self._drawn_on = surface

    def _drawing(self, size: Size, look: Look) -> Canvas:
        """The canvas, or a sentence after an error, because an error in drawing must not end the app."""
        try:
            return self.draw(size.width, size.height, look)
        except Exception as fault:
            canvas = look.blank(size.width, size.height)
            lines = wrap(
                f"Drawing failed. This is a bug in htfl-sim: {type(fault).__name__}: {fault}",
                max(size.width, 1),
            )
            for row, line in enumerate(lines):
                canvas.put(row, 0, line, look.text)
            return canvas


def strips(canvas: Canvas, before: Canvas | None = None, known: Sequence[Strip] = ()) -> list[Strip]:
    """One strip per row, one segment for each run of cells of one style. `known`: those of the canvas `before`."""
    if before is None or before.chars.shape != canvas.chars.shape:
        return [_strip(*row) for row in zip(*canvas.arrays(), strict=True)]
    found = list(known)
    for row in canvas.changed_rows(before):
        found[row] = _strip(*(every[row] for every in canvas.arrays()))
    return found


def _strip(chars: Array, fg: Array, bg: Array, flags: Array) -> Strip:
    changes = (np.diff(fg) != 0) | (np.diff(bg) != 0) | (np.diff(flags) != 0)
    changes &= chars[1:] != SECOND  # both cells of a wide character have its style
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()] if len(chars) else []
    ends = [*starts[1:], len(chars)]
    keys = zip(fg[starts].tolist(), bg[starts].tolist(), flags[starts].tolist(), strict=True)
    text = row_text(chars)
    cells = text if len(text) == len(chars) and chars.min(initial=1) != SECOND else None  # one character each
    segments = [
        Segment(cells[start:end] if cells is not None else row_text(chars[start:end]), _style(*key))
        for start, end, key in zip(starts, ends, keys, strict=True)
    ]
    return Strip(segments, len(chars))


@lru_cache(maxsize=8192)
def _style(fg: int, bg: int, flags: int) -> Style:
    """A rich style. DEFAULT sets no color: Textual's filter for NO_COLOR takes the terminal's `default` for black, on
    both sides, and would write black on black.
    """
    return Style(
        color=None if fg == DEFAULT else _colour(fg),
        bgcolor=None if bg == DEFAULT else _colour(bg),
        bold=True if flags & BOLD else None,
        reverse=True if flags & REVERSE else None,
    )


def _colour(colour: int) -> Color:
    return Color.from_rgb(colour >> 16 & 255, colour >> 8 & 255, colour & 255)


class Picture(CanvasWidget):
    """Draws its content by the function `drawn`. Without content, it is empty."""

    DEFAULT_CSS = "Picture { width: 1fr; height: 1fr; }"
    drawn: ClassVar[Callable[..., Canvas]]
    _content: Any = None

    def show(self, content: Any) -> None:
        self._content = content
        self.changed()

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        if self._content is None:
            return look.blank(width, height)
        return type(self).drawn(self._content, width, height, look)


class Scatter(Picture, can_focus=True):
    """Points of a plane, by group: a ScatterFigure."""

    drawn = staticmethod(draw_scatter)


class SampleList(Picture, can_focus=True):
    """One sample of each class that a client trains on: its ClientSamples."""

    drawn = staticmethod(draw_samples)


class TimelineChart(Picture):
    """Who receives, trains, sends, and waits in some rounds: a function of the clients that there is room for."""

    drawn = staticmethod(draw_timeline)
