"""The widgets in a living app, and the part of the rounds that a line chart shows."""

from contextlib import asynccontextmanager

import numpy as np
import pytest
from textual.app import App
from textual.geometry import Region
from textual.message import Message
from textual.widgets.option_list import Option

from tests.app.driving import driven, until
from tui.app.charts.chart import Figure, Mark, Series
from tui.app.charts.look import contrast
from tui.app.dialogs.base import Options
from tui.app.panels.clients import COLUMNS
from tui.app.widgets import Column, Heatmap, LineChart, Row, Table

wave = Series("wave", np.sin(np.arange(100) / 9) / 2 + 0.5)


class Stage(App):
    """Shows a widget, and keeps the messages it posts."""

    def __init__(self, widget):
        super().__init__()
        self.widget, self.glyphs, self.posted = widget, "braille", []

    def compose(self):
        yield self.widget

    def on_mount(self):
        self.widget.focus()

    def keep(self, message: Message):
        self.posted.append(message)

    on_table_cursor_moved = on_line_chart_pointed = keep


@asynccontextmanager
async def living(widget):
    """An app of a widget: the widget, and the pilot of the app."""
    async with driven(Stage(widget), (80, 24)) as pilot:
        yield widget, pilot


def lines(widget):
    """What the widget shows, line by line."""
    return [strip.text for strip in widget.render_lines(Region(0, 0, *widget.size))]


class Refreshed:
    """The lines a widget asks to be sent again, noted from now on."""

    def __init__(self, widget, monkeypatch):
        self.lines = []
        asked = widget.refresh

        def note(*regions, **options):
            everything = (Region(0, 0, *widget.size),)
            self.lines += [line for region in regions or everything for line in region.line_range]
            return asked(*regions, **options)

        monkeypatch.setattr(widget, "refresh", note)


def waving():
    chart = LineChart()
    chart.show(Figure([wave]))  # before the app begins
    return chart


async def test_a_chart_fills_its_place_and_follows_a_new_size():
    async with living(waving()) as (chart, pilot):
        assert "1 wave" in lines(chart)[0]
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        shown = lines(chart)
        assert len(shown) == 40
        assert {len(line) for line in shown} == {120}


async def test_only_what_came_out_different_is_drawn_once_and_sent_again(monkeypatch):
    async with living(LineChart()) as (chart, pilot):
        draw, drawings = chart.draw, []
        monkeypatch.setattr(chart, "draw", lambda *surface: drawings.append(surface) or draw(*surface))
        chart.show(Figure([Series("a", np.full(50, 0.2), key="a")], y_range=(0, 1)))
        await pilot.pause()
        refreshed = Refreshed(chart, monkeypatch)
        chart.show(Figure([Series("a", np.full(50, 0.2), key="a")], y_range=(0, 1)))
        await pilot.pause()
        assert refreshed.lines == []
        chart.show(Figure([Series("a", np.r_[np.full(49, 0.2), 0.24], key="a")], y_range=(0, 1)))
        await pilot.pause()
        # the legend's value, and the one or two rows around 0.2 of the axis
        assert refreshed.lines[0] == 0
        assert 2 <= len(refreshed.lines) <= 4
        drawings.clear()
        chart.show(Figure([wave], y_range=(0, 2)))
        chart.put_cursor(12)
        chart.show(Figure([wave], marks=[Mark(3, "fork")]))
        await pilot.pause()
        assert len(drawings) == 1
        chart.display = False
        await pilot.pause()
        drawings.clear()
        chart.show(Figure([wave]))
        await pilot.pause()
        assert drawings == []  # it cannot be seen


