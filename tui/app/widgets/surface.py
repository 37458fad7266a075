"""A widget's surface: its size, the theme's colors in the form for charts, and the glyphs."""

from textual.color import Color, ColorParseError
from textual.geometry import Size
from textual.widget import Widget

from tui.app.charts.canvas import DEFAULT
from tui.app.charts.look import GLYPHS, Glyphs, Look


def look_of(widget: Widget) -> Look:
    """The colors of `widget` under the app's present theme, whether color may be used, and the app's characters."""
    app = widget.app
    dark, colour = app.current_theme.dark, not app.no_color
    exact = app.console.color_system not in ("256", "standard")
    accent = _packed(_parsed(app.theme_variables.get("accent", ""), dark))
    text = ground = DEFAULT
    if not app.native_ansi_color:
        _, _, background, over = widget.colors
        text, ground = _packed(background + over), _packed(background)
    return Look(text, ground, accent, dark, colour, exact, GLYPHS[glyphs_of(widget)])


def glyphs_of(widget: Widget) -> Glyphs:
    """The set of characters for the app of `widget`."""
    chosen: Glyphs = getattr(widget.app, "glyphs", "braille")
    return chosen


def room(widget: Widget) -> Size:
    """The size of `widget`'s content. While it is hidden, the size when it was last visible.

    Textual's own `size` is then 0. In a terminal of the same size, it will have the same size again.
    """
    return widget.outer_size - widget.styles.gutter.totals


def _parsed(name: str, dark: bool) -> Color:
    """The theme's accent, or orange if that is only a number in the terminal's palette."""
    fallback = Color(0xFF, 0xA6, 0x2B) if dark else Color(0xB3, 0x5C, 0x00)
    try:
        colour = Color.parse(name)
    except ColorParseError:
        return fallback
    return fallback if colour.ansi is not None else colour


def _packed(colour: Color) -> int:
    red, green, blue = colour.rgb
    return red << 16 | green << 8 | blue
