"""Samples in cells: one line for each class, pictures, and means."""

from dataclasses import replace

import numpy as np

from simulator.results.inspection.client_samples import ClassSample, ClientSamples, FeatureMean
from tui.app.charts.look import ASCII, BRAILLE, Canvas, GlyphSet, Look
from tui.app.charts.samples import class_line, draw_samples, feature_lines, paint

PLAIN = Look(coloured=False)


def drawn(samples: ClientSamples, width: int, height: int, glyphs: GlyphSet = BRAILLE) -> list[str]:
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


def picture(brightness: float, side: int) -> tuple[tuple[float, ...], ...]:
    return ((brightness,) * side,) * side


def test_a_text_stands_behind_its_class_and_number_and_ascii_has_a_stroke_for_a_lines_end() -> None:
    assert drawn(PLAYS, 40, 3) == ["e     12  To be,⏎or not to b", "space  3  Ay.", ""]
    # name 5, space, count 2, two spaces: 10 of 20 cells
    assert class_line(PLAYS, PLAYS.classes[0], 20, Look()) == "e     12  To be,⏎or…"
    assert class_line(PLAYS, PLAYS.classes[0], 20, Look(glyphs=ASCII)) == "e     12  To be,/or~"


def test_classes_without_room_are_counted() -> None:
    many = ClientSamples(0, "tokens", tuple(ClassSample(each, str(each), 9 - each, "a") for each in range(5)))
    assert drawn(many, 20, 3) == ["0 9  a", "1 8  a", "+3 classes"]
    assert drawn(many, 20, 5)[-1] == "4 5  a"


def test_each_channel_has_a_sparkline_below_its_name() -> None:
    # 3 + 1 + 1 + 2 cells are before them; of 33 others, 16 are each channel's, with one between. A constant channel is
    # at half height.
    assert drawn(SIGNALS, 40, 2) == [
        "       acc" + " " * 14 + "gyro",
        "sit 7      " + "▁▇" * 6 + "     " + "▄" * 12,
    ]

    ten = ClientSamples(
        0, "signal", (ClassSample(0, "a", 1, values=((0.0,),) * 10),), tuple(str(each) for each in range(10))
    )
    # 5 cells, then 30: two of 12 cells and more, channels 0 and 5
    assert drawn(ten, 35, 1)[0].split() == ["0", "5"]


def test_means_stand_below_the_classes_with_the_largest_difference_first() -> None:
    assert drawn(TABLE, 40, 9) == [
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
        0, "image", tuple(ClassSample(each, f"class {each}", 5, values=picture(1.0, 4)) for each in range(4))
    )
    # As they are, a picture has 1 + 2 rows and 4 + 2 columns, so that 2 × 2 fit on 10 × 6 cells.
    assert drawn(images, 10, 6) == ["c… 5  c… 5", "████  ████", "████  ████"] * 2
    # On 10 × 4 cells, only one row would fit. Half as large, each has 1 + 1 rows and 2 + 2 columns: 3 in a row.
    assert drawn(images, 10, 4)[1] == "██  ██  ██"
    large = ClientSamples(0, "image", (ClassSample(0, "cat", 5, values=picture(1.0, 16)),))
    assert drawn(large, 20, 2) == ["cat 5", ""]
    assert drawn(ClientSamples(0, "image", ()), 20, 1) == [""]