async def test_without_colour_no_text_has_the_colour_of_its_background(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with living(LineChart()) as (chart, pilot):
        chart.show(Figure([wave, Series("mean", wave.y / 2, pinned=True)], marks=[Mark(30, "fedgh")]))
        for theme in ("textual-dark", "textual-light", "nord", "ansi-dark"):
            pilot.app.theme = theme
            await pilot.pause()
            for strip in chart.screen._compositor.render_strips():
                for text, style, _ in strip:
                    assert style is not None
                    if text.strip() and style.color is not None and style.bgcolor is not None:
                        assert legible(style)


def legible(style):
    """Whether fg differs from bg; grid lines are faint on purpose. The terminal's own colours are legible."""
    fg, bg = style.color.triplet, style.bgcolor.triplet
    return None in (fg, bg) or contrast(*(int(one.hex[1:], 16) for one in (fg, bg))) > 1.2


async def test_a_widget_draws_with_the_glyphs_of_its_app():
    async with living(LineChart()) as (chart, pilot):
        chart.show(Figure([wave]))
        for glyphs in ("braille", "block", "ascii"):
            pilot.app.glyphs = glyphs
            chart.changed()
            await pilot.pause()
            text = "".join(lines(chart))
            assert text.isascii() is (glyphs == "ascii")
            assert any(0x2800 < ord(character) < 0x2900 for character in text) is (glyphs == "braille")


async def test_the_heatmaps_cursor_keeps_to_its_cell_in_any_order():
    async with living(Heatmap(axes=("client", "client"))) as (heatmap, pilot):
        group = np.arange(6) % 2
        matrix = np.where(group[:, None] == group, 0.9, 0.1) + np.arange(36).reshape(6, 6) / 1000
        heatmap.show(matrix)
        heatmap.cluster(True)
        heatmap.put_cursor(4, 1)
        await pilot.pause()
        assert heatmap.cursor == (4, 1)
        assert lines(heatmap)[-1].startswith("client 4 × client 1: 0.125")
        heatmap.cluster(False)
        await pilot.pause()
        assert heatmap.cursor == (4, 1)


async def test_the_heatmaps_cursor_stops_at_the_edges_and_is_gone_with_its_cell():
    async with living(Heatmap()) as (heatmap, pilot):
        heatmap.show(np.eye(3))
        for keys, cell in (
            ("up", (0, 0)),  # the first key only shows it
            ("up right right right", (0, 2)),
            ("down down down left", (2, 1)),
            ("escape", None),
        ):
            await pilot.press(*keys.split())
            assert heatmap.cursor == cell
        heatmap.put_cursor(2, 2)
        heatmap.show(np.eye(2))
        assert heatmap.cursor is None


def test_labels_that_do_not_match_the_matrix_are_refused():
    with pytest.raises(ValueError, match="a 2 × 2 heatmap has 1 row and 2 column labels"):
        Heatmap().show(np.eye(2), rows=["a"])


def client(id, accuracy):
    cells = ["", str(id), f"cnn{id % 5 + 1}", f"{accuracy:.1%}", *[""] * 7]
    return Row(id, tuple(cells), values=(None, id, None, accuracy, *[None] * 7), search=cells[2])


ROWS = [client(id, id / 100) for id in range(60)]


def clients():
    return Table(COLUMNS, cursor=True, sort="id")


def shown(table):
    return [row.key for row in table.rows]


async def test_only_rows_that_changed_are_sent_again(monkeypatch):
    async with living(clients()) as (table, pilot):
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


async def test_the_header_stays_while_rows_scroll():
    async with living(clients()) as (table, pilot):
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


@pytest.mark.parametrize("hidden", [False, True], ids=["no bar yet", "no room yet"])
async def test_a_row_chosen_early_is_brought_into_sight(hidden):
    table = clients()
    table.display = not hidden
    table.styles.overflow_y = (
        "auto" if hidden else "hidden"
    )  # as a rule until the layout after the first rows
    async with living(table) as (_, pilot):
        table.show(ROWS)
        table.put_cursor(57)
        await pilot.pause()
        table.display = True
        await pilot.pause()
        await pilot.pause()
        assert any(line.startswith("▶") and " 57 " in line for line in lines(table))


async def test_the_cursor_keeps_to_its_row_unless_a_filter_hides_it():
    async with living(clients()) as (table, _):
        table.show(ROWS)
        table.put_cursor(5)
        table.sort_by("accuracy", descending=True)
        assert shown(table)[:2] == [59, 58]
        assert table.selected == 5
        table.sort_by("id")
        table.filter("CNN2")
        assert shown(table) == [id for id in range(60) if id % 5 == 1]
        assert table.selected in shown(table)
        table.filter("no such model")
        assert table.selected is None
        table.filter("")
        assert len(table.rows) == 60


def test_sorting_goes_round_all_columns_each_its_own_way():
    table = clients()
    seen = []
    for _ in range(9):
        table.cycle_sort()
        seen.append("-" * table.sort[1] + table.sort[0])
    assert seen == ["model", "accuracy", "-change", "test", "train", "-up", "-down", "-pinned", "id"]
    with pytest.raises(ValueError, match="cannot be sorted by 'trend'; they can by pinned, id, model"):
        table.sort_by("trend")


async def test_a_click_chooses_a_row_and_on_the_header_an_order():
    async with living(clients()) as (table, pilot):
        table.show(ROWS)
        await pilot.pause()
        await pilot.click(table, offset=(10, 4))
        assert table.selected == 3
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", False)
        await pilot.click(table, offset=(lines(table)[0].index("acc"), 0))
        assert table.sort == ("accuracy", True)
        assert [message.key for message in pilot.app.posted] == [0, 3]


def log(rows):
    return [Row(line, (f"line {line}",)) for line in range(rows)]


@pytest.mark.long
async def test_a_table_that_follows_keeps_showing_its_end_unless_it_was_scrolled_away():
    async with living(Table([Column("")], follows=True)) as (table, pilot):

        async def last(text):
            await pilot.pause()
            await pilot.pause()
            assert lines(table)[-1].strip() == text

        table.show(log(50))
        await last("line 49")
        table.show(log(60))
        await last("line 59")
        await pilot.resize_terminal(80, 6)
        await until(pilot, lambda: table.size.height < 9)
        await last("line 59")
        await pilot.press("up", "up")
        table.show(log(70))
        await last("line 57")
        await pilot.resize_terminal(80, 10)
        await until(pilot, lambda: table.size.height == 10)
        await last("line 61")  # its first row stays
        table.scroll_to(y=60, animate=False, force=True)  # to the end
        await pilot.pause()
        table.show(log(80))
        table.scroll_to(y=7, animate=False, force=True)  # before the end is shown
        await pilot.pause()
        await pilot.pause()
        assert table.scroll_offset.y == 7


class Faulty(LineChart):
    def draw(self, width, height, look):
        raise ZeroDivisionError("a fault")


async def test_a_fault_in_a_drawing_is_a_sentence_in_its_place():
    async with living(Faulty()) as (chart, _):
        said = " ".join(lines(chart)).replace("  ", "")
        assert "Drawing failed. This is a bug in htfl-sim: ZeroDivisionError: a fault" in said


def of_rounds(rounds=101):
    chart = LineChart()
    chart.show(grown(rounds))
    return chart


def grown(rounds):
    return Figure([Series("a", np.arange(float(rounds)))])


def test_zooming_halves_the_view_around_the_cursor_or_at_the_newest_rounds():
    chart, seen = of_rounds(), []
    for way in (1, 1, -1, -1):
        chart.zoom(way)
        seen.append(chart.x_range)
    assert seen == [(51, 101), (76, 101), (51, 101), (1, 101)]
    chart.put_cursor(40)
    chart.zoom(1)
    assert chart.x_range == (15, 65)
    for _ in range(20):
        chart.zoom(1)
    assert chart.x_range == (38, 42)  # a line is still to be seen


def test_a_zoomed_view_goes_along_with_the_cursor_and_pans_up_to_the_ends():
    chart = of_rounds()
    chart.zoom(1)
    for at, view in ((50, (50, 100)), (60, (50, 100)), (101, (51, 101))):
        chart.put_cursor(at)
        assert chart.x_range == view
    for share, view in ((-0.5, (26, 76)), (-5, (1, 51)), (50, (51, 101))):
        chart.pan(share)
        assert chart.x_range == view


def test_a_zoomed_view_follows_the_run_until_it_is_panned_back():
    chart = of_rounds()
    chart.zoom(1)
    chart.show(grown(111))
    assert chart.x_range == (61, 111)
    chart.pan(-0.5)
    chart.show(grown(121))
    assert chart.x_range == (36, 86)
    chart.zoom(0)
    assert chart.x_range == (1, 121)
    chart.show(Figure())
    chart.zoom(1)
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
async def test_the_mouse_points_at_the_nearest_x_while_it_is_pressed_on_the_plot():
    async with living(LineChart()) as (chart, pilot):
        chart.show(Figure([Series("a", np.arange(3.0))], over="rounds"))
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
        assert [message.x for message in pilot.app.posted] == [1, 2, 2, 3]  # moved to, and let go there


METHODS = [
    Option("FedGH", id="fedgh"),
    Option("FedGen", id="fedgen", disabled=True),
    Option("FedProto", id="fedproto"),
    Option("FedProx", id="fedprox"),
    Option("Standalone", id="standalone"),
]
ALL = [option.id for option in METHODS]
NARROWED = {
    "f e d p": ["fedproto", "fedprox"],  # the best fits
    "backspace": ["fedgh", "fedproto", "fedprox"],
    "backspace backspace backspace": ALL,
    "f x": ["fedprox"],  # spread letters
    "S": ["standalone"],  # anew, as nothing has fxs; a capital
    "backspace f g": ["fedgh"],
    "backspace backspace q": ALL,  # nothing has it
}


@pytest.mark.long
async def test_letters_narrow_a_list_and_backspace_takes_them_back():
    async with living(Options(*METHODS)) as (listed, pilot):
        listed.focus()
        listed.highlighted = 0
        for keys, left in NARROWED.items():
            await pilot.press(*keys.split())
            assert [option.id for option in listed.options] == left, keys
        await pilot.press("s")
        assert listed.highlighted_option.id == "standalone"
        await pilot.press("backspace")
        assert listed.highlighted_option.id == "standalone"  # also among all
