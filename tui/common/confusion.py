"""A confusion matrix as a grid of text, and what stands out in it as sentences."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tui.common.cells import cell_count, head, padded
from tui.common.formatting import percent

if TYPE_CHECKING:
    from simulator.results.analysis.classes import Confusion

NAME = 16  # cells of a class's name
RECALL = 9  # cells of a row's recall
SHORT = 3  # cells of a name that stands above a column; longer ones are numbered
ORDER = "Rows are the true classes, columns the answers."


class Cell(NamedTuple):
    """A count. share: of its row, 0…1. correct: on the diagonal."""

    text: str
    share: float
    correct: bool


Line = list[Cell | str]


def summary(found: "Confusion") -> str:
    """How many samples are correct, and how to read the grid."""
    return (
        f"After round {found.round}, client {found.client} answers {found.correct} of {found.samples} test samples "
        f"correctly. {ORDER}"
    )


def notes(found: "Confusion") -> Iterator[str]:
    """The largest confusions, and whether the ledger has other counts."""
    wrong = [
        (count, true, answer)
        for true, row in enumerate(found.counts)
        for answer, count in enumerate(row)
        if count and answer != true
    ]
    wrong.sort(key=lambda each: (-each[0], *each[1:]))
    if wrong:
        said = ", ".join(
            f"{found.classes[true]} as {found.classes[answer]} ({count} of {sum(found.counts[true])})"
            for count, true, answer in wrong[:3]
        )
        yield f"Most frequent mistakes: {said}."
    if found.as_recorded is False:
        yield (
            "The ledger has other counts for this round: the run last evaluated the client with an earlier model, or "
            "on another machine."
        )


def grid(found: "Confusion", width: int, empty: str = "·") -> Iterator[Line]:
    """The counts in lines of at most `width` cells. If the columns do not fit, the next ones follow below.

    Classes without samples have no row. Those that are not answered either have no column. Zero is `empty`.
    """
    shown = found.by_class()
    rows = [label for label, each in shown.items() if each.samples]
    if not rows:
        yield ["The client has no test samples."]
        return
    short = all(cell_count(found.classes[label]) <= SHORT for label in shown)
    marks = {label: found.classes[label] if short else str(label) for label in shown}
    names = {label: marks[label] if short else f"{marks[label]} {found.classes[label]}" for label in rows}
    names = {label: name if cell_count(name) <= NAME else head(name, NAME) for label, name in names.items()}
    first = max(cell_count(name) for name in ("class", *names.values()))
    most = max(map(max, found.counts))
    room = 1 + max(len(str(most)), *map(cell_count, marks.values()))
    columns = list(shown)
    at_once = max((width - first - RECALL) // room, 1)
    for start in range(0, len(columns), at_once):
        block = columns[start : start + at_once]
        last = start + at_once >= len(columns)
        if start:
            yield [""]
        header = padded("class", first) + "".join(padded(marks[label], room, right=True) for label in block)
        yield [header + (padded("recall", RECALL, right=True) if last else "")]
        for label in rows:
            line: Line = [padded(names[label], first)]
            samples = shown[label].samples
            for answer in block:
                count = found.counts[label][answer]
                text = padded(str(count) if count else empty, room, right=True)
                line.append(Cell(text, count / samples, answer == label))
            if last:
                line.append(padded(percent(shown[label].recall), RECALL, right=True))
            yield line


def plain(line: Line) -> str:
    """A line of the grid as text."""
    return "".join(each.text if isinstance(each, Cell) else each for each in line)
