"""A few letters find a line; numbers and inner letters find only what contains them."""

from hypothesis import given
from hypothesis import strategies as st

from tui.common.fuzzy import best, fits

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
