"""What was found, in words and tables: a confusion matrix, and what a switch or a fork changed."""

from dataclasses import replace

from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.events import Effect, Window
from tui.common import findings
from tui.common.cells import cell_count

DIGITS = tuple(str(label) for label in range(10))


def of(cells: dict[tuple[int, int], int], classes: tuple[str, ...] = DIGITS, **more: object) -> Confusion:
    """The matrix with these counts by true class and answer, and 0 elsewhere."""
    size = range(len(classes))
    counts = tuple(tuple(cells.get((true, answer), 0) for answer in size) for true in size)
    return Confusion(6, 12, classes, counts, **more)  # type: ignore[arg-type]


def grid(found: Confusion, width: int, empty: str = "·") -> list[str]:
    return [findings.plain(line) for line in findings.confusion_grid(found, width, empty)]


FOUND = of({(1, 1): 10, (1, 7): 2, (4, 4): 3, (4, 9): 1})


def test_rows_are_classes_with_samples_and_columns_also_those_that_are_only_answered() -> None:
    assert grid(FOUND, 60) == [
        "class  1  4  7  9   recall",
        "1     10  ·  2  ·   83.3 %",
        "4      ·  3  ·  1   75.0 %",
    ]


def test_columns_that_do_not_fit_follow_below() -> None:
    """22 cells: 5 for the names and 9 for the recall leave room for two columns of 3."""
    assert grid(FOUND, 22, empty=".") == [
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
    assert grid(found, 60) == [
        "class            0 2   recall",
        "0 coat           1 ·  100.0 %",
        "2 a very long na 4 ·    0.0 %",
    ]


def test_every_line_fits_into_the_smallest_terminal() -> None:
    classes = tuple(f"class number {label}" for label in range(100))
    full = of({(true, answer): 1000 for true in range(100) for answer in range(100)}, classes)
    assert max(map(cell_count, grid(full, 52))) <= 52


def test_a_client_without_test_samples_has_a_sentence_in_place_of_the_grid() -> None:
    assert grid(of({}), 60) == ["The client has no test samples."]


def test_the_largest_mistakes_are_named_with_the_samples_of_their_class() -> None:
    assert list(findings.confusion_notes(FOUND)) == [
        "Most frequent mistakes: 1 as 7 (2 of 12), 4 as 9 (1 of 4)."
    ]
    assert list(findings.confusion_notes(of({(1, 1): 3}))) == []
    assert "13 of 16 test samples" in findings.confusion_summary(FOUND)


def test_a_difference_from_the_ledger_is_told() -> None:
    assert [note[:11] for note in findings.confusion_notes(of({(1, 1): 3}, as_recorded=False))] == [
        "The ledger "
    ]
    assert list(findings.confusion_notes(of({(1, 1): 3}, as_recorded=True))) == []


BEFORE = Window("s", "fedlora", 3, 12, accuracy=0.6, change=0.02, bytes=3 << 20, seconds=2, simulated=None)
AFTER = Window("s", "fedssa", 13, 20, accuracy=0.7, change=0.01, bytes=1 << 20, seconds=3, simulated=None)
SWITCH = Effect(12, "switch", ("method fedlora → fedssa", "training.lr 0.1 → 0.05"), BEFORE, AFTER)
BESIDE = replace(BEFORE, session="main", first=13, last=20, accuracy=0.68, change=0.01)
FORK = Effect(12, "fork", (), BEFORE, AFTER, BESIDE, "main")


def test_a_title_says_when_and_what() -> None:
    assert findings.effect_title(SWITCH) == "After round 12: method fedlora → fedssa; training.lr 0.1 → 0.05"
    assert findings.effect_title(FORK) == "Fork of main after round 12: nothing changed"


def test_what_is_missing_is_a_dash() -> None:
    unknown = replace(SWITCH, after=None, before=replace(BEFORE, accuracy=None, change=None, last=3, bytes=0))
    assert findings.effect_table(unknown)[1] == [
        ["before", "3 (1)", "–", "–", "0 B", "2.00 s"],
        ["after", "none", "–", "–", "–", "–"],
    ]
    silent = replace(BEFORE, bytes=0)  # as under Standalone
    assert findings.effect_table(replace(SWITCH, before=silent, after=silent))[1][2][4] == ""
    assert findings.effect_table(replace(SWITCH, before=silent))[1][2][4] == "–"


def test_a_computed_clock_has_a_column() -> None:
    on_clock = replace(SWITCH, before=replace(BEFORE, simulated=60.0), after=replace(AFTER, simulated=30.0))
    titles, rows = findings.effect_table(on_clock)
    assert [row[-1] for row in (titles, *rows)] == [">simulated", "1 min", "30 s", "×0.50"]


def test_a_narrow_table_leaves_out_columns_the_changes_per_round_first() -> None:
    for width in (40, 62, 63, 100):
        lines = findings.effect_lines(FORK, width)
        assert max(map(len, lines)) <= width
        assert ("per round" in lines[0]) == (width >= 63)  # 14 + 9 + 8 + 9 + 7 + 6, and five gaps of 2
        assert "accuracy" in lines[0]


def test_notes_say_what_is_few_and_that_before_and_after_is_no_cause() -> None:
    assert list(findings.effect_notes(SWITCH)) == [
        "Fewer than 10 rounds to compare: 8 after.",
        "Later rounds have also trained longer, so this is no causal comparison.",
        "To compare the same rounds, fork round 12 without the change.",
    ]
    assert list(findings.effect_notes(FORK))[1:] == [
        "Later rounds have also trained longer. main did so too, without the change. So compare with its rounds 13–20."
    ]
    alone = replace(FORK, before=None, beside=None)
    assert list(findings.effect_notes(alone)) == [
        "Fewer than 10 rounds to compare: 0 before, 8 after.",
        "Later rounds have also trained longer, so this is no causal comparison.",
        "main has no round 13 in this folder. Resume it to compare the same rounds.",
    ]
