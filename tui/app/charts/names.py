"""Cut names to the available width so that they can still be told apart."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from tui.common.cells import cell_count, head, tail

TELLING = 5
"""Cells in which a part of a name, between two ellipses, can identify it."""


def cut(name: str, room: int, ellipsis: str) -> str:
    """The name in at most `room` cells, with an ellipsis in its middle, because names differ at their ends."""
    if cell_count(name) <= room:
        return name
    end = (room - 1) // 2
    return head(name, room - 1 - end) + ellipsis + tail(name, end) if room > 0 else ""


def apart(names: Collection[str], room: int, ellipsis: str) -> dict[str, str]:
    """Each name after `cut`. Names that would look the same show the part in which they differ.

    With too little room, they may still look the same.
    """
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
