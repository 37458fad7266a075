"""A widget that shows a drawing: it draws when something changed and refreshes the lines that came out different."""

from abc import abstractmethod
from textwrap import wrap

from textual.geometry import Offset, Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tui.app.drawing.cells import Cells
from tui.app.drawing.colours import Theme
from tui.app.drawing.glyphs import GLYPHS, Glyphs, GlyphSet
from tui.app.widgets.strips import strips
from tui.app.widgets.surface import theme_of


class Drawn(Widget):
    """Base of the widgets that draw all their content at once.

    A subclass says in `draw` how it looks and calls `changed` after a change. Several changes before the next turn
    of the message loop are drawn once; a line whose cells stay the same is not sent again. `glyphs` (braille, block
    or ascii) may be set at any time.
    """

    glyphs: reactive[Glyphs] = reactive("braille")

    def __init__(
        self,
        *,
        glyphs: Glyphs = "braille",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.set_reactive(Drawn.glyphs, glyphs)
        self._cells: Cells | None = None  # None: out of date
        self._strips: list[Strip] = []
        self._drawn_on: tuple[Theme, Size, Offset] | None = None
        self._waiting = False

    @abstractmethod
    def draw(self, width: int, height: int, theme: Theme, glyphs: GlyphSet) -> Cells:
        """The content as [height, width] cells."""

    def changed(self) -> None:
        """Draw anew soon; many calls in a row cost one drawing."""
        if self._waiting or not self.is_running:
            return
        self._waiting = True
        self.call_next(self._renew)

    def watch_glyphs(self) -> None:
        self.changed()

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
        """Draw now if anyone can see it, and refresh what differs; else leave it to the next time it is shown."""
        self._waiting = False
        before, self._cells = self._cells, None
        if before is None or not self.is_on_screen:
            self.refresh()
            return
        self._bring_up_to_date()
        after = self._cells
        assert after is not None
        if after.chars.shape != before.chars.shape:
            self.refresh()
            return
        left, top = self.content_region.x - self.region.x, self.content_region.y - self.region.y
        if rows := after.changed_rows(before):
            self.refresh(*(Region(left, top + row, after.width, 1) for row in rows))

    def _bring_up_to_date(self) -> None:
        """Draw, unless what was drawn last is of the same data, size, theme and scrolling."""
        surface = (theme_of(self), self.content_size, self.scroll_offset)
        if self._cells is None or surface != self._drawn_on:
            theme, size, _ = surface
            self._cells = self._drawing(size, theme)
            self._strips = strips(self._cells)
            self._drawn_on = surface

    def _drawing(self, size: Size, theme: Theme) -> Cells:
        """The drawing; a sentence in its place where it fails, since a fault in a picture must not end the app."""
        try:
            return self.draw(size.width, size.height, theme, GLYPHS[self.glyphs])
        except Exception as fault:
            cells = Cells.blank(size.width, size.height, theme.text, theme.background)
            lines = wrap(
                f"This cannot be drawn, a bug in htfl-sim: {type(fault).__name__}: {fault}",
                max(size.width, 1),
            )
            for row, line in enumerate(lines):
                cells.put(row, 0, line, theme.text)
            return cells
