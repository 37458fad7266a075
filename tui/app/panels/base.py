"""Common to all panels: they know their size, and draw a part again only if its contents change."""

from abc import abstractmethod
from dataclasses import replace

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from tui.app.charts.glyphs import GLYPHS
from tui.app.charts.table import fit
from tui.app.view import Panel, View
from tui.app.widgets import LineChart
from tui.app.widgets.surface import glyphs_of, room
from tui.common.cells import cell_count
from tui.common.errors import explain
from tui.common.formatting import spelled

NARROW, WIDE, FULL, TALL, SHORT = 72, 96, 170, 30, 18
"""From this many columns on, a panel is -wide, or -full; below NARROW, it is -narrow. From TALL rows on, it is -tall;
below SHORT, it is -short."""


class SizedPanel(Panel):
    """A panel with the classes -narrow, -wide, -full, -tall and -short by its size, and -ascii by its glyphs."""

    DEFAULT_CSS = """
    SizedPanel { layout: vertical; width: 1fr; height: 1fr; }
    SizedPanel Part.-bare Table { scrollbar-size-vertical: 0; }
    SizedPanel.-ascii Part { border-top: ascii $foreground 30%; }
    SizedPanel.-ascii Part.-bare { border: none; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._view: View | None = None
        self._drawn: dict[str, tuple[object, ...]] = {}
        self._sizes: list[Size] = []
        """The contents of all parts when the panel was last drawn."""

    def on_mount(self) -> None:
        self.set_class(glyphs_of(self) == "ascii", "-ascii")

    def show(self, view: View) -> None:
        before, self._view = self._view, view
        if before is not None and self._only_pointed(before, view):
            self.point(view)
        else:
            self._draw(view)

    def _only_pointed(self, before: View, view: View) -> bool:
        """Whether only the crosshair differs."""
        pointed = replace(before, crosshair=view.crosshair)
        return before.crosshair != view.crosshair and view.looks_like(pointed, self.FOLLOWS_PROGRESS)

    def _draw(self, view: View) -> None:
        self._sizes = self._sizes_now()
        self.draw(view)
        self.point(view)

    def _sizes_now(self) -> list[Size]:
        return [room(part) for part in self.walk_children(Widget)]

    def point(self, view: View) -> None:
        """Put the cursor of every chart at the view's place."""
        for chart in self.walk_children(LineChart):
            if (over := chart.figure.over) is not None:
                at = view.cursor(over)
                chart.put_cursor(None if at is None else at / chart.figure.x_unit)

    @abstractmethod
    def draw(self, view: View) -> None:
        """Update every part to the view."""

    def update(self) -> None:
        """Draw the present view again, because the panel's own state has changed."""
        if self._view is not None:
            try:
                self._draw(self._view)
            except Exception as fault:  # an error in drawing must not end the app, and the run with it
                self.notify(explain(fault)[0], severity="error", markup=False)

    def redraw(self) -> None:
        """Draw again, also the parts whose contents have not changed."""
        self._drawn.clear()
        self.update()

    def differs(self, part: str, *about: object) -> bool:
        """Whether a part's contents differ from those shown. The new contents then count as shown."""
        if self._drawn.get(part) == about:
            return False
        self._drawn[part] = about
        return True

    def prepare(self, width: int, height: int) -> None:
        classes = {
            "-narrow": width < NARROW,
            "-wide": width >= WIDE,
            "-full": width >= FULL,
            "-tall": height >= TALL,
            "-short": height < SHORT,
        }
        # All at once, because each change styles every widget in it.
        self.update_classes(classes, update=self.is_attached)

    def on_resize(self, event: events.Resize) -> None:
        self.prepare(*event.size)
        self.call_after_refresh(self._redraw_resized)  # once the parts have their new sizes

    def _redraw_resized(self) -> None:
        if self._sizes_now() != self._sizes:  # otherwise it was hidden, and keeps its size
            self.redraw()


class Part(Container):
    """A titled part of a panel. Without contents, it shows a sentence: `say`."""

    ALLOW_MAXIMIZE = True
    DEFAULT_CSS = """
    Part { width: 1fr; height: 1fr; layout: vertical; border-top: solid $foreground 30%; }
    Part { border-title-color: $foreground; }
    Part.-bare { border: none; }
    Part > .sentence { width: 1fr; height: 1fr; padding: 1 2; color: $text-muted; display: none; }
    Part.-empty > .sentence { display: block; }
    Part.-focused { border-title-color: $text-accent; border-title-style: bold; }
    Part.-maximized {
        width: 1fr !important; height: 1fr !important; max-height: 100% !important; margin: 0 !important;
    }
    """

    def __init__(self, title: str, *content: Widget, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._titles: tuple[str, ...] = (title,)
        self._content = content
        self._sentence = Static("", classes="sentence", markup=False)
        self._said: str | None = None
        self._caption = ""  # as given: `border_title` reads otherwise than it was written

    def compose(self) -> ComposeResult:
        yield self._sentence
        yield from self._content

    def caption(self, *titles: str) -> None:
        """The title in the line above: the first that fits, else the last, cut to the line's length."""
        self._titles = titles
        glyphs = glyphs_of(self)
        width = max(room(self).width - 3, 0) or cell_count(titles[0])
        title = next((each for each in titles if cell_count(spelled(each, glyphs)) <= width), titles[-1])
        cut = fit(title, width, False, GLYPHS[glyphs]).rstrip()
        text = spelled(cut, glyphs).replace("[", r"\[")
        if text != self._caption:
            self._caption = self.border_title = text

    def on_mount(self) -> None:
        self.caption(*self._titles)

    def on_resize(self) -> None:
        self.caption(*self._titles)

    def on_descendant_focus(self) -> None:
        self._show_focus()

    def on_descendant_blur(self) -> None:
        self._show_focus()

    def _show_focus(self) -> None:
        """In the title alone. A rule on :focus-within would style each widget within it again."""
        self.set_class(self.has_focus_within, "-focused", update=False)
        self.app.stylesheet.apply(self)

    def say(self, sentence: str | None) -> None:
        """Show a sentence instead of the content; None: the content."""
        if sentence == self._said:
            return
        self._said = sentence
        self.set_class(sentence is not None, "-empty")
        for widget in self._content:
            widget.display = sentence is None
        if sentence is not None:
            self._sentence.update(spelled(sentence, glyphs_of(self)))


def at_most(widget: Widget, lines: int | None) -> None:
    """Limit a widget to this many lines; None: no limit.

    Textual lays out the screen again whenever a rule is cleared, even one that was not set.
    """
    if lines is not None or widget.styles.has_rule("max_height"):
        widget.styles.max_height = lines
