"""The widgets in a living app."""

import numpy as np
import pytest

from tests.app.driving import until
from tests.app.widgets.stage import Refreshed, lines, on_stage
from tui.app.charts.figure import Figure, Mark, Series
from tui.app.charts.look import contrast
from tui.app.charts.table import Column, Row
from tui.app.panels.client_rows import COLUMNS, rows_of
from tui.app.widgets import Heatmap, LineChart, Table

wave = Series("wave", np.sin(np.arange(100) / 9) / 2 + 0.5)


def test_a_chart_fills_its_place_and_follows_a_new_size():
    chart = LineChart()

    async def act(pilot):
        chart.show(Figure([wave]))
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
        chart.show(Figure([wave]))
        await pilot.pause()
        refreshed = Refreshed(chart, monkeypatch)
        chart.show(Figure([Series("wave", wave.y.copy())]))
        await pilot.pause()
        assert refreshed.lines == []

    on_stage(chart, act)


def test_only_lines_that_came_out_different_are_sent_again(monkeypatch):
    chart = LineChart()

    async def act(pilot):
        chart.show(Figure([Series("a", np.full(50, 0.2), key="a")], y_range=(0, 1)))
        await pilot.pause()
        refreshed = Refreshed(chart, monkeypatch)
        chart.show(Figure([Series("a", np.r_[np.full(49, 0.2), 0.24], key="a")], y_range=(0, 1)))
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
        chart.show(Figure([wave]))
        await pilot.pause()
        drawings.clear()
        chart.show(Figure([wave]))
        chart.show(Figure([wave], y_range=(0, 2)))
        chart.put_cursor(12)
        chart.show(Figure([wave], marks=[Mark(3, "fork")]))
        await pilot.pause()
        assert len(drawings) == 1

    on_stage(chart, act)


def test_a_chart_that_cannot_be_seen_is_not_drawn(monkeypatch):
    chart = LineChart()

    async def act(pilot):
        chart.display = False
        await pilot.pause()
        monkeypatch.setattr(chart, "draw", lambda *surface: pytest.fail("it was drawn"))
        chart.show(Figure([wave]))
        await pilot.pause()

    on_stage(chart, act)


def test_what_was_shown_before_the_app_began_is_there_when_it_does():
    chart = LineChart()
    chart.show(Figure([wave]))

    async def act(pilot):
        assert "1 wave" in lines(chart)[0]

    on_stage(chart, act)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord", "gruvbox", "ansi-dark"])
def test_without_colour_no_text_has_the_colour_of_its_background(theme, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    chart = LineChart()

    async def act(pilot):
        pilot.app.theme = theme
        chart.show(Figure([wave, Series("mean", wave.y / 2, pinned=True)], marks=[Mark(30, "fedgh")]))
        await pilot.pause()
        for strip in chart.screen._compositor.render_strips():
            for text, style, _ in strip:
                assert style is not None
                if text.strip() and style.color is not None and style.bgcolor is not None:
                    assert legible(style)

    on_stage(chart, act)


def legible(style):
    """Whether fg differs from bg; grid lines are faint on purpose. The terminal's own colours are legible."""
    fg, bg = style.color.triplet, style.bgcolor.triplet
    return None in (fg, bg) or contrast(*(int(one.hex[1:], 16) for one in (fg, bg))) > 1.2


@pytest.mark.parametrize("glyphs", ["braille", "block", "ascii"])
def test_a_widget_draws_with_the_glyphs_of_its_app(glyphs):
    chart = LineChart()

    async def act(pilot):
        chart.show(Figure([wave]))
        await pilot.pause()
        text = "".join(lines(chart))
        assert text.isascii() is (glyphs == "ascii")
        assert any(0x2800 < ord(character) < 0x2900 for character in text) is (glyphs == "braille")

    on_stage(chart, act, glyphs=glyphs)


def test_the_heatmaps_cursor_keeps_to_its_cell_in_any_order():
    group = np.arange(6) % 2
    matrix = np.where(group[:, None] == group, 0.9, 0.1) + np.arange(36).reshape(6, 6) / 1000
    heatmap = Heatmap(axes=("client", "client"))

    async def act(pilot):
        heatmap.show(matrix)
        heatmap.cluster(True)
        heatmap.put_cursor(4, 1)
        await pilot.pause()
        assert heatmap.cursor == (4, 1)
        assert lines(heatmap)[-1].startswith("client 4 × client 1: 0.125")
        heatmap.cluster(False)
        await pilot.pause()
        assert heatmap.cursor == (4, 1)

    on_stage(heatmap, act)


def test_the_heatmaps_cursor_stops_at_the_edges():
    heatmap = Heatmap()

    async def act(pilot):
        heatmap.show(np.eye(3))
        await pilot.press("up")  # the first key only shows it
        assert heatmap.cursor == (0, 0)
        await pilot.press("up", "right", "right", "right")
        assert heatmap.cursor == (0, 2)
        await pilot.press("down", "down", "down", "left")
        assert heatmap.cursor == (2, 1)
        await pilot.press("escape")
        assert heatmap.cursor is None

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


def client(id, accuracy, model=None):
    models = [model or f"cnn{each % 5 + 1}" for each in range(id + 1)]
    return rows_of([id], models, *(np.array([each]) for each in (accuracy, 0.01, 0, 0)))[0]


ROWS = [client(id, id / 100) for id in range(60)]


def clients():
    return Table(COLUMNS, cursor=True, sort="id")


def shown(table):
    return [row.key for row in table.rows]


def test_only_rows_that_changed_are_sent_again(monkeypatch):
    table = clients()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        refreshed = Refreshed(table, monkeypatch)
        table.show([client(row.key, 0.5) if row.key in (3, 7, 59) else row for row in ROWS])
        await pilot.pause()
        assert refreshed.lines == [4, 8]  # below the header; client 59 is out of sight
        refreshed.lines.clear()
        table.show([client(row.key, 0.5) if row.key in (3, 7, 59) else row for row in ROWS])
        await pilot.pause()
        assert refreshed.lines == []

    on_stage(table, act)


def test_the_header_stays_while_rows_scroll():
    table = clients()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        header = lines(table)[0]
        await pilot.press("end")
        await pilot.pause()
        seen = lines(table)
        assert seen[0] == header
        assert seen[-1].split()[:2] == ["▶", "59"]
        await pilot.press("home", "down", "pagedown")
        await pilot.pause()
        assert table.selected == 23  # one line down, then a screen less a line: 22
        assert any(line.startswith("▶") and " 23 " in line for line in lines(table))

    on_stage(table, act)


def test_a_row_chosen_while_the_table_has_no_bar_yet_is_brought_into_sight():
    table = clients()
    table.styles.overflow_y = "hidden"  # for good; as a rule it is until the layout after the first rows

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(57)
        await pilot.pause()
        await pilot.pause()
        assert any(line.startswith("▶") and " 57 " in line for line in lines(table))

    on_stage(table, act)


def test_a_row_chosen_before_the_table_has_any_room_is_in_sight_once_it_has():
    table = clients()
    table.display = False

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(57)
        await pilot.pause()
        table.display = True
        await pilot.pause()
        await pilot.pause()
        assert any(line.startswith("▶") and " 57 " in line for line in lines(table))

    on_stage(table, act)


def test_the_cursor_keeps_to_its_row_when_rows_change_places():
    table = clients()

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(5)
        table.sort_by("accuracy", descending=True)
        assert shown(table)[:2] == [59, 58]
        assert table.selected == 5

    on_stage(table, act)


def test_a_filter_that_hides_the_cursors_row_moves_it_to_one_that_is_shown():
    table = clients()

    async def act(pilot):
        table.show(ROWS)
        table.put_cursor(5)
        table.filter("CNN2")
        assert shown(table) == [id for id in range(60) if id % 5 == 1]
        assert table.selected in shown(table)
        table.filter("no such model")
        assert table.selected is None
        table.filter("")
        assert len(table.rows) == 60

    on_stage(table, act)


def test_sorting_goes_round_all_columns_each_its_own_way():
    table = clients()
    seen = []
    for _ in range(9):
        table.cycle_sort()
        seen.append(table.sort)
    assert seen == [
        ("model", False),
        ("accuracy", False),
        ("change", True),
        ("test", False),
        ("train", False),
        ("up", True),
        ("down", True),
        ("pinned", True),
        ("id", False),
    ]


def test_a_column_that_is_not_sorted_by_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="cannot be sorted by 'trend'; they can by pinned, id, model"):
        clients().sort_by("trend")


