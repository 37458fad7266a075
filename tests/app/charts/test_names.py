"""Names that are cut and can still be told apart."""

from hypothesis import given
from hypothesis import strategies as st

from tui.common.cells import TELLING, apart, cut

RUNS = ["quickstart-20261122-104512-fedproto-fashion_mnist", "quickstart-20261122-104609-fedgh-fashion_mnist"]


def test_a_name_with_room_is_left_as_it_is_and_another_is_cut_in_its_middle() -> None:
    assert cut("fedlora-htm5", 12, "…") == "fedlora-htm5"
    assert cut("fedlora-htm5", 9, "…") == "fedl…htm5"
    assert [cut("abcdef", room, "…") for room in (0, 1, 2, 3)] == ["", "…", "a…", "a…f"]


def test_names_that_would_look_the_same_show_where_they_differ() -> None:
    assert {cut(name, 18, "…") for name in RUNS} == {"quickstar…on_mnist"}
    shown = apart(RUNS, 18, "…")
    assert shown == {RUNS[0]: "quic…512-fedproto…", RUNS[1]: "quickst…609-fedgh…"}


def test_names_that_differ_anyway_are_cut_as_ever() -> None:
    names = ["checkpoint.every", "training.lr"]
    assert apart(names, 10, "…") == {name: cut(name, 10, "…") for name in names}


def test_settings_of_one_name_in_two_sections_are_told_apart() -> None:
    shown = apart(["checkpoint.keep_every", "checkpoint.every"], 11, "…")
    assert len(set(shown.values())) == 2


NAMES = st.sets(st.text("ab-_1", min_size=1, max_size=20), min_size=1, max_size=6)


def test_names_of_wide_characters_are_cut_by_their_cells() -> None:
    assert [cut("実験の結果", room, "…") for room in (10, 9, 7, 5, 3)] == [
        "実験の結果",
        "実験…結果",
        "実…果",
        "実…果",
        "…",
    ]
    assert apart(["実験の結果", "実験の計画"], 9, "…") == {
        "実験の結果": "実験…結果",
        "実験の計画": "実験…計画",
    }


@given(NAMES, st.integers(0, 20))
def test_nothing_is_wider_than_its_room_and_no_more_look_the_same_than_by_plain_cutting(
    names: set[str], room: int
) -> None:
    shown = apart(names, room, "…")
    assert set(shown) == names
    assert all(len(text) <= room for text in shown.values())
    assert len({*shown.values()}) >= len({cut(name, room, "…") for name in names})
    if room >= TELLING:
        assert all(shown[name] == name for name in names if len(name) <= room)
