"""Names and their texts, line by line."""

from collections.abc import Sequence

from tui.app.charts.table import Column, Row
from tui.app.widgets import Table
from tui.app.widgets.surface import room
from tui.common.formatting import wrapped

NAMES = 10  # minimum cells for the names
ALARMING = ("remark", "damaged")


class Facts(Table):
    """Pairs of a name and a text. Long texts wrap."""

    def __init__(self) -> None:
        super().__init__([Column("", worth=2), Column("", stretch=True, worth=3)])
        self._facts: Sequence[tuple[str, str]] = ()

    def tell(self, facts: Sequence[tuple[str, str]]) -> None:
        """Replace the pairs."""
        self._facts = facts
        names = max(NAMES, *(len(name) + 1 for name, _ in facts), 0)
        width = max(room(self).width - names, 20)
        self.show(
            [
                Row((name, line), ("" if line else name, text), "warning" if name in ALARMING else "plain")
                for name, value in facts
                for line, text in enumerate(wrapped(value, width))
            ]
        )

    def on_resize(self) -> None:
        super().on_resize()
        self.tell(self._facts)  # in lines of the new width
