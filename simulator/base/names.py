"""Users' names of sessions, classes, and files, in a form that is safe for other programs."""

import unicodedata

_FORMULA = ("=", "+", "-", "@")
"""The first characters that make a spreadsheet compute a cell."""


def escaped(name: str) -> str:
    r"""The name with control characters and undecodable bytes as escapes, such as `\x1b`; one line of valid Unicode."""
    if name.isprintable():
        return name
    return "".join(char if _is_text(char) else ascii(char)[1:-1] for char in name)


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


def _is_text(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
