"""Texts: numbers, times, and series as they are written, their cells in a terminal, and what a few letters find."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.common.cells import cell_count, cells_of, head, in_lines, padded, settled, tail
from tui.common.formatting import (
    BARS,
    amount,
    branches,
    course,
    duration,
    number,
    percent,
    points,
    printable,
    size,
    sparkline,
    spelled,
    wrapped,
)  # fmt: skip
from tui.common.fuzzy import best, fits

WRITTEN: list[tuple[Callable[[Any], str], dict[float, str]]] = [
    (percent, {0.847: "84.7 %", 0: "0.0 %", 1.0: "100.0 %", 0.97659: "97.7 %"}),
    (points, {0.0123: "+1.2", -0.2: "−20.0", -0.0001: "0.0", 0.0: "0.0"}),
    (size, {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1_048_524: "1023.9 KiB", 5 * 2**50: "5120.0 TiB"}),
    (size, {1_048_575: "1.0 MiB"}),  # and not 1024.0 KiB
    (amount, {0: "0", 512: "512", 999.6: "1.0k", 98_300: "98.3k", 300_000: "300k", 999_960: "1.0M"}),
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
    factor = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert float(text) * factor == pytest.approx(count, rel=0.051, abs=0.51)
    assert len(size(count)) <= 10 or count >= 2**50


@given(st.floats(-9.99e14, 9.99e14))
def test_an_amount_keeps_its_size_to_three_digits_in_six_characters(count: float) -> None:
    text = amount(count)
    unit = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1)
    assert float(text.rstrip("kMGT")) * unit == pytest.approx(count, rel=0.051, abs=0.51)
    assert len(text) <= 6


def test_a_course_names_the_rounds_from_which_the_later_methods_were_in_force() -> None:
    assert course([]) == ""
    assert course([(1, "fedlora"), (12, "fedssa"), (20, "fd")]) == "fedlora→fedssa@12→fd@20"


def test_branches_are_drawn_to_the_last_of_each_level() -> None:
    assert [branches(last) for last in ((), (False, True), (True, False))] == ["", "│  └─ ", "   ├─ "]


def test_control_characters_are_replaced_and_in_ascii_everything_else_is_spelled() -> None:
    assert printable("a\x1b[2Jb\rc\nd") == r"a\x1b[2Jb\rc\nd"
    assert spelled("η → 5 × μ…", "ascii") == "eta -> 5 x mu..."
    assert spelled("η → 5", "braille") == "η → 5"
    assert spelled("日本", "ascii") == "??"
    assert spelled("naïve Müller", "ascii") == "naive Muller"
    assert spelled("日本\n🙂\x1b[2J", "braille") == "日本\n🙂�[2J"


@given(st.text(max_size=200), st.integers(0, 50))
def test_wrapped_text_has_a_line_at_least_and_none_too_wide(text: str, width: int) -> None:
    assert max(map(cell_count, wrapped(text, width))) <= max(width, 2)  # a wide character is not halved


SPARKS: list[tuple[list[float | None], int, str, tuple[float, float] | None, str]] = [
    ([0, 1, 2, 3, 4, 5, 6, 7], 8, BARS, None, BARS),
    ([0, math.nan, None, 6], 6, BARS, None, "  ▁  █"),  # the newest is last, and what is missing a space
    ([0, 0, 3, 3, 6, 6], 3, "abc", None, "abc"),  # neighbors are averaged
    ([0, None, None, None, 6, 6], 3, "abc", None, "a c"),
    ([0.3, 0.3], 2, BARS, None, "▅▅"),  # a series that never changes
    ([0.0, 0.5, 1.0, 1.5], 4, "abc", (0.0, 1.0), "abcc"),
    ([0.5, 0.5], 2, "abc", (0.0, 1.0), "bb"),
]


def test_a_sparkline_has_a_character_for_each_value_from_the_lowest_to_the_highest() -> None:
    for values, width, bars, limits, expected in SPARKS:
        assert sparkline(values, width, bars, limits) == expected


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=80), st.integers(0, 30))
def test_a_sparkline_has_the_width_asked_for(values: list[float], width: int) -> None:
    text = sparkline(values, width, "_-=")
    assert len(text) == width
    assert set(text) <= set("_-= ")


TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("日本🙂e\u0301ก็\u200d\ufe0fé ")), max_size=20)

SETTLED = {
    "cnn1": ("cnn1", 4),
    "日本": ("日本", 4),
    "e\u0301": ("é", 1),  # two code points, one letter
    "ก็": ("ก็", 1),  # a Thai letter with its vowel above
    "👍🏽": ("👍", 2),  # a skin tone: some terminals draw it as an emoji of its own
    "❤\ufe0f": ("❤", 1),
    "👩\u200d💻": ("👩💻", 4),
    "a\x1b[2J": ("a�[2J", 5),
    "a\u202eb": ("a�b", 3),  # it would turn the rest of the line
}


def test_a_text_has_a_width_that_all_terminals_agree_on() -> None:
    found = {text: (settled(text), cell_count(text)) for text in SETTLED}
    assert found == SETTLED
    assert {text: len(cells_of(text)) for text in SETTLED} == {
        text: cells for text, (_, cells) in found.items()
    }


@given(TEXTS, st.integers(0, 12))
def test_no_part_of_a_text_is_wider_than_its_room_and_both_ends_are_its_own(text: str, room: int) -> None:
    start, end = head(text, room), tail(text, room)
    assert settled(text).startswith(start) and settled(text).endswith(end)
    assert cell_count(start) <= room and cell_count(end) <= room
    assert cell_count(padded(start, room)) == cell_count(padded(end, room, right=True)) == room


def test_lines_are_broken_at_spaces_and_between_wide_characters() -> None:
    assert in_lines("実験 の結果です ok", 6) == ["実験", "の結果", "です", "ok"]
    assert in_lines("one two three", 7) == ["one two", "three"]


FOUND = {
    "3 cnn1 pinned": ["", "CNN1", "nn1", "c1", "c1 pnd", "n1"],  # inside a word, or spread over one
    "t3/fedssa-s0": ["fs0", "ts0"],
    "1024": ["02"],
}
NOT_FOUND = {
    "3 cnn1 pinned": ["nd1", "cp", "ind"],  # not in order, over two words, not from the beginning of a part
    "t3/fedssa-s0": ["ss0"],
    "1024": ["12"],
}


def test_what_a_filter_finds() -> None:
    for expected, texts in ((True, FOUND), (False, NOT_FOUND)):
        assert [
            (text, query)
            for text, queries in texts.items()
            for query in queries
            if fits(text, query) != expected
        ] == []


def test_the_best_come_first_and_equal_ones_keep_their_order() -> None:
    names = ["reproto", "my-proto", "prxyoto", "protocol", "proto two", "proto one"]
    assert best(names, "proto", str) == [
        "proto two", "proto one",  # the whole first word
        "protocol",  # its beginning
        "my-proto",  # the beginning of a part
        "reproto",  # inside
        "prxyoto",  # spread
    ]  # fmt: skip
    assert best(names, "", str) == names


@given(st.lists(st.text(alphabet="ab1- ", max_size=8)), st.text(alphabet="ab1 ", max_size=4))
def test_a_ranking_leaves_out_only_what_does_not_fit(texts: list[str], query: str) -> None:
    found = best(texts, query, str)
    assert sorted(found) == sorted(text for text in texts if fits(text, query))


@given(st.text(alphabet="abc1-", min_size=1, max_size=8))
def test_a_text_finds_itself_first(text: str) -> None:
    assert best(["x", f"a{text}", text], text, str)[0] == text
