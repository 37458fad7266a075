"""Scroll bars of characters, for terminals without block characters: those show them without colours as well."""

from typing import Any, ClassVar

from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBar, ScrollBarRender

from tui.app.charts.glyphs import Glyphs


class AsciiScrollBar(ScrollBarRender):
    """`#` for what is in sight, `|` for the rest."""

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
    """Have scroll bars drawn for these glyphs. Textual knows one renderer for all of a process."""
    ScrollBar.renderer = AsciiScrollBar if glyphs == "ascii" else ScrollBarRender
