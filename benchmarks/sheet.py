"""A table of a benchmark, shown in a terminal and written into a page."""

from dataclasses import dataclass, field

from rich.table import Table

WORDS = ("group", "method", "figure", "way", "what")
"""Columns of words, which begin at the left; numbers end at the right."""


@dataclass
class Sheet:
    """A title, columns, and rows of as many cells."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """One more row. Raises ValueError where its cells are not those of the columns."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for the columns {', '.join(self.columns)}")
        self.rows.append(cells)

    def shown(self) -> Table:
        """As a terminal has it."""
        table = Table(title=self.title)
        for column in self.columns:
            table.add_column(column, justify="left" if column in WORDS else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """As a page has it, its title above it."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join([f"{self.title}:", "", *(f"| {' | '.join(cells)} |" for cells in lines)])
