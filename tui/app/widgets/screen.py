"""The app's screens, their focus, the line for the words of a filter, and what widgets draw on."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.color import Color, ColorParseError
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.app.charts.look import DEFAULT, GLYPHS, Glyphs, Look

Result = TypeVar("Result")


class AppScreen(Screen[Result]):
    """A screen that Textual does not repaint as a whole when the focus moves: the widgets show their focus."""

    focused = Reactive[Widget | None](None, repaint=False)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find the widget there. A removed one, which is in the layout until the next one, counts as none.

        Textual reads the region of its parent at a press, and would end the app, and a run in its process.
        """
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (None, None) if widget is not None and not widget.is_attached else (widget, offset)


class Filter(Input):
    """Appears on demand. Enter leaves it with its words, Escape without any."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "no filter", show=False)]

    @dataclass
    class Filtered(Message):
        """Filter by these words from now on. `done`: the user types no more."""

        words: str
        done: bool

    def __init__(self) -> None:
        super().__init__(id="filter", placeholder="filter by words", compact=True)

    def ask(self, words: str) -> None:
        self.value = words
        self._appear(True)
        self.focus()

    def _appear(self, shown: bool) -> None:
        """Appear, or leave. Notices stand above the line."""
        self.display = shown
        for rack in self.screen.query("ToastRack"):
            rack.styles.margin = (0, 0, 2 if shown else 1, 0)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Filtered(event.value, done=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._leave(self.value)

    def action_give_up(self) -> None:
        self._leave("")

    def _leave(self, words: str) -> None:
        self._appear(False)
        self.post_message(self.Filtered(words, done=True))


def offer_focus(screen: Screen[Any], part: Widget | None) -> None:
    """Give a part the focus, unless the user types in the line of the filter."""
    if not any(each.display for each in screen.children if isinstance(each, Filter)):
        screen.set_focus(part)


def look_of(widget: Widget) -> Look:
    """The colors of `widget` under the app's present theme, whether color may be used, and the app's characters."""
    app = widget.app
    dark, colour = app.current_theme.dark, not app.no_color
    exact = app.console.color_system not in ("256", "standard")
    accent = Color(0xFF, 0xA6, 0x2B) if dark else Color(0xB3, 0x5C, 0x00)
    with suppress(ColorParseError):  # orange if the theme's is only a number in the terminal's palette
        own = Color.parse(app.theme_variables.get("accent", ""))
        accent = own if own.ansi is None else accent
    text = ground = DEFAULT
    if not app.native_ansi_color:
        _, _, background, over = widget.colors
        text, ground = _packed(background + over), _packed(background)
    return Look(text, ground, _packed(accent), dark, colour, exact, GLYPHS[glyphs_of(widget)])


def glyphs_of(widget: Widget) -> Glyphs:
    """The set of characters for the app of `widget`."""
    chosen: Glyphs = getattr(widget.app, "glyphs", "braille")
    return chosen


def room(widget: Widget) -> Size:
    """The size of `widget`'s content. While it is hidden, the size when it was last visible.

    Textual's own `size` is then 0. In a terminal of the same size, it will have the same size again.
    """
    return widget.outer_size - widget.styles.gutter.totals


def _packed(colour: Color) -> int:
    red, green, blue = colour.rgb
    return red << 16 | green << 8 | blue
