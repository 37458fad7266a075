"""How the commands and the app write texts. Numbers and times come from `simulator.base.units`."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import wrap

from htfl_sim.units import NONE, amount, duration, number, percent, points, size, size_unit, span

__all__ = [
    "NONE",
    "amount",
    "branches",
    "course",
    "duration",
    "number",
    "percent",
    "points",
    "printable",
    "size",
    "size_unit",
    "span",
    "spelled",
    "wrapped",
]

_PLAIN = str.maketrans(
    {
        "…": "...",
        "→": "->",
        "←": "<-",
        "·": "|",
        "–": "-",
        "−": "-",
        "—": "-",
        "×": "x",
        "└": "`",
        "├": "|",
        "│": "|",
        "─": "-",
        "↑": "up ",
        "↓": "down ",
        "●": "*",
        "◆": "@",
        "✓": "+",
        "✗": "x",
        "▸": ">",
        "‖": "=",
        "⏎": "/",
        "■": "#",
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


def course(methods: Iterable[tuple[int, str]]) -> str:
    """The methods in order, as 'fedlora→fedssa@12': fedssa from round 12 on."""
    return "→".join(name if round == 1 else f"{name}@{round}" for round, name in methods)


def branches(last: Sequence[bool]) -> str:
    """The branch symbols before a name in a tree.

    `last`: for each level below the root, whether it is the last there.
    """
    above = "".join("   " if each else "│  " for each in last[:-1])
    return above + "".join("└─ " if each else "├─ " for each in last[-1:])


@lru_cache(maxsize=8192)  # cached: a log of thousands of lines is wrapped again for every new one
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, at least one."""
    return tuple(wrap(text, max(width, 1))) or ("",)


def printable(text: object) -> str:
    """Text without control characters: a file's contents must not steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in str(text))


def spelled(text: object, glyphs: str) -> str:
    """`text` for display: no control characters, and only ASCII if `glyphs` are 'ascii'."""
    clean = printable(text)
    if glyphs != "ascii":
        return clean
    return clean.translate(_PLAIN).encode("ascii", "replace").decode("ascii")
