"""Points of a plane as cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.app.charts.pictures import IN_ASCII, LOOK, NO_COLOUR, draw, drawn, picture, rows_of
from tui.app.charts.look import GLYPHS, REVERSE, Look
from tui.app.charts.scatter import IN_TURN, KEYS, ScatterFigure, colour_of, key_of, most_in_each

NOWHERE = np.zeros((0, 2)), np.zeros(0, int)


def figure(points, groups, names=("cat", "dog", "owl"), marks=NOWHERE, **options):
    at, of = (np.array(each, float if place == 0 else int) for place, each in enumerate(marks))
    return ScatterFigure(
        np.array(points, float), np.array(groups), names, at.reshape(-1, 2), of, "prototype", **options
    )


def test_the_points_fill_the_plot_with_y_upwards():
    # a mark needs a cell on either side, so that the outermost columns stay empty
    assert drawn(draw(figure([[0, 0], [1, 1], [0.5, 0.5]], [0, 1, 2]), 7, 5)) == picture(
        """
        |     1 |
        |       |
        |   2   |
        |       |
        | 0     |
        """
    )
    for same in ([[2, 2]], [[2, 2], [2, 2]]):  # all at one place
        assert "".join(rows_of(figure(same, [0] * len(same)), 5, 2)).count("0") == 1


def test_a_cell_shows_the_group_that_has_most_points_in_it_and_of_equal_ones_the_first():
    rows, columns = np.array([0, 0, 0, 3, 3]), np.array([1, 1, 1, 2, 2])
    assert most_in_each(rows, columns, np.array([2, 1, 1, 2, 0])) == [(0, 1, 1), (3, 2, 0)]


def test_a_mark_stands_over_the_points_in_its_groups_colour_or_reversed():
    points, marks = [[0, 0], [1, 0], [0.5, 1]], ([[0.5, 1]], [1])
    shown = draw(figure(points, [0, 2, 2], marks=marks), 9, 3)
    assert drawn(shown) == ["   [1]   ", "         ", " 0     2 "]
    assert shown.bg[0, 3:7].tolist() == [colour_of(1, 3, LOOK)] * 3 + [LOOK.background]
    plain = draw(figure(points, [0, 2, 2], marks=marks), 9, 3, NO_COLOUR)
    assert (plain.flags[0, 3:6] & REVERSE).all()
    assert set(plain.fg.ravel().tolist()) == {NO_COLOUR.text}


def test_where_marks_meet_their_keys_stand_before_their_brackets():
    shown = figure([[0, 0], [8, 0]], [0, 0], marks=([[3, 0], [4, 0]], [1, 2]))
    assert rows_of(shown, 11, 2)[1] == " 0 [12]  0"


def test_points_that_do_not_count_are_dots_behind_those_that_do():
    shown = figure([[0, 0], [0, 0], [1, 1]], [0, 1, 0], shown=np.array([False, True, False]))
    assert drawn(draw(shown, 7, 3, IN_ASCII)) == ["     . ", "       ", " 1     "]


def test_the_legend_names_marks_and_the_groups_there_are():
    shown = figure([[0, 0], [1, 1]], [0, 2], marks=([[0, 0]], [2]))
    assert rows_of(shown, 60, 9)[0] == "[k] prototype of class k  0 cat  2 owl"


def test_many_groups_have_the_colours_of_the_scale_in_order():
    few = {colour_of(group, IN_TURN, LOOK) for group in range(IN_TURN)}
    many = [colour_of(group, 100, LOOK) for group in range(100)]
    assert len(few) == 8  # in turn; their keys tell them apart
    assert len(dict.fromkeys(many)) > 20 and many == sorted(many, key=many.index)
    assert key_of(len(KEYS) - 1) == "Z" and key_of(len(KEYS)) == "*"


@given(
    points=arrays(float, st.tuples(st.integers(0, 40), st.just(2)), elements=st.floats(-1e6, 1e6)),
    width=st.integers(0, 60),
    height=st.integers(0, 30),
    glyphs=st.sampled_from(list(GLYPHS.values())),
    coloured=st.booleans(),
)
def test_any_points_fit_into_any_room(points, width, height, glyphs, coloured):
    groups = np.arange(len(points)) % 3
    shown = figure(points, groups, marks=(points[:2], groups[:2]))
    canvas = draw(shown, width, height, Look(coloured=coloured, glyphs=glyphs))
    assert (canvas.width, canvas.height) == (width, height)
    assert glyphs.name != "ascii" or canvas.text().isascii()
