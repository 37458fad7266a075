"""The crosshair: one round, or what it cost, in all charts of the screen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests import sessions
from tests.app.driving import drive, opened, shown, typed_at_once, until
from tests.app.panels.stage import on_stage, read
from tui.app.app import HtflApp
from tui.app.view import View
from tui.app.widgets import Heatmap, LineChart, Table
from tui.app.widgets.canvas_widget import CanvasWidget

ROUNDS = 12


@pytest.fixture
def app(home: Path) -> HtflApp:
    return opened(home, "main", "live", "clients", "cost", "log")


def charts(app: HtflApp) -> list[LineChart]:
    return [chart for chart in app.panel.query(LineChart) if chart.is_on_screen]


def footer(app: HtflApp) -> str:
    return str(app.main.query_one("#keys", Static).content)


def first_row(chart: LineChart) -> str:
    return chart.render_line(0).text


@pytest.mark.long
def test_arrows_typed_while_a_panel_comes_up_all_count(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        typed_at_once(app, "2 1 left left left left left")
        await until(pilot, lambda: app.view.cursor() == ROUNDS - 4)  # the first shows it at the newest
        await pilot.press("L", "2")
        await pilot.pause()
        app.show_panel("live")
        assert not charts(app)  # it has no layout yet
        app.action_crosshair(-1)
        assert app.view.cursor() == ROUNDS

    drive(app, script)


@pytest.mark.long
def test_every_legend_on_the_screen_reads_the_round_that_arrows_choose(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        await pilot.press("left", *["left"] * 4)  # from the newest four back, while the table has the focus
        await pilot.pause()
        assert isinstance(app.focused, Table)
        record = app.view.run.records[ROUNDS - 5]
        accuracy, bytes = charts(app)
        assert f"mean {record['accuracy']['mean'] * 100:.1f} %" in first_row(accuracy)
        a, b, c, d = sorted(record["accuracy"]["per_client"])
        low, high = a + 0.3 * (b - a), c + 0.7 * (d - c)  # the quantiles of four
        assert f"middle 80 % of clients {low * 100:.1f}–{high * 100:.1f} %" in first_row(accuracy)
        assert f"up {record['bytes']['up'] / 1024:.1f} KiB" in first_row(bytes)
        assert accuracy.cursor == bytes.cursor == ROUNDS - 4

    drive(app, script)


@pytest.mark.long
def test_it_holds_in_all_panels_and_escape_puts_it_away_before_it_leads_back(
    app: HtflApp, home: Path
) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        await until(pilot, lambda: isinstance(app.focused, Table))
        await pilot.press("left", "left", "left", "enter")
        await until(pilot, lambda: app.panel.id == "clients" and len(charts(app)) == 2)
        assert [chart.cursor for chart in charts(app)] == [ROUNDS - 2] * 2
        assert not app.view.replaying and app.view.shown == ROUNDS  # the round shown stays
        await pilot.press("escape")
        assert (app.view.crosshair, app.panel.id) == (None, "clients")
        await pilot.press("escape")
        await until(pilot, lambda: app.panel.id == "live")
        await pilot.press("left", "L")
        assert [chart.cursor for chart in charts(app)] == [None] * 2
        await pilot.press("left")
        assert app.view.crosshair == ("rounds", float(ROUNDS))
        app.open_session(home / "main")
        assert app.view.crosshair is None

    drive(app, script)


@pytest.mark.long
def test_only_charts_are_drawn_again_when_it_moves(app: HtflApp, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        await pilot.press("left")
        await pilot.pause()
        whole = CanvasWidget._drawing
        monkeypatch.setattr(
            CanvasWidget, "_drawing", lambda self, *at: drawn.append(type(self).__name__) or whole(self, *at)
        )
        chart = charts(app)[0]
        await pilot.click(chart, offset=(chart.size.width // 2, 8))
        await pilot.pause()
        assert drawn == ["LineChart", "LineChart"] and 4 < (chart.cursor or 0) < 9
        drawn.clear()
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert drawn == ["LineChart", "LineChart"]

    drive(app, script)


def test_a_chart_that_has_the_focus_says_in_the_footer_that_it_has_a_crosshair(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        await until(pilot, lambda: isinstance(app.focused, LineChart))
        await until(pilot, lambda: "left crosshair" in footer(app))
        await pilot.press("6")
        await until(pilot, lambda: "crosshair" not in footer(app))

    drive(app, script, size=(80, 24))


@pytest.mark.long
def test_the_map_of_clients_and_rounds_has_it_too(app: HtflApp) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        await pilot.press("left", "left", "left", "y", "y")
        await pilot.pause()
        accuracies = app.panel.query(Heatmap).first()
        assert accuracies.cursor == (app.view.client or 0, ROUNDS - 3)  # the column of round 10
        app.change(client=2)
        assert accuracies.cursor == (2, ROUNDS - 3)
        app.set_focus(accuracies)
        await pilot.press("left", "left", "down")
        await pilot.pause()
        assert accuracies.cursor == (3, ROUNDS - 5) and app.view.client == 3
        assert [chart.cursor for chart in charts(app)] == [ROUNDS - 4]
        await pilot.press("escape")
        await pilot.pause()
        assert app.view.crosshair is None and accuracies.cursor is None

    drive(app, script)


@pytest.mark.long
def test_over_bytes_it_lies_at_what_the_round_had_cost_and_over_rounds_where_that_was(home: Path) -> None:
    run = read(home / "main")
    sent = run.curves["bytes_up_total"] + run.curves["bytes_down_total"]
    for place in (
        ("rounds", 3.0),
        ("bytes", float(sent[2])),
        ("bytes", float(sent[2]) + 2 * sessions.ADAPTER),
    ):
        app, _ = on_stage("cost", View(run, crosshair=place))  # type: ignore[arg-type]
        traffic, time, over = app.panel._charts.values()  # type: ignore[attr-defined]
        assert (traffic.cursor, time.cursor) == (3, 3)
        at = place[1] if place[0] == "bytes" else float(sent[2])
        assert over.cursor == at / over.figure.x_unit


def test_in_compare_it_goes_as_far_as_the_longest_session(home: Path, tmp_path: Path) -> None:
    short = read(sessions.make(tmp_path / "short", rounds=5, clients=4))
    long = read(home / "main")
    view = View(short, marked=(short.folder, long.folder), compared=(short, long))
    app, text = on_stage("compare", replace(view, crosshair=("rounds", 11.0)))
    chart = app.panel._chart  # type: ignore[attr-defined]
    assert chart.cursor == 11
    last, eleventh = short.curves["accuracy"][-1], long.curves["accuracy"][10]
    assert f"1 short {last * 100:.1f} % (r5)  2 main {eleventh * 100:.1f} %" in text


@pytest.mark.long
def test_where_x_is_a_cost_each_session_is_read_at_its_nearest_round(home: Path, tmp_path: Path) -> None:
    other = read(sessions.make(tmp_path / "other", rounds=5, clients=2))
    main = read(home / "main")
    view = View(main, marked=(main.folder, other.folder), compared=(main, other))
    sent = main.curves["bytes_up_total"] + main.curves["bytes_down_total"]
    a_round = 4 * sessions.ADAPTER  # of the two clients of `other`

    async def over_bytes(pilot: Any, panel: Any) -> None:
        panel.action_unit()

    at = float(sent[1])  # 8 payloads a round in main: two rounds of it are four of the other
    _, text = on_stage("compare", replace(view, crosshair=("bytes", at)), over_bytes)
    assert at / a_round == 4
    assert (
        f"1 main {main.curves['accuracy'][1] * 100:.1f} %  2 other {other.curves['accuracy'][3] * 100:.1f} %"
        in text
    )
    _, text = on_stage("compare", replace(view, crosshair=("bytes", at + 0.6 * a_round)), over_bytes)
    assert (
        f"1 main {main.curves['accuracy'][1] * 100:.1f} %  2 other {other.curves['accuracy'][4] * 100:.1f} %"
        in text
    )


@pytest.mark.long
def test_a_measure_that_no_session_has_offers_neither_crosshair_nor_zoom(home: Path) -> None:
    app = opened(home, "main", "live", "compare")

    async def script(pilot: Pilot[Any]) -> None:
        await shown(app, pilot)
        app.mark_all((home / "main",))
        await until(pilot, lambda: bool(app.view.compared))
        await pilot.press("5")
        await pilot.pause()
        offered = []
        for _ in range(
            9
        ):  # all measures, and the first again; made sessions have no test loss, F1, and eval part
            offered.append("left crosshair" in footer(app) and "+ zoom in" in footer(app))
            await pilot.press("y")
            await pilot.pause()
        assert offered == [True] * 4 + [False, False, True, False, True]

    drive(app, script, size=(300, 40))
