"""What a switch or a fork changed, in words and in a table."""

from dataclasses import replace

from simulator.results.analysis.events import Effect, Window
from tui.common import findings

BEFORE = Window("s", "fedlora", 3, 12, accuracy=0.6, change=0.02, bytes=3 << 20, seconds=2, simulated=None)
AFTER = Window("s", "fedssa", 13, 20, accuracy=0.7, change=0.01, bytes=1 << 20, seconds=3, simulated=None)
SWITCH = Effect(12, "switch", ("method fedlora → fedssa", "training.lr 0.1 → 0.05"), BEFORE, AFTER)
BESIDE = Window(
    "main", "fedlora", 13, 20, accuracy=0.68, change=0.01, bytes=3 << 20, seconds=2, simulated=None
)
FORK = Effect(12, "fork", (), BEFORE, AFTER, BESIDE, "main")


def test_a_title_says_when_and_what() -> None:
    assert findings.effect_title(SWITCH) == "After round 12: method fedlora → fedssa; training.lr 0.1 → 0.05"
    assert findings.effect_title(FORK) == "Fork of main after round 12: nothing changed"


def test_the_table_has_both_sides_their_difference_and_the_parent() -> None:
    assert findings.effect_rows(FORK) == [
        ["before", "3–12 (10)", "60.0 %", "+2.0 pp", "3.0 MiB", "2.00 s"],
        ["after", "13–20 (8)", "70.0 %", "+1.0 pp", "1.0 MiB", "3.00 s"],
        ["after − before", "", "+10.0 pp", "", "×0.33", "×1.50"],
        ["main, fedlora", "13–20 (8)", "68.0 %", "+1.0 pp", "3.0 MiB", "2.00 s"],
        ["after − main", "", "+2.0 pp", "", "×0.33", "×1.50"],
    ]
    assert findings.effect_columns(FORK) == ("", "rounds", ">accuracy", ">per round", ">bytes", ">time")


def test_what_is_missing_is_a_dash() -> None:
    unknown = replace(SWITCH, after=None, before=replace(BEFORE, accuracy=None, change=None, last=3, bytes=0))
    assert findings.effect_rows(unknown) == [
        ["before", "3 (1)", "–", "–", "0 B", "2.00 s"],
        ["after", "none", "–", "–", "–", "–"],
    ]
    silent = replace(BEFORE, bytes=0)  # as under Standalone
    assert findings.effect_rows(replace(SWITCH, before=silent, after=silent))[2][4] == ""
    assert findings.effect_rows(replace(SWITCH, before=silent))[2][4] == "–"


def test_a_computed_clock_has_a_column() -> None:
    on_clock = replace(SWITCH, before=replace(BEFORE, simulated=60.0), after=replace(AFTER, simulated=30.0))
    assert findings.effect_columns(on_clock)[-1] == ">simulated"
    assert [row[-1] for row in findings.effect_rows(on_clock)] == ["1 min", "30 s", "×0.50"]


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
