"""Scroll bars of characters, for terminals without block characters. They are visible without color as well."""

from typing import Any, ClassVar

from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBar, ScrollBarRender

from tui.app.charts.glyphs import Glyphs


class AsciiScrollBar(ScrollBarRender):
    """`#` for the visible part, `|` for the rest."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    """No eighths of a cell: a bar begins and ends with a whole one."""

    @classmethod
    def render_bar(cls, *about: Any, **more: Any) -> Segments:
        drawn = super().render_bar(*about, **more)
        whole = Style(reverse=False)
        return Segments(
            [
                Segment("#" if style is not None and style.reverse else "|", (style or whole) + whole)
                for _, style, _ in drawn.segments
            ],
            new_lines=True,
        )


def use_scroll_bars(glyphs: Glyphs) -> None:
    """Use scroll bars for these glyphs. Textual has one renderer per process."""
    ScrollBar.renderer = AsciiScrollBar if glyphs == "ascii" else ScrollBarRender
