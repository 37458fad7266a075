"""Names and their texts, line by line."""

from collections.abc import Sequence

from tui.app.charts.table import Column, Row
from tui.app.widgets import Table
from tui.app.widgets.surface import room
from tui.common.cells import cell_count
from tui.common.formatting import wrapped

NAMES = 10  # minimum cells for the names
ALARMING = ("remark", "damaged")


def _rows(facts: Sequence[tuple[str, str]], width: int) -> list[Row]:
    """The lines of the pairs, with texts of at most `width` cells."""
    return [
        Row((number, line), ("" if line else name, text), "warning" if name in ALARMING else "plain")
        for number, (name, value) in enumerate(facts)
        for line, text in enumerate(wrapped(value, width))
    ]


class Facts(Table):
    """Pairs of a name and a text. Long texts wrap."""

    def __init__(self) -> None:
        super().__init__([Column("", worth=2), Column("", stretch=True, worth=3)])
        self._facts: Sequence[tuple[str, str]] = ()

    def tell(self, facts: Sequence[tuple[str, str]]) -> None:
        """Replace the pairs."""
        self._facts = facts
        names = max(NAMES, *(cell_count(name) + 1 for name, _ in facts), 0)
        here = room(self)
        rows = _rows(facts, max(here.width - names, 20))
        if len(rows) > here.height:  # a scroll bar takes a cell
            rows = _rows(facts, max(here.width - names - 1, 20))
        self.show(rows)

    def on_resize(self) -> None:
        super().on_resize()
        self.tell(self._facts)  # in lines of the new width
