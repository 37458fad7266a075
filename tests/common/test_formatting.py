"""How numbers, times and texts are written."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.common.cells import cell_count
from tui.common.formatting import (
    amount,
    branches,
    course,
    duration,
    number,
    percent,
    points,
    printable,
    size,
    spelled,
    wrapped,
)

WRITTEN: list[tuple[Callable[[Any], str], dict[float, str]]] = [
    (percent, {0.847: "84.7 %", 0: "0.0 %", 1.0: "100.0 %", 0.97659: "97.7 %"}),
    (points, {0.0123: "+1.2", -0.2: "−20.0", -0.0001: "0.0", 0.0: "0.0"}),
    (
        size,
        {
            0: "0 B",
            1023: "1023 B",
            1024: "1.0 KiB",
            122_680: "119.8 KiB",
            1_048_524: "1023.9 KiB",
            1_048_575: "1.0 MiB",  # and not 1024.0 KiB
            1_572_864: "1.5 MiB",
            5 * 2**50: "5120.0 TiB",
        },
    ),
    (
        amount,
        {0: "0", 512: "512", 999.6: "1.0k", 98_300: "98.3k", 300_000: "300k", 999_960: "1.0M"},
    ),
    (duration, {0.4: "0 s", 40: "40 s", 200: "3 min", 7500: "2 h 05 min", 273_600: "3 d 4 h"}),
    (number, {}),
]


def test_numbers_are_written_in_their_units_and_what_there_is_not_is_a_dash() -> None:
    for write, texts in WRITTEN:
        assert {value: write(value) for value in texts} == texts
        assert write(None) == write(math.nan) == "–"


@given(st.floats(0, 1e17))
def test_a_size_is_within_half_of_its_last_digit(count: float) -> None:
    text, unit = size(count).split()
    assert float(text) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[
        unit
    ] == pytest.approx(count, rel=0.051, abs=0.51)
    assert len(size(count)) <= 10 or count >= 2**50


@given(st.floats(-9.99e14, 9.99e14))
def test_an_amount_keeps_its_size_to_three_digits_in_six_characters(count: float) -> None:
    text = amount(count)
    unit = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1)
    assert float(text.rstrip("kMGT")) * unit == pytest.approx(count, rel=0.051, abs=0.51)
    assert len(text) <= 6


def test_a_course_names_the_rounds_from_which_the_later_methods_were_in_force() -> None:
    assert course([]) == ""
    assert course([(1, "fedlora")]) == "fedlora"
    assert course([(1, "fedlora"), (12, "fedssa"), (20, "fd")]) == "fedlora→fedssa@12→fd@20"


def test_branches_are_drawn_to_the_last_of_each_level() -> None:
    assert branches(()) == ""
    assert branches((False,)) == "├─ "
    assert branches((False, True)) == "│  └─ "
    assert branches((True, False)) == "   ├─ "


def test_control_characters_are_replaced_and_in_ascii_everything_else_is_spelled() -> None:
    assert printable("a\x1b[2Jb\rc\nd") == r"a\x1b[2Jb\rc\nd"
    assert spelled("η → 5 × μ…", "ascii") == "eta -> 5 x mu..."
    assert spelled("η → 5", "braille") == "η → 5"
    assert spelled("日本", "ascii") == "??"
    assert spelled("naïve Müller", "ascii") == "naive Muller"
    assert spelled("日本\n🙂\x1b[2J", "braille") == "日本\n🙂�[2J"


@given(st.text(max_size=200), st.integers(0, 50))
def test_wrapped_text_has_a_line_at_least_and_none_too_wide(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert lines
    assert max(map(cell_count, lines)) <= max(width, 2)  # a wide character is not halved
