"""The widgets in a living app."""

from dataclasses import replace

import numpy as np
import pytest

from tests.app.widgets.stage import Refreshed, lines, on_stage
from tui.app.drawing.colours import contrast
from tui.app.drawing.figure import Mark, Series
from tui.app.widgets import ClientRow, ClientTable, Heatmap, LineChart

ROWS = [ClientRow(client, f"cnn{client % 5 + 1}", client / 100, 0.01) for client in range(60)]
wave = Series("wave", np.sin(np.arange(100) / 9) / 2 + 0.5)


def test_a_chart_fills_its_place_and_follows_a_new_size():
    chart = LineChart()

    async def act(pilot):
        chart.show([wave])
        await pilot.pause()
        assert "1 wave" in lines(chart)[0]
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        shown = lines(chart)
        assert len(shown) == 40
        assert {len(line) for line in shown} == {120}

    on_stage(chart, act)


def test_nothing_is_sent_again_when_nothing_changed(monkeypatch):
    chart = LineChart()

    async def act(pilot):
        chart.show([wave])
        await pilot.pause()
        refreshed = Refreshed(chart, monkeypatch)
        chart.show([Series("wave", wave.y.copy())])
        await pilot.pause()
        assert refreshed.lines == []

    on_stage(chart, act)


def test_only_lines_that_came_out_different_are_sent_again(monkeypatch):
    chart = LineChart(y_range=(0, 1))

    async def act(pilot):
        chart.show([Series("a", np.full(50, 0.2), key="a")])
        await pilot.pause()
        refreshed = Refreshed(chart, monkeypatch)
        chart.show([Series("a", np.r_[np.full(49, 0.2), 0.24], key="a")])
        await pilot.pause()
        # the legend's value, and the one or two rows around 0.2 of the axis
        assert refreshed.lines[0] == 0
        assert 2 <= len(refreshed.lines) <= 4

    on_stage(chart, act)


def test_many_changes_at_once_are_drawn_once(monkeypatch):
    chart = LineChart()
    drawings = []
    draw = chart.draw
    monkeypatch.setattr(chart, "draw", lambda *surface: drawings.append(surface) or draw(*surface))

    async def act(pilot):
        chart.show([wave])
        await pilot.pause()
        drawings.clear()
        chart.show([wave])
        chart.log_y = True
        chart.cursor = 12
        chart.show([wave], marks=[Mark(3, "fork")])
        await pilot.pause()
        assert len(drawings) == 1

    on_stage(chart, act)


def test_a_chart_that_cannot_be_seen_is_not_drawn(monkeypatch):
    chart = LineChart()

    async def act(pilot):
        chart.display = False
        await pilot.pause()
        monkeypatch.setattr(chart, "draw", lambda *surface: pytest.fail("it was drawn"))
        chart.show([wave])
        await pilot.pause()

    on_stage(chart, act)


def test_what_was_shown_before_the_app_began_is_there_when_it_does():
    chart = LineChart()
    chart.show([wave])

    async def act(pilot):
        assert "1 wave" in lines(chart)[0]

    on_stage(chart, act)


def test_zooming_in_halves_the_view_and_keeps_the_newest_rounds():
    chart = LineChart()
    chart.show([Series("a", np.arange(101.0))])  # rounds 1–101
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
    chart.show([Series("a", np.arange(101.0))])
    chart.set_reactive(LineChart.cursor, 40)
    chart.zoom_in()
    assert chart.x_range == (15, 65)


def test_zooming_in_stops_while_there_is_a_line_to_see():
    chart = LineChart()
    chart.show([Series("a", np.arange(101.0))])
    for _ in range(20):
        chart.zoom_in()
    assert chart.x_range == (97, 101)


def test_panning_stops_at_the_ends_of_the_data():
    chart = LineChart()
    chart.show([Series("a", np.arange(101.0))])
    chart.zoom_in()
    chart.pan(-0.5)
    assert chart.x_range == (26, 76)
    chart.pan(-5)
    assert chart.x_range == (1, 51)
    chart.pan(+50)
    assert chart.x_range == (51, 101)


def test_a_zoomed_view_follows_the_run_until_it_is_panned_back():
    chart = LineChart()
    chart.show([Series("a", np.arange(101.0))])
    chart.zoom_in()
    chart.show([Series("a", np.arange(111.0))])
    assert chart.x_range == (61, 111)
    chart.pan(-0.5)
    chart.show([Series("a", np.arange(121.0))])
    assert chart.x_range == (36, 86)
    chart.reset_view()
    assert chart.x_range == (1, 121)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord", "gruvbox", "ansi-dark"])
