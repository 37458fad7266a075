"""The timeline in cells, which can be worked out by hand: ten seconds on twenty cells, half a second each."""

from dataclasses import replace
from typing import get_args

from simulator.clock.schedule import Fate
from simulator.results.analysis.timeline import Dispatch, Timeline
from simulator.results.figures.timeline import FATES
from tui.app.charts.look import ASCII, DEFAULT, Canvas, Look, row_text
from tui.app.charts.timeline import FRAME, WASTED, draw_timeline

USED = Dispatch(
    0, "used", 7, (("latency", 0, 1), ("down", 1, 3), ("compute", 3, 6), ("up", 6, 7), ("wait", 7, 10))
)
LOST = Dispatch(1, "lost", 4, (("down", 0, 2), ("compute", 2, 4)))
FOUND = Timeline((1, 2), 0, 10, ((1, 5.0), (2, 10.0)), (0, 1), 2, (LOST, USED))
"""Rounds end after 5 s and 10 s. With names of one digit, the plot is two cells narrower than the chart."""


IN_ASCII = Look(glyphs=ASCII)


def drawn(found: Timeline = FOUND, width: int = 22, height: int = 6, look: Look = IN_ASCII) -> Canvas:
    return draw_timeline(lambda most: found, width, height, look)


def lines(canvas: Canvas) -> list[str]:
    return [row_text(row).rstrip() for row in canvas.chars]


def test_a_cell_shows_what_its_client_does_and_a_mark_ends_lost_work() -> None:
    assert lines(drawn())[:3] == [
        "            1        2",
        "0 ..vvvv######^^------",
        "1 vvvv####x :        :",
    ]


def test_other_glyphs_have_the_same_places_and_without_color_characters_alone_say_it() -> None:
    assert lines(drawn(look=Look()))[1:3] == ["0 ··▼▼▼▼██████▲▲──────", "1 ▼▼▼▼████× ┊        ┊"]
    canvas = drawn(look=Look(text=DEFAULT, background=DEFAULT, coloured=False, glyphs=ASCII))
    assert lines(canvas)[1] == lines(drawn())[1]
    assert set(canvas.fg.ravel().tolist()) == {DEFAULT}
    canvas = drawn()  # lost work is gray
    assert set(canvas.fg[2, 2:10].tolist()) == {IN_ASCII.muted}
    assert canvas.fg[1, 8] == IN_ASCII.series(4)


def test_every_fate_of_wasted_work_has_a_mark_and_a_name() -> None:
    assert set(WASTED) == set(FATES) == set(get_args(Fate)) - {"used"}
    for fate in get_args(Fate):
        found = Timeline((1, 1), 0, 10, ((1, 10.0),), (1,), 1, (replace(LOST, fate=fate),))
        line = lines(drawn(found, width=80, height=12))
        assert (fate == "used") == (line[2].split()[1].strip("v#:") == "")


def test_the_x_axis_says_which_clients_are_shown_and_has_large_units_for_long_times() -> None:
    some = Timeline((1, 2), 0, 10, ((1, 5.0),), (0, 9), 10_000, (USED,))
    assert any("2 of 10,000 clients, simulated s" in line for line in lines(drawn(some, width=80)))
    for ends, unit in ((90.0, "s"), (7000.0, "min"), (90_000.0, "h")):
        found = Timeline((1, 1), 0, ends, ((1, ends),), (0,), 1, ())
        assert any(line.endswith(f"simulated {unit}") for line in lines(drawn(found, width=60)))


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
        assert not "".join(lines(drawn(width=width, height=height))).strip()
