"""A client's confusion matrix on the page that explains the client."""

from collections.abc import Iterator

from textual.content import Content

from simulator.results.analysis.confusion import Confusion
from tui.app.charts.colours import HEAT_LEVELS, ColourScheme, text_on
from tui.app.charts.glyphs import Glyphs
from tui.app.view import View, client_of
from tui.common.confusion import Cell, Line, grid, notes, summary
from tui.common.formatting import spelled, wrapped


def lines(found: Confusion, width: int, glyphs: Glyphs, scheme: ColourScheme) -> Iterator[Content]:
    """The matrix line by line. Colors repeat what the counts say: a count's share of its row."""
    yield from (Content(spelled(line, glyphs)) for line in wrapped(summary(found), width))
    yield Content("")
    empty = "." if glyphs == "ascii" else "·"
    yield from (_line(line, glyphs, scheme) for line in grid(found, width, empty))
    for note in notes(found):
        yield Content("")
        yield from (Content(spelled(line, glyphs)) for line in wrapped(note, width))


def matrix_in(view: View, client: int, round: int | None) -> Confusion | str:
    """The matrix of a client after a kept round, or a sentence in its place."""
    if round is None:
        kept = ", ".join(str(each) for each in view.run.checkpoints if each) or "none"
        return (
            f"The checkpoint of round {view.shown} is gone, and the matrix is computed from it. Kept rounds: {kept}. "
            "Press [ or ] to move to one, or m for the page."
        )
    found = view.confusions.found.get((client_of(view.run, client), round))
    return (
        f"The confusion matrix of client {client}, round {round}, is being computed…"
        if found is None
        else found
    )


def _line(line: Line, glyphs: Glyphs, scheme: ColourScheme) -> Content:
    return Content.assemble(
        *(
            (each.text, _style(each, scheme)) if isinstance(each, Cell) else spelled(each, glyphs)
            for each in line
        )
    )


def _style(cell: Cell, scheme: ColourScheme) -> str:
    weight = "bold" if cell.correct else ""
    if not cell.share:
        return weight or "dim"
    if not scheme.coloured:
        return weight
    ground = int(scheme.heat[min(int(cell.share * HEAT_LEVELS), HEAT_LEVELS - 1)])
    return f"{weight} #{text_on(ground):06x} on #{ground:06x}".strip()
