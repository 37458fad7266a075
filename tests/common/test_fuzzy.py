"""A few letters find a line; numbers and inner letters find only what contains them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.common.fuzzy import best, fits


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("3 cnn1 pinned", "", True),
        ("3 cnn1 pinned", "CNN1", True),
        ("3 cnn1 pinned", "nn1", True),  # inside
        ("3 cnn1 pinned", "c1", True),  # spread over one word, from its beginning
        ("3 cnn1 pinned", "c1 pnd", True),
        ("3 cnn1 pinned", "n1", True),
        ("3 cnn1 pinned", "nd1", False),  # in no word, and not in order
        ("3 cnn1 pinned", "cp", False),  # over two words
        ("3 cnn1 pinned", "ind", False),  # the first letter does not begin a part of the word
        ("t3/fedssa-s0", "ss0", False),
        ("t3/fedssa-s0", "fs0", True),
        ("t3/fedssa-s0", "ts0", True),
        ("1024", "12", False),
        ("1024", "02", True),
    ],
)
def test_what_a_filter_finds(text: str, query: str, found: bool) -> None:
    assert fits(text, query) is found


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
