"""Points of a plane, samples, and clients over time as cells."""

from dataclasses import replace
from typing import get_args

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.clock.schedule import Fate
from simulator.results.analysis.timeline import Dispatch, Timeline
from simulator.results.figures.timeline import FATES
from simulator.results.inspection.client_samples import ClassSample, ClientSamples, FeatureMean
from tests.app.charts.pictures import IN_ASCII, LOOK, NO_COLOUR, draw, drawn, picture, rows_of
from tui.app.charts.look import ASCII, BRAILLE, DEFAULT, GLYPHS, REVERSE, Canvas, GlyphSet, Look, row_text
from tui.app.charts.samples import class_line, draw_samples, feature_lines, paint
from tui.app.charts.scatter import IN_TURN, KEYS, ScatterFigure, colour_of, key_of, most_in_each
from tui.app.charts.timeline import FRAME, WASTED, draw_timeline

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


PLAIN = Look(coloured=False)


def sampled(samples: ClientSamples, width: int, height: int, glyphs: GlyphSet = BRAILLE) -> list[str]:
    return [
        line.rstrip()
        for line in draw_samples(samples, width, height, replace(PLAIN, glyphs=glyphs)).text().split("\n")
    ]


PLAYS = ClientSamples(
    2, "tokens", (ClassSample(4, "e", 12, "To be,⏎or not to b"), ClassSample(0, "space", 3, "Ay."))
)
SIGNALS = ClientSamples(
    0, "signal", (ClassSample(0, "sit", 7, values=((0.0, 1.0) * 6, (1.0,) * 12)),), channels=("acc", "gyro")
)
TABLE = ClientSamples(
    0,
    "table",
    (ClassSample(1, "ill", 20), ClassSample(0, "well", 5)),
    features=(FeatureMean("age", 71.25, 40.0, 1.5), FeatureMean("dose", 0.5, 0.625, -0.25)),
)


def gray(brightness: float, side: int) -> tuple[tuple[float, ...], ...]:
    return ((brightness,) * side,) * side


def test_a_text_stands_behind_its_class_and_number_and_ascii_has_a_stroke_for_a_lines_end() -> None:
    assert sampled(PLAYS, 40, 3) == ["e     12  To be,⏎or not to b", "space  3  Ay.", ""]
    # name 5, space, count 2, two spaces: 10 of 20 cells
    assert class_line(PLAYS, PLAYS.classes[0], 20, Look()) == "e     12  To be,⏎or…"
    assert class_line(PLAYS, PLAYS.classes[0], 20, Look(glyphs=ASCII)) == "e     12  To be,/or~"


def test_classes_without_room_are_counted() -> None:
    many = ClientSamples(0, "tokens", tuple(ClassSample(each, str(each), 9 - each, "a") for each in range(5)))
    assert sampled(many, 20, 3) == ["0 9  a", "1 8  a", "+3 classes"]
    assert sampled(many, 20, 5)[-1] == "4 5  a"


def test_each_channel_has_a_sparkline_below_its_name() -> None:
    # 3 + 1 + 1 + 2 cells are before them; of 33 others, 16 are each channel's, with one between. A constant channel is
    # at half height.
    assert sampled(SIGNALS, 40, 2) == [
        "       acc" + " " * 14 + "gyro",
        "sit 7      " + "▁▇" * 6 + "     " + "▄" * 12,
    ]

    ten = ClientSamples(
        0, "signal", (ClassSample(0, "a", 1, values=((0.0,),) * 10),), tuple(str(each) for each in range(10))
    )
    # 5 cells, then 30: two of 12 cells and more, channels 0 and 5
    assert sampled(ten, 35, 1)[0].split() == ["0", "5"]


def test_means_stand_below_the_classes_with_the_largest_difference_first() -> None:
    assert sampled(TABLE, 40, 9) == [
        "ill  20",
        "well  5",
        "",
        "mean of  client    all    SDs",
        "age       71.25     40  +1.50",
        "dose        0.5  0.625  -0.25",
        "",
        "",
        "",
    ]
    assert feature_lines(TABLE, 25, Look())[0] == "mea…  client    all    SDs"


def test_a_picture_is_two_pixels_in_each_cell_or_a_character_by_their_brightness() -> None:
    plot = Canvas.blank(1, 1)
    paint(plot, np.array([[1.0], [0.5]]), Look())
    assert (plot.text(), plot.fg[0, 0], plot.bg[0, 0]) == ("▀", 0xFFFFFF, 0x808080)
    for glyphs, shown in ((BRAILLE, "·▒█"), (ASCII, ".+@")):
        plot = Canvas.blank(3, 1)
        paint(plot, np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), replace(PLAIN, glyphs=glyphs))
        assert plot.text() == shown


