"""How the commands and the app write texts, and a series as one. Numbers come from `simulator.base.units`."""

import math
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import normalize

from simulator.base.units import (
    NONE,
    amount,
    duration,
    escaped,
    in_unit,
    number,
    percent,
    points,
    size,
    size_unit,
    span,
)
from tui.common.cells import in_lines, settled

if TYPE_CHECKING:
    from simulator.results.analysis.comparison import Standing

__all__ = [
    "NONE", "amount", "at_round", "branches", "counted", "course", "duration", "in_unit", "number", "percent",
    "points", "printable", "size", "size_unit", "some", "span", "sparkline", "spelled", "text_of",
    "until_target", "wrapped", "writes_unicode",
]  # fmt: skip

_PLAIN = str.maketrans({
    "…": "...", "±": "+-", "Δ": "d", "→": "->", "←": "<-", "·": "|", "–": "-", "−": "-", "—": "-", "×": "x", "└": "`",
    "├": "|", "│": "|", "─": "-", "↑": "up ", "↓": "down ", "●": "*", "◆": "@", "✓": "+", "✗": "x", "▸": ">", "‖": "=",
    "⏎": "/", "■": "#", "≥": ">=", "≤": "<=", "η": "eta", "μ": "mu", "λ": "lambda", "θ": "theta", "α": "alpha",
    "β": "beta", "“": '"', "”": '"', "’": "'",
})  # fmt: skip


def course(methods: Iterable[tuple[int, str]]) -> str:
    """The methods in order, as 'fedlora→fedssa@12': fedssa from round 12 on."""
    return "→".join(name if round == 1 else f"{name}@{round}" for round, name in methods)


def at_round(share: float | None, round: int | None) -> str:
    """A share with its round: 82.4 % (r19)."""
    return f"{percent(share)} (r{round})" if round else percent(share)


def branches(last: Sequence[bool]) -> str:
    """The branch symbols before a name in a tree. last: for each level below the root, whether it is the last there."""
    above = "".join("   " if each else "│  " for each in last[:-1])
    return above + "".join("└─ " if each else "├─ " for each in last[-1:])


def counted(number: int, noun: str) -> str:
    """'1 round', '2 rounds'."""
    return f"{number} {noun}{'s' * (number != 1)}"


def some(names: Sequence[str]) -> str:
    """At most three names, and the number of others."""
    return ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])


def until_target(stands: "Standing") -> str | None:
    """A session's target accuracy and what it took: '85.0 % in round 7, after 6.9 MiB'; None without a target."""
    if not stands.target:
        return None
    took = stands.reached
    how = "not reached" if took is None else f"in round {took['rounds']:.0f}, after {size(took['bytes'])}"
    return f"{percent(stands.target)} {how}"


def text_of(value: object) -> str:
    return NONE if value is None else str(value)


@lru_cache(maxsize=8192)  # cached: a log of thousands of lines is wrapped again for every new one
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, at least one."""
    return tuple(in_lines(text, max(width, 1))) or ("",)


def printable(text: object) -> str:
    """Text on one line, with control characters as escapes: it must neither steer the terminal nor begin a line."""
    return escaped(str(text))


def writes_unicode() -> bool:
    """Whether the encoding of standard output, which the locale sets, has more than ASCII: UTF-8."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


def spelled(text: object, glyphs: str) -> str:
    """`text` for display: no control characters, and only ASCII if `glyphs` are 'ascii'."""
    clean = "\n".join(map(settled, str(text).split("\n")))
    if glyphs != "ascii":
        return clean
    letters = (each if each.isascii() else normalize("NFD", each)[0] for each in clean.translate(_PLAIN))
    return "".join(letter if letter.isascii() else "?" for letter in letters)  # without accents


BARS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float | None], width: int, bars: str = BARS, limits: tuple[float, float] | None = None
) -> str:
    """`width` characters for values from low to high of `limits`, the newest last. A space is a missing value.

    Without limits, the range is that of the values. A constant series is a line at half height. If there are more
    values than characters, neighbors are averaged.
    """
    series = [math.nan if value is None else float(value) for value in values]
    if len(series) > width:
        ends = [len(series) * place // width for place in range(width + 1)] if width else [0]
        cells = ([each for each in series[start:end] if math.isfinite(each)] for start, end in pairwise(ends))
        series = [sum(each) / len(each) if each else math.nan for each in cells]
    known = [value for value in series if math.isfinite(value)]
    low, high = limits or (min(known, default=0.0), max(known, default=0.0))
    characters = []
    for value in series:
        share = (value - low) / (high - low) if high > low else 0.5
        level = min(max(int(share * len(bars)), 0), len(bars) - 1) if math.isfinite(value) else -1
        characters.append(bars[level] if level >= 0 else " ")
    return "".join(characters).rjust(width)
