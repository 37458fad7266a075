"""The part of the rounds that a line chart shows, and its cursor."""

import numpy as np

from tests.app.widgets.stage import lines, on_stage
from tui.app.charts.figure import Figure, Series
from tui.app.widgets import LineChart

wave = Series("wave", np.sin(np.arange(100) / 9) / 2 + 0.5)


def test_zooming_in_halves_the_view_and_keeps_the_newest_rounds():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))  # rounds 1–101
    chart.zoom_in()
    assert chart.x_range == (51, 101)
    chart.zoom_in()
    assert chart.x_range == (76, 101)
    chart.zoom_out()
    assert chart.x_range == (51, 101)
    chart.zoom_out()
    assert chart.x_range == (1, 101)


def test_zooming_in_on_a_cursor_keeps_it_in_the_middle():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    chart.put_cursor(40)
    chart.zoom_in()
    assert chart.x_range == (15, 65)


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

    app = on_stage(chart, act)
    assert [message.x for message in app.posted] == [1, 2, 2, 3]  # moved to, and let go there


def test_a_chart_over_something_else_than_rounds_is_not_pointed_at():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(3.0))], x_label="layer"))

    async def act(pilot):
        await pilot.click(chart, offset=(40, 8))

    assert on_stage(chart, act).posted == []


def test_a_zoomed_view_goes_along_with_the_cursor():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    chart.zoom_in()
    chart.put_cursor(50)
    assert chart.x_range == (50, 100)
    chart.put_cursor(60)
    assert chart.x_range == (50, 100)
    chart.put_cursor(101)
    assert chart.x_range == (51, 101)


def test_zooming_in_stops_while_there_is_a_line_to_see():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    for _ in range(20):
        chart.zoom_in()
    assert chart.x_range == (97, 101)


def test_a_chart_that_was_zoomed_while_it_was_empty_shows_all_of_the_run_that_follows():
    chart = LineChart()
    chart.show(Figure())
    chart.zoom_in()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    assert chart.x_range == (1, 101)


def test_panning_stops_at_the_ends_of_the_data():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    chart.zoom_in()
    chart.pan(-0.5)
    assert chart.x_range == (26, 76)
    chart.pan(-5)
    assert chart.x_range == (1, 51)
    chart.pan(+50)
    assert chart.x_range == (51, 101)


def test_a_zoomed_view_follows_the_run_until_it_is_panned_back():
    chart = LineChart()
    chart.show(Figure([Series("a", np.arange(101.0))]))
    chart.zoom_in()
    chart.show(Figure([Series("a", np.arange(111.0))]))
    assert chart.x_range == (61, 111)
    chart.pan(-0.5)
    chart.show(Figure([Series("a", np.arange(121.0))]))
    assert chart.x_range == (36, 86)
    chart.reset_view()
    assert chart.x_range == (1, 121)