def test_pictures_are_in_a_grid_and_shrink_until_all_fit() -> None:
    images = ClientSamples(
        0, "image", tuple(ClassSample(each, f"class {each}", 5, values=gray(1.0, 4)) for each in range(4))
    )
    # As they are, a picture has 1 + 2 rows and 4 + 2 columns, so that 2 × 2 fit on 10 × 6 cells.
    assert sampled(images, 10, 6) == ["c… 5  c… 5", "████  ████", "████  ████"] * 2
    # On 10 × 4 cells, only one row would fit. Half as large, each has 1 + 1 rows and 2 + 2 columns: 3 in a row.
    assert sampled(images, 10, 4)[1] == "██  ██  ██"
    large = ClientSamples(0, "image", (ClassSample(0, "cat", 5, values=gray(1.0, 16)),))
    assert sampled(large, 20, 2) == ["cat 5", ""]
    assert sampled(ClientSamples(0, "image", ()), 20, 1) == [""]


USED = Dispatch(
    0, "used", 7, (("latency", 0, 1), ("down", 1, 3), ("compute", 3, 6), ("up", 6, 7), ("wait", 7, 10))
)
LOST = Dispatch(1, "lost", 4, (("down", 0, 2), ("compute", 2, 4)))
FOUND = Timeline((1, 2), 0, 10, ((1, 5.0), (2, 10.0)), (0, 1), 2, (LOST, USED))
"""Rounds end after 5 s and 10 s. With names of one digit, the plot is two cells narrower than the chart."""


def timed(found: Timeline = FOUND, width: int = 22, height: int = 6, look: Look = IN_ASCII) -> Canvas:
    return draw_timeline(lambda most: found, width, height, look)


def lines_of(canvas: Canvas) -> list[str]:
    return [row_text(row).rstrip() for row in canvas.chars]


def test_a_cell_shows_what_its_client_does_and_a_mark_ends_lost_work() -> None:
    assert lines_of(timed())[:3] == [
        "            1        2",
        "0 ..vvvv######^^------",
        "1 vvvv####x :        :",
    ]


def test_other_glyphs_have_the_same_places_and_without_color_characters_alone_say_it() -> None:
    assert lines_of(timed(look=Look()))[1:3] == ["0 ··▼▼▼▼██████▲▲──────", "1 ▼▼▼▼████× ┊        ┊"]
    canvas = timed(look=Look(text=DEFAULT, background=DEFAULT, coloured=False, glyphs=ASCII))
    assert lines_of(canvas)[1] == lines_of(timed())[1]
    assert set(canvas.fg.ravel().tolist()) == {DEFAULT}
    canvas = timed()  # lost work is gray
    assert set(canvas.fg[2, 2:10].tolist()) == {IN_ASCII.muted}
    assert canvas.fg[1, 8] == IN_ASCII.series(4)


def test_every_fate_of_wasted_work_has_a_mark_and_a_name() -> None:
    assert set(WASTED) == set(FATES) == set(get_args(Fate)) - {"used"}
    for fate in get_args(Fate):
        found = Timeline((1, 1), 0, 10, ((1, 10.0),), (1,), 1, (replace(LOST, fate=fate),))
        line = lines_of(timed(found, width=80, height=12))
        assert (fate == "used") == (line[2].split()[1].strip("v#:") == "")


def test_the_x_axis_says_which_clients_are_shown_and_has_large_units_for_long_times() -> None:
    some = Timeline((1, 2), 0, 10, ((1, 5.0),), (0, 9), 10_000, (USED,))
    assert any("2 of 10,000 clients, simulated s" in line for line in lines_of(timed(some, width=80)))
    for ends, unit in ((90.0, "s"), (7000.0, "min"), (90_000.0, "h")):
        found = Timeline((1, 1), 0, ends, ((1, ends),), (0,), 1, ())
        assert any(line.endswith(f"simulated {unit}") for line in lines_of(timed(found, width=60)))


def test_it_asks_for_no_more_clients_than_have_a_row() -> None:
    asked = list[int]()

    def make(most: int) -> Timeline:
        asked.append(most)
        clients = tuple(range(min(most, 50)))
        return Timeline((1, 2), 0, 10, ((1, 5.0),), clients, 50, (LOST, USED))

    for height in range(1, 30):
        asked.clear()
        canvas = draw_timeline(make, 60, height, IN_ASCII)
        assert (canvas.height, canvas.width) == (height, 60)
        assert all(1 <= most <= height - FRAME for most in asked)
    for width, height in ((0, 0), (5, 20), (80, 3)):
        assert not "".join(lines_of(timed(width=width, height=height))).strip()
