"""Widths of texts in a terminal: most characters take one cell, Chinese ones and emoji two, combining marks none."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from textwrap import wrap
from unicodedata import category, normalize

from rich.cells import cell_len

_JOINERS = {0x200C: None, 0x200D: None} | dict.fromkeys((*range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400)))
"""Joiners, variants, and skin tones: terminals differ in the width of what they make of an emoji."""


@lru_cache(maxsize=8192)
def settled(text: str) -> str:
    """`text` with a width that all terminals agree on.

    Accents are part of their letters, emoji are single ones, and a control character is a �. Names come from files and
    users: an escape sequence in one must not reach the terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    clean = normalize("NFC", text).translate(_JOINERS)
    return "".join(
        one if one.isprintable() and (cell_len(one) or category(one).startswith("M")) else "�"
        for one in clean
    )


def cell_count(text: str) -> int:
    """The number of cells of a text, once it is `settled`."""
    return len(text) if text.isascii() else cell_len(settled(text))


def head(text: str, room: int) -> str:
    """As much of the start of `text` as fits into `room` cells."""
    text = settled(text)
    if text.isascii():
        return text[: max(room, 0)]
    for end, one in enumerate(text):
        room -= cell_count(one)
        if room < 0:
            return text[:end]
    return text


def tail(text: str, room: int) -> str:
    """As much of the end of `text` as fits into `room` cells. It does not begin with a combining mark."""
    text = settled(text)
    if text.isascii():
        return text[max(len(text) - max(room, 0), 0) :]
    start = len(text)
    for place in range(len(text) - 1, -1, -1):
        room -= cell_count(text[place])
        if room < 0:
            break
        if cell_count(text[place]):
            start = place
    return text[start:]


def padded(text: str, room: int, right: bool = False) -> str:
    """`text` with spaces after it, or before it if `right`, up to `room` cells."""
    text = settled(text)
    spaces = " " * (room - cell_count(text))
    return spaces + text if right else text + spaces


def cells_of(text: str) -> list[str]:
    """A text cell by cell: a character with its combining marks, and "" for the second cell of a wide one."""
    found: list[str] = []
    for one in settled(text):
        if wide := cell_count(one):
            found += [one, ""][:wide]
        elif found:
            place = -1 if found[-1] else -2
            found[place] += one
    return found


def in_lines(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` cells, broken at spaces; a wide character has its two cells in any case."""
    if text.isascii() or all(cell_count(one) == 1 for one in {*text}):
        return wrap(text, room)
    lines, line = [], ""
    for word in settled(" ".join(text.split())).split():
        if line and cell_count(line) + 1 + cell_count(word) <= room:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        while cell_count(word) > max(room, 2):
            lines.append(head(word, max(room, 2)))
            word = word[len(lines[-1]) :]
        line = word
    return [*lines, line] if line else lines


TELLING = 5
"""Cells in which a part of a name, between two ellipses, can identify it."""


def fitting(texts: Sequence[str], room: int) -> str:
    """The first text that fits into `room` cells, else the last."""
    return next((text for text in texts if cell_count(text) <= room), texts[-1])


def cut(name: str, room: int, ellipsis: str) -> str:
    """The name in at most `room` cells, with an ellipsis in its middle, because names differ at their ends."""
    if cell_count(name) <= room:
        return name
    end = (room - 1) // 2
    return head(name, room - 1 - end) + ellipsis + tail(name, end) if room > 0 else ""


def fit(text: str, room: int, ellipsis: str, right: bool = False) -> str:
    """`text` in `room` cells: with spaces before it if `right`, else after it, or cut with an ellipsis at its end."""
    if cell_count(text) > room:
        text = head(text, room - 1) + ellipsis if room else ""
    return padded(text, room, right)


def apart(names: Collection[str], room: int, ellipsis: str) -> dict[str, str]:
    """Each name after `cut`. Names that would look alike show the part in which they differ, if there is room."""
    shown = {name: cut(name, room, ellipsis) for name in names}
    alike = defaultdict(list)
    for name, text in shown.items():
        alike[text].append(name)
    for group in alike.values():
        if len(group) > 1 and room >= TELLING:
            begins = _alike(group)
            ends = _alike([name[begins:][::-1] for name in group])
            if any(begins + ends == len(name) for name in group):
                ends = 0  # a single name differs nowhere: its end identifies it too
            shown |= {name: _around(name, begins, len(name) - ends, room, ellipsis) for name in group}
    return shown


def _alike(names: Sequence[str]) -> int:
    """The number of characters that the names share at the start."""
    together = zip(*names, strict=False)
    return next((place for place, each in enumerate(together) if len(set(each)) > 1), min(map(len, names)))


def _around(name: str, begins: int, ends: int, room: int, ellipsis: str) -> str:
    """The name in at most `room` cells with its part from `begins` to `ends`, and as much before it as fits."""
    after = ellipsis if ends < len(name) else ""
    differs = name[begins:ends]
    spare = room - len(after) - cell_count(differs)
    if cell_count(name[:begins]) <= spare:
        return name[:ends] + after
    if spare < 1:
        return ellipsis + cut(differs, room - 1 - len(after), ellipsis) + after
    return head(name, spare - 1) + ellipsis + differs + after
