"""Texts measured, cut, and filled by the cells that they take in a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from tui.common.cells import cell_count, cells_of, head, in_lines, padded, settled, tail

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
