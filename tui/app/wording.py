"""The app's own text under each set of glyphs: what a font, or a terminal, may lack is spelled in ASCII."""

from tui.app.drawing.glyphs import Glyphs
from tui.cli.errors import printable

_PLAIN = str.maketrans(
    {
        "…": "...",
        "→": "->",
        "←": "<-",
        "·": "|",
        "–": "-",
        "—": "-",
        "×": "x",
        "└": "`",
        "├": "|",
        "│": "|",
        "─": "-",
        "↑": "up ",
        "↓": "down ",
        "●": "*",
        "✓": "+",
        "≥": ">=",
        "≤": "<=",
        "η": "eta",
        "μ": "mu",
        "λ": "lambda",
        "θ": "theta",
        "α": "alpha",
        "β": "beta",
        "“": '"',
        "”": '"',
        "’": "'",
    }
)


def spelled(text: object, glyphs: Glyphs) -> str:
    """`text` as it may be shown: no control characters, and nothing but ASCII where that is wanted."""
    clean = printable(text)
    if glyphs != "ascii":
        return clean
    return clean.translate(_PLAIN).encode("ascii", "replace").decode("ascii")


def duration(seconds: float) -> str:
    """A length of time, to two units at most: '40 s', '3 min', '2 h 05 min', '3 d 4 h'."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes:.0f} min"
    if hours < 24:
        return f"{int(hours)} h {int(minutes) % 60:02d} min"
    return f"{int(days)} d {int(hours) % 24} h"
