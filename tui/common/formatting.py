"""How numbers, times and texts are written, on the command line and in the app."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import wrap

NONE = "-"
SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

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


def percent(share: float | None, places: int = 1) -> str:
    """A share as 81.3%; a dash for none."""
    return NONE if _missing(share) else f"{100 * share:.{places}f}%"  # type: ignore[operator]


def amount(value: float | None) -> str:
    """Bytes, parameters or operations as 1.23M; a dash for none."""
    return NONE if _missing(value) else short(value)  # type: ignore[arg-type]


def figure(value: float | None, places: int = 3) -> str:
    """A number with so many decimals; a dash for none."""
    return NONE if _missing(value) else f"{value:.{places}f}"


def lasted(seconds: float | None) -> str:
    """A length of time; a dash for none."""
    return NONE if _missing(seconds) else duration(seconds)  # type: ignore[arg-type]


@lru_cache(maxsize=8192)  # a log of thousands of lines is wrapped again whenever one is added
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, at least one."""
    return tuple(wrap(text, max(width, 1))) or ("",)


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


def course(methods: Iterable[tuple[int, str]]) -> str:
    """The methods in order, as 'fedlora→fedssa@12': fedssa from round 12 on."""
    return "→".join(name if round == 1 else f"{name}@{round}" for round, name in methods)


def short(amount: float) -> str:
    """An amount in at most six characters: 512, 98.3k, 1.2M, 300G."""
    if abs(amount) < 999.5:
        return f"{amount:.0f}"
    unit, suffix = next((one for one in SUFFIXES if abs(amount) >= one[0] * 0.9995), SUFFIXES[-1])
    shown = amount / unit
    return f"{shown:.1f}{suffix}" if abs(shown) < 99.95 else f"{shown:.0f}{suffix}"


def rule(last: Sequence[bool]) -> str:
    """What stands before a name in a tree; `last`: for each level below the root, whether it is the last there."""
    return "".join("   " if each else "│  " for each in last[:-1]) + "".join(
        "└─ " if each else "├─ " for each in last[-1:]
    )


def printable(text: object) -> str:
    """Text without control characters: what comes out of a file may not steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in str(text))


def spelled(text: object, glyphs: str) -> str:
    """`text` as it may be shown: no control characters, and nothing but ASCII where `glyphs` are 'ascii'."""
    clean = printable(text)
    if glyphs != "ascii":
        return clean
    return clean.translate(_PLAIN).encode("ascii", "replace").decode("ascii")


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