def test_without_colour_no_text_has_the_colour_of_its_background(theme, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    chart = LineChart()

    async def act(pilot):
        pilot.app.theme = theme
        chart.show([wave, Series("mean", wave.y / 2, pinned=True)], marks=[Mark(30, "fedgh")])
        await pilot.pause()
        for strip in chart.screen._compositor.render_strips():
            for text, style, _ in strip:
                assert style is not None
                if text.strip() and style.color is not None and style.bgcolor is not None:
                    assert legible(style)

    on_stage(chart, act)


def legible(style):
    """Whether ink differs from paper; grid lines are faint on purpose. The terminal's own colours are legible."""
    ink, paper = style.color.triplet, style.bgcolor.triplet
    return None in (ink, paper) or contrast(*(int(one.hex[1:], 16) for one in (ink, paper))) > 1.2


@pytest.mark.parametrize("glyphs", ["braille", "block", "ascii"])
def test_glyphs_may_change_while_the_app_runs(glyphs):
    chart = LineChart()

    async def act(pilot):
        chart.show([wave])
        await pilot.pause()
        chart.glyphs = glyphs
        await pilot.pause()
        text = "".join(lines(chart))
        assert text.isascii() is (glyphs == "ascii")
        assert any(0x2800 < ord(character) < 0x2900 for character in text) is (glyphs == "braille")

    on_stage(chart, act)


def test_the_heatmaps_cursor_is_told_in_the_matrixs_own_order():
    group = np.arange(6) % 2
    matrix = np.where(group[:, None] == group, 0.9, 0.1) + np.arange(36).reshape(6, 6) / 1000
    heatmap = Heatmap(clustered=True, axes=("client", "client"))

    async def act(pilot):
        heatmap.show(matrix)
        heatmap.put_cursor(4, 1)
        await pilot.pause()
        assert heatmap.cursor == (4, 1)
        assert heatmap.value == matrix[4, 1]
        assert lines(heatmap)[-1].startswith("client 4 × client 1: 0.125")
        heatmap.cluster()
        await pilot.pause()
        assert heatmap.cursor == (4, 1)

    app = on_stage(heatmap, act)
    assert [(message.row, message.column) for message in app.posted] == [(4, 1)]


def test_the_heatmaps_cursor_stops_at_the_edges():
    heatmap = Heatmap()

    async def act(pilot):
        heatmap.show(np.eye(3))
        heatmap.move(0, 0)
        heatmap.move(-1, +9)
        assert heatmap.cursor == (0, 2)
        heatmap.move(+9, -1)
        assert heatmap.cursor == (2, 1)
        heatmap.hide_cursor()
        assert np.isnan(heatmap.value)

    on_stage(heatmap, act)


def test_a_heatmaps_cursor_is_gone_with_its_cell():
    heatmap = Heatmap()

    async def act(pilot):
        heatmap.show(np.eye(5))
        heatmap.put_cursor(4, 4)
        heatmap.show(np.eye(4))
        assert heatmap.cursor is None

    on_stage(heatmap, act)


def test_labels_that_do_not_match_the_matrix_are_refused():
    with pytest.raises(ValueError, match="a 2 × 2 heatmap has 1 row and 2 column labels"):
        Heatmap().show(np.eye(2), rows=["a"])


def test_only_clients_that_changed_are_sent_again(monkeypatch):
    table = ClientTable()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        refreshed = Refreshed(table, monkeypatch)
        table.show([replace(row, accuracy=0.5) if row.id in (3, 7, 59) else row for row in ROWS])
        await pilot.pause()
        assert refreshed.lines == [4, 8]  # below the header; client 59 is out of sight
        refreshed.lines.clear()
        table.show([replace(row, accuracy=0.5) if row.id in (3, 7, 59) else row for row in ROWS])
        await pilot.pause()
        assert refreshed.lines == []

    on_stage(table, act)


def test_the_header_stays_while_clients_scroll():
    table = ClientTable()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        header = lines(table)[0]
        await pilot.press("end")
        await pilot.pause()
        shown = lines(table)
        assert shown[0] == header
        assert shown[-1].split()[:2] == ["▶", "59"]
        await pilot.press("home", "down", "pagedown")
        await pilot.pause()
        assert table.selected == 23  # one line down, then a screen less a line: 22
        assert any(line.startswith("▶") and " 23 " in line for line in lines(table))

    on_stage(table, act)


def test_the_cursor_keeps_to_its_client_when_rows_change_places():
    table = ClientTable()

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(5)
        table.sort_by("accuracy", descending=True)
        assert table.shown[:2] == [59, 58]
        assert table.selected == 5

    on_stage(table, act)


def test_a_filter_that_hides_the_cursors_client_moves_it_to_one_that_is_shown():
    table = ClientTable()

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(5)
        table.filter("cnn2")
        assert table.shown == [client for client in range(60) if client % 5 == 1]
        assert table.selected in table.shown
        table.filter("no such model")
        assert table.selected is None
        table.filter("")
        assert len(table.shown) == 60

    on_stage(table, act)


def test_sorting_goes_round_all_columns():
    table = ClientTable()
    seen = [table.sort[0]]
    for _ in range(6):
        table.cycle_sort()
        seen.append(table.sort[0])
    assert sorted(seen) == ["accuracy", "change", "down", "flags", "id", "model", "up"]
    assert table.sort == ("flags", True)


def test_a_click_chooses_a_client_and_on_the_header_an_order():
    table = ClientTable()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        await pilot.click(table, offset=(10, 4))
        assert table.selected == 3
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", True)
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", False)

    app = on_stage(table, act)
    assert [message.client for message in app.posted] == [0, 3]


def test_a_fault_in_a_drawing_is_a_sentence_in_its_place():
    class Faulty(LineChart):
        def draw(self, width, height, theme, glyphs):
            raise ZeroDivisionError("a fault")

    chart = Faulty()

    async def act(pilot):
        await pilot.pause()
        assert "cannot be drawn, a bug in htfl-sim: ZeroDivisionError: a fault" in " ".join(
            lines(chart)
        ).replace("  ", "")

    on_stage(chart, act)
