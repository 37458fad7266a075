"""A confusion matrix as a grid of text."""

from simulator.results.analysis.classes import Confusion
from tui.common.cells import cell_count
from tui.common.findings import confusion_grid as grid
from tui.common.findings import confusion_notes as notes
from tui.common.findings import confusion_summary as summary
from tui.common.findings import plain

DIGITS = tuple(str(label) for label in range(10))


def of(cells: dict[tuple[int, int], int], classes: tuple[str, ...] = DIGITS, **more: object) -> Confusion:
    """The matrix with these counts by true class and answer, and 0 elsewhere."""
    size = range(len(classes))
    counts = tuple(tuple(cells.get((true, answer), 0) for answer in size) for true in size)
    return Confusion(6, 12, classes, counts, **more)  # type: ignore[arg-type]


FOUND = of({(1, 1): 10, (1, 7): 2, (4, 4): 3, (4, 9): 1})


def test_rows_are_classes_with_samples_and_columns_also_those_that_are_only_answered() -> None:
    assert [plain(line) for line in grid(FOUND, 60)] == [
        "class  1  4  7  9   recall",
        "1     10  ·  2  ·   83.3 %",
        "4      ·  3  ·  1   75.0 %",
    ]


def test_columns_that_do_not_fit_follow_below() -> None:
    """22 cells: 5 for the names and 9 for the recall leave room for two columns of 3."""
    assert [plain(line) for line in grid(FOUND, 22, empty=".")] == [
        "class  1  4",
        "1     10  .",
        "4      .  3",
        "",
        "class  7  9   recall",
        "1      2  .   83.3 %",
        "4      .  1   75.0 %",
    ]


def test_long_names_of_classes_are_numbered_above_the_columns() -> None:
    found = of({(0, 0): 1, (2, 0): 4}, ("coat", "shirt", "a very long name of a class"))
    assert [plain(line) for line in grid(found, 60)] == [
        "class            0 2   recall",
        "0 coat           1 ·  100.0 %",
        "2 a very long na 4 ·    0.0 %",
    ]


def test_every_line_fits_into_the_smallest_terminal() -> None:
    classes = tuple(f"class number {label}" for label in range(100))
    full = of({(true, answer): 1000 for true in range(100) for answer in range(100)}, classes)
    assert max(cell_count(plain(line)) for line in grid(full, 52)) <= 52


def test_a_client_without_test_samples_has_a_sentence_in_place_of_the_grid() -> None:
    assert [plain(line) for line in grid(of({}), 60)] == ["The client has no test samples."]


def test_the_largest_mistakes_are_named_with_the_samples_of_their_class() -> None:
    assert list(notes(FOUND)) == ["Most frequent mistakes: 1 as 7 (2 of 12), 4 as 9 (1 of 4)."]
    assert list(notes(of({(1, 1): 3}))) == []
    assert "13 of 16 test samples" in summary(FOUND)


def test_a_difference_from_the_ledger_is_told() -> None:
    assert [note[:11] for note in notes(of({(1, 1): 3}, as_recorded=False))] == ["The ledger "]
    assert list(notes(of({(1, 1): 3}, as_recorded=True))) == []
