"""The part of the rounds that a line chart shows, and its cursor."""

import numpy as np
import pytest

from tests.app.widgets.stage import lines, on_stage
from tui.app.charts.chart import Figure, Series
from tui.app.widgets import LineChart


def of_rounds(rounds=101):
    chart = LineChart()
    chart.show(grown(rounds))
    return chart


def grown(rounds):
    return Figure([Series("a", np.arange(float(rounds)))])


def test_zooming_halves_the_view_around_the_cursor_or_at_the_newest_rounds():
    chart, seen = of_rounds(), []
    for zoom in ("zoom_in", "zoom_in", "zoom_out", "zoom_out"):
        getattr(chart, zoom)()
        seen.append(chart.x_range)
    assert seen == [(51, 101), (76, 101), (51, 101), (1, 101)]
    chart.put_cursor(40)
    chart.zoom_in()
    assert chart.x_range == (15, 65)
    for _ in range(20):
        chart.zoom_in()
    assert chart.x_range == (38, 42)  # a line is still to be seen


def test_a_zoomed_view_goes_along_with_the_cursor_and_pans_up_to_the_ends():
    chart = of_rounds()
    chart.zoom_in()
    for at, view in ((50, (50, 100)), (60, (50, 100)), (101, (51, 101))):
        chart.put_cursor(at)
        assert chart.x_range == view
    for share, view in ((-0.5, (26, 76)), (-5, (1, 51)), (50, (51, 101))):
        chart.pan(share)
        assert chart.x_range == view


def test_a_zoomed_view_follows_the_run_until_it_is_panned_back():
    chart = of_rounds()
    chart.zoom_in()
    chart.show(grown(111))
    assert chart.x_range == (61, 111)
    chart.pan(-0.5)
    chart.show(grown(121))
    assert chart.x_range == (36, 86)
    chart.reset_view()
    assert chart.x_range == (1, 121)
    chart.show(Figure())
    chart.zoom_in()
    chart.show(grown(101))
    assert chart.x_range == (1, 101)  # an empty chart cannot be zoomed


def test_the_cursor_steps_from_one_x_to_the_next_and_stops_at_the_ends():
    chart = LineChart()
    places = np.array([1.0, 5.0, 9.0])
    chart.show(Figure([Series("a", np.zeros(3), places), Series("b", np.zeros(2), np.array([5.0, 6.0]))]))
    assert chart.step(-1) == 9  # without a cursor, the newest
    for at, by, to in ((9, -1, 6), (6, -1, 5), (7, 1, 9), (7, -1, 6), (1, -1, 1), (9, 1, 9), (1, 10, 9)):
        chart.put_cursor(at)
        assert chart.step(by) == to
    chart.show(Figure())
    assert chart.step(1) is None


@pytest.mark.long
def test_the_mouse_points_at_the_nearest_x_while_it_is_pressed_on_the_plot():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(3.0))], over="rounds"))

    async def act(pilot):
        await pilot.pause()
        left = lines(chart)[-2].index("└") + 1
        middle = left + (78 - left) // 2  # of three rounds; the key at the line's end takes two columns
        for move, x in ((pilot.mouse_down, left), (pilot.hover, middle), (pilot.mouse_up, middle)):
            await move(chart, offset=(x, 8))
        await pilot.hover(chart, offset=(77, 8))  # with no button pressed
        await pilot.click(chart, offset=(1, 8))  # on the axis
        await pilot.click(chart, offset=(77, 8))
        chart.show(Figure([Series("a", np.arange(3.0))], x_label="layer"))  # not over rounds
        await pilot.click(chart, offset=(40, 8))

    app = on_stage(chart, act)
    assert [message.x for message in app.posted] == [1, 2, 2, 3]  # moved to, and let go there