def test_a_click_chooses_a_row_and_on_the_header_an_order():
    table = clients()

    async def act(pilot):
        table.show(ROWS)
        await pilot.pause()
        await pilot.click(table, offset=(10, 4))
        assert table.selected == 3
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", False)
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", True)

    app = on_stage(table, act)
    assert [message.key for message in app.posted] == [0, 3]


def test_a_table_that_follows_keeps_showing_its_end_unless_it_was_scrolled_away():
    table = Table([Column("")], follows=True)

    async def act(pilot):
        table.show([Row(line, (f"line {line}",)) for line in range(50)])
        await pilot.pause()
        await pilot.pause()
        assert lines(table)[-1].strip() == "line 49"
        table.show([Row(line, (f"line {line}",)) for line in range(60)])
        await pilot.pause()
        await pilot.pause()
        assert lines(table)[-1].strip() == "line 59"
        await pilot.press("up", "up")
        table.show([Row(line, (f"line {line}",)) for line in range(70)])
        await pilot.pause()
        await pilot.pause()
        assert lines(table)[-1].strip() == "line 57"

    on_stage(table, act)


def test_a_table_that_follows_stays_where_it_was_scrolled_before_it_was_drawn():
    table = Table([Column("")], follows=True)

    async def act(pilot):
        table.show([Row(line, (f"line {line}",)) for line in range(50)])
        await until(pilot, lambda: table.scroll_offset.y == 50 - table.size.height)
        table.show([Row(line, (f"line {line}",)) for line in range(60)])
        table.scroll_to(y=7, animate=False, force=True)  # before the end is shown
        await pilot.pause()
        await pilot.pause()
        assert table.scroll_offset.y == 7

    on_stage(table, act)


@pytest.mark.parametrize(("keys", "top"), [([], 44), (["up", "up"], 24)], ids=["at its end", "scrolled away"])
def test_a_table_that_follows_shows_its_end_after_a_resize_only_if_it_did_before(keys, top):
    table = Table([Column("")], follows=True)

    async def act(pilot):
        table.show([Row(line, (f"line {line}",)) for line in range(50)])
        await until(pilot, lambda: lines(table)[-1].strip() == "line 49")
        await pilot.press(*keys)
        await pilot.resize_terminal(80, 6)
        await until(pilot, lambda: table.size.height < 9)
        await pilot.pause()
        await pilot.pause()
        assert lines(table)[0].strip() == f"line {top}"

    on_stage(table, act)


def test_a_fault_in_a_drawing_is_a_sentence_in_its_place():
    class Faulty(LineChart):
        def draw(self, width, height, look):
            raise ZeroDivisionError("a fault")

    chart = Faulty()

    async def act(pilot):
        await pilot.pause()
        assert "Drawing failed. This is a bug in htfl-sim: ZeroDivisionError: a fault" in " ".join(
            lines(chart)
        ).replace("  ", "")

    on_stage(chart, act)
