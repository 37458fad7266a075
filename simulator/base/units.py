"""The format of numbers and times in tables, in figures, on the command line, and in the app.

An accuracy is a percentage with one decimal, 84.7 %. A size is in powers of 1,024, 119.8 KiB, like the papers' KB. A
count of operations or parameters is in powers of 1,000, 1.2M. A dash is a missing value.

Also users' names of sessions, classes, and files, in a form that is safe for other programs.
"""

import math
import re
import unicodedata
from collections.abc import Callable

NONE = "–"
AT_LEAST = "≥ "
"""Before a lower bound."""
SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def percent(share: float | None) -> str:
    """An accuracy, or another share of one, as 84.7 %."""
    return NONE if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def points(difference: float | None) -> str:
    """A difference of accuracies in percentage points, with its sign: +1.2, −1.2; 0.0 without one."""
    if difference is None or math.isnan(difference):
        return NONE
    rounded = round(100 * difference, 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def at_least(mean: float) -> str:
    """A lower bound of rounds, rounded down to a tenth: ≥ 9.6."""
    return f"{AT_LEAST}{math.floor(10 * mean) / 10:g}"


def size(count: float | None) -> str:
    """Bytes as 119.8 KiB."""
    if count is None or math.isnan(count):
        return NONE
    unit, bytes = size_unit(count)
    return f"{count / bytes:.0f} {unit}" if unit == "B" else f"{count / bytes:.1f} {unit}"


def size_unit(count: float) -> tuple[str, int]:
    """The unit for this many bytes, and its number of bytes."""
    power = 0
    while abs(count) >= 1023.95 * 1024**power and power < len(SIZES) - 1:  # it would be written as 1024.0
        power += 1
    return SIZES[power], 1024**power


def amount(count: float | None) -> str:
    """Operations or parameters in at most six characters: 512, 98.3k, 1.2M, 300G."""
    if count is None or math.isnan(count):
        return NONE
    if abs(count) < 999.5:
        return f"{count:.0f}"
    unit, suffix = next((one for one in SUFFIXES if abs(count) >= one[0] * 0.9995), SUFFIXES[-1])
    shown = count / unit
    return f"{shown:.1f}{suffix}" if abs(shown) < 99.95 else f"{shown:.0f}{suffix}"


def number(value: float | None, places: int = 3) -> str:
    """A loss or a CKA, with this many decimals."""
    return NONE if value is None or math.isnan(value) else f"{value:.{places}f}"


def in_unit(value: float | None, unit: str) -> str:
    """A scalar of the ledger in its unit, as `SCALARS` names it."""
    return _SHOWN[unit](value)


_SPAN = re.compile(r"(?a:(\d+(?:\.\d+)?|\.\d+) *(s|m|h|d|)) *")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(span: object) -> object:
    """The seconds of '90s', '30m', '1.5h', '1d', or '90'. A number stays. Raises ValueError for other text."""
    if not isinstance(span, str):
        return span
    if (found := _SPAN.fullmatch(span.strip())) is None:
        raise ValueError(
            f"'{span}' is no length of time. Use seconds, or a number with a unit: 90s, 30m, 2h, 1d"
        )
    return float(found[1]) * _SECONDS[found[2]]


def span(seconds: float) -> str:
    """A length of time in the largest unit that it fills, to four digits: 90 s are '1.5 min'."""
    units = ((86400, "d"), (3600, "h"), (60, "min"))
    size, unit = next((each for each in units if seconds >= each[0]), (1, "s"))
    return f"{seconds / size:.4g} {unit}"


def duration(seconds: float | None) -> str:
    """A length of time, to two units at most: '40 s', '3 min', '2 h 05 min', '3 d 4 h'."""
    if seconds is None or math.isnan(seconds):
        return NONE
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes:.0f} min"
    if hours < 24:
        return f"{int(hours)} h {int(minutes) % 60:02d} min"
    return f"{int(days)} d {int(hours) % 24} h"


_SHOWN: dict[str, Callable[[float | None], str]] = {
    "share": percent,
    "bytes": size,
    "FLOPs": amount,
    "seconds": duration,
    "simulated seconds": duration,
    "joules": amount,
    "count": amount,
    "number": lambda value: number(value, 4),
}


_FORMULA = ("=", "+", "-", "@")
"""The first characters that make a spreadsheet compute a cell."""


def escaped(name: str) -> str:
    r"""The name with control characters and undecodable bytes as escapes, such as `\x1b`; one line of valid Unicode."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in name)


def in_literal(name: str) -> str:
    """The name in a form that fits between double quotes, single or triple, in a Python file."""
    return escaped(name.replace("\\", "\\\\")).replace('"', '\\"')


def cell(value: object) -> object:
    """A value for a CSV: numbers unchanged, None and NaN empty, text in a form that a spreadsheet does not compute."""
    if value is None or value != value:
        return ""
    if not isinstance(value, str):
        return value
    text = escaped(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
