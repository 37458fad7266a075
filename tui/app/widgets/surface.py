"""A widget's surface: its size, the theme's colors in the form for charts, and the glyphs."""

from textual.color import Color, ColorParseError
from textual.geometry import Size
from textual.widget import Widget

from tui.app.charts.canvas import DEFAULT
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import Glyphs


def scheme_of(widget: Widget) -> ColourScheme:
    """The text, background, and accent of `widget` under the app's present theme, and whether color may be used."""
    app = widget.app
    dark, colour = app.current_theme.dark, not app.no_color
    exact = app.console.color_system not in ("256", "standard")
    accent = _packed(_parsed(app.theme_variables.get("accent", ""), dark))
    if app.native_ansi_color:
        return ColourScheme(DEFAULT, DEFAULT, accent, dark, colour, exact)
    _, _, background, text = widget.colors
    return ColourScheme(_packed(background + text), _packed(background), accent, dark, colour, exact)


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
