"""A study in the app: its board, a group among the sessions, and lines with bands in Compare."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.color import ColorSystem
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Store
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.board import BoardReader, StudySummary
from simulator.studies.folder import documents
from simulator.studies.selection import by_seed
from simulator.studies.study import Point, StudySpec
from tests import sessions
from tests.app.charts.pictures import drawn
from tests.app.driving import blanks, driven, until
from tests.app.panels.stage import on_stage, read, settle, staged
from tests.app.panels.test_snapshots import MIDDLE, check
from tests.studies.test_board import board_of, seen, study
from tui.app.app import HtflApp
from tui.app.charts.look import ASCII, BRAILLE, Look
from tui.app.charts.scatter import TradeoffFigure, TradeoffPoint, draw_tradeoff
from tui.app.panels import board as board_words
from tui.app.panels.board import StudyBoard, tradeoff
from tui.app.panels.compare import figure
from tui.app.panels.sessions import Library, SessionList, SessionsPanel, study_facts
from tui.app.runs import LaunchOptions
from tui.app.view import SessionOpened, View
from tui.app.watch import sessions_of
from tui.app.widgets.screen import look_of
from tui.app.widgets.table import Cell

NARROW = (80, 24)
REACHED = {"standalone": 0.8, "fedlora": 0.95, "fedgh": 0.87}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods by three seeds. fedgh-s1 has stopped, fedgh-s2 is damaged, and fedlora-s2 has not begun."""
    root = tmp_path_factory.mktemp("board")
    home = root / "sessions"
    home.mkdir()
    for point in study(home, tuple(REACHED), (0, 1, 2), rounds=6, preset="fedlora_htm5"):
        method, seed = str(point.axes["method"]), int(point.axes["seed"])
        if point.name == "fedlora-s2":
            continue
        short = point.name == "fedgh-s1"
        sessions.make(
            home / "t" / point.name, clients=2, rounds=3 if short else 6, of=6, cka_every=0,
            ceiling=REACHED[method] - 0.02 * seed, state="stopped" if short else "finished",
            document={key: each for key, each in point.config.items() if key != "runtime"},
        )  # fmt: skip
    (home / "t" / "fedgh-s2" / "ledger.jsonl").write_text("broken\n")
    return root


@pytest.fixture
def home(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return Path("sessions")


async def opened(pilot: Pilot[None], panel: SessionsPanel, folder: Path) -> StudyBoard:
    """The study's board, once it has been read."""
    panel.query_one(SessionList).focus().put_cursor(folder)
    await pilot.pause()
    await pilot.press("enter")
    board = panel.query_one(StudyBoard)
    await until(pilot, lambda: board._board is not None)
    await pilot.pause()
    return board


@asynccontextmanager
async def on_board(home: Path, **options: Any) -> AsyncIterator[tuple[Any, Pilot[None], SessionsPanel]]:
    """The app with the board of the study `t` open, the pilot of it, and the panel."""
    view = View(SessionData(Path()), sessions_dir=home)
    async with staged("sessions", view, **options) as (app, pilot):
        await opened(pilot, app.panel, home / "t")
        yield app, pilot, app.panel


async def test_a_study_is_a_board_of_settings_by_seed(home: Path) -> None:
    async with on_board(home, size=NARROW) as (_, pilot, _):
        check("board-80x24", await settle(pilot))


@pytest.mark.long
async def test_keys_move_over_seeds_and_open_a_session_that_has_begun_and_a_damaged_one_says_why(
    home: Path,
) -> None:
    async with on_board(home, size=MIDDLE) as (app, pilot, _):
        await pilot.press("down", "down", "right", "enter")
        assert "fedgh-s1: stopped, round 3 of 6" in app.text()
        await pilot.press("up", "right", "enter")
        assert "This point has not begun" in [*app._notifications][-1].message
        await pilot.press("down")
        text = await settle(pilot)
    assert app.posted == [SessionOpened(home / "t" / "fedgh-s1")]
    assert "fedgh-s2: damaged" in text and "damaged  " in text and "ledger.jsonl" in text


@pytest.mark.long
async def test_escape_returns_to_the_list_with_the_cursor_on_the_study_which_folds(home: Path) -> None:
    folded = []
    async with on_board(home, size=NARROW) as (_, pilot, panel):
        assert panel.place == "board" and [each.name for each in panel.steered()] == ["t"]
        assert panel.back() and not panel.back()
        await pilot.pause()
        for key in ("left", "left", "right"):
            await pilot.press(key)
            folded.append(len(panel._list.rows))
        text = await settle(pilot)
        assert panel.place == "sessions" and panel._list.folder == home / "t"
    assert "├─ " in text and "1 study in sessions" in text
    assert folded == [1, 1, 9]


def test_of_one_seed_it_says_that_there_is_no_interval(tmp_path: Path) -> None:
    study(tmp_path, ("standalone", "fedgh"), (0,))
    board = board_of(tmp_path, seen(tmp_path, "standalone-s0", 0.5), seen(tmp_path, "fedgh-s0", 0.6))
    told = dict(board_words.facts(board, board.rows[1], 0))
    assert told["fedgh"] == "60.0 %, one seed: no interval; 1 of 1 seeds finished"
    assert told["Δ vs standalone"] == "+10.0 pp, one pair: no interval, 1 paired"
    costs = replace(board.rows[1], costs={"seconds": 0.31, "simulated seconds": 75.0})
    assert dict(board_words.facts(board, costs, 0))["cost"] == "0.3 s, 1 min simulated per seed"
    rows, _ = board_words.of_settings(board, wide=False)
    assert rows[1].cells[-2:] == ("60.0", "+10.0")


@pytest.mark.long
async def test_a_published_value_that_is_not_comparable_says_so(home: Path) -> None:
    async with on_board(home, size=(200, 60)) as (_, pilot, panel):
        await pilot.press("down")
        columns, rows = panel.table(panel._view)  # type: ignore[arg-type]
        assert columns[:6] == ["setting", "point", "state", "round", "rounds", "accuracy"]
        assert [row[1] for row in rows][-2:] == ["fedgh-s1", "fedgh-s2"]
        assert {len(row) for row in rows} == {len(columns)}
        text = await settle(pilot)
    assert "(96.66)" in text and "Δ vs standalone [95 %]" in text  # with the ends of intervals
    assert "Not comparable with the published value: rounds 6 (paper: 100)" in text


@pytest.mark.long
async def test_it_fills_while_a_point_runs(tmp_path: Path) -> None:
    """fedgh-s0 goes from round 2 to 3 while its board is open."""
    (point,) = study(tmp_path, ("fedgh",), (0,))
    own = {key: each for key, each in point.config.items() if key != "runtime"}
    folder = sessions.make(
        tmp_path / "t" / point.name, clients=2, rounds=2, of=4, cka_every=0, state="stopped", document=own
    )
    async with on_board(tmp_path) as (app, pilot, panel):
        board = panel.query_one(StudyBoard)

        def cell() -> tuple[str, int]:
            point = board.point()
            return ("", 0) if point is None else (point.state, point.round)

        with Store.open(folder) as store:
            store.heartbeat("running", round=2, rounds=4, phase="train", done=0, clients=2)
            await until(pilot, lambda: cell() == ("running", 2))
            store.append(sessions.record(3, 2))
            await until(pilot, lambda: cell() == ("running", 3))
            assert "▸3" in app.text()
            store.close("stopped")


def test_pareto_joins_the_settings_that_no_other_beats(tmp_path: Path) -> None:
    """Costs are 100 bytes a round: fd has 0.5 for 100, fedgh 0.7 for 200; standalone, 0.6 for 300, is beaten."""
    study(tmp_path, ("fd", "fedgh", "standalone"), (0,))
    board = board_of(
        tmp_path, seen(tmp_path, "fd-s0", 0.5), seen(tmp_path, "fedgh-s0", 0.6, 0.7),
        seen(tmp_path, "standalone-s0", 0.5, 0.5, 0.6, state="running"),
    )  # fmt: skip
    figure = tradeoff(board, "bytes", "fedgh")
    assert [(each.name, each.x, round(each.y), each.front, each.so_far) for each in figure.points] == [
        ("fd", 100, 50, True, False), ("fedgh", 200, 70, True, False), ("standalone", 300, 60, False, True),
    ]  # fmt: skip
    assert figure.x_label == "B"
    assert [each.x for each in tradeoff(board, "seconds").points] == [2, 4, 6]
    assert tradeoff(board, "joules").points == ()


def test_beaten_settings_are_rings_so_that_color_is_not_needed() -> None:
    points = (
        TradeoffPoint("cheap", 1, 50, True),
        TradeoffPoint("good", 5, 90, True),
        TradeoffPoint("bad", 4, 40, False, so_far=True),
    )
    for glyphs, full, ring, more in ((BRAILLE, "●", "○", "…"), (ASCII, "*", "o", "~")):
        look = Look(coloured=False, glyphs=glyphs)
        text = draw_tradeoff(TradeoffFigure(points, "MiB", "good"), 60, 12, look).text()
        assert (text.count(full), text.replace("good", "").count(ring)) == (2, 1)
        assert "cheap" in text and "[good]" in text and f"bad{more}" in text and "MiB" in text
        assert glyphs is not ASCII or text.isascii()


@pytest.mark.long
async def test_y_shows_the_settings_over_their_costs_and_u_the_next_cost(home: Path) -> None:
    seen_titles = []
    async with on_board(home, size=(60, 16), glyphs="ascii") as (_, pilot, panel):
        board = panel.query_one(StudyBoard)
        panel.action_chart()
        for _ in range(4):
            await pilot.pause()
            seen_titles.append(board._plot._titles[0])
            panel.action_unit()
        await pilot.press("left", "left", "left")
        await pilot.pause()
        assert board._about._titles[0] == board._chart.figure.chosen
        text = await settle(pilot)
    assert [title.partition(",")[0].partition("over ")[2] for title in seen_titles] == [
        "bytes", "FLOPs", "seconds", "bytes",
    ]  # fmt: skip
    assert text.isascii()


@pytest.mark.long
async def test_of_more_seeds_than_fit_those_near_the_cursor_are_shown(tmp_path: Path) -> None:
    study(tmp_path, ("fedgh",), tuple(range(20)))
    sessions.make(tmp_path / "t" / "fedgh-s0", clients=2, rounds=1, cka_every=0)
    async with on_board(tmp_path, size=(60, 16)) as (_, pilot, _):
        await pilot.press(*["right"] * 12)
        text = await settle(pilot)
    header = next(line for line in text.splitlines() if "setting" in line)
    assert "s12" in header and "s0 " not in header and "+" in header


@pytest.mark.long
async def test_keys_open_it_steer_its_study_and_leave_it(home: Path) -> None:
    app = HtflApp(LaunchOptions(home, home / "data"), panels=[*blanks()[:-1], SessionsPanel("sessions")])
    async with driven(app) as pilot:
        await pilot.press("s")
        table = app.query_one(SessionList)
        await until(pilot, lambda: bool(table.found))
        await opened(pilot, app.panel, home / "t")  # type: ignore[arg-type]
        keys = app.query_one("#keys", Static)
        assert "y Pareto  u cost" in str(keys.content) and "checkpoint" not in str(keys.content)
        await pilot.press("y")
        await pilot.pause()
        assert app.query_one(StudyBoard)._mode == "Pareto"
        await until(pilot, lambda: "y points" in str(keys.content))
        await pilot.press("space")
        await pilot.pause()
        assert app.screen._title == "Continue t?"  # type: ignore[attr-defined]
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.panel.place == "sessions" and app.panel.id == "sessions"
        await pilot.press("u")
        assert "u works in" in [*app._notifications][-1].message


def test_a_point_whose_process_hangs_is_silent(tmp_path: Path) -> None:
    study(tmp_path, ("fedgh",), (0,))
    (point,) = seen(tmp_path, "fedgh-s0", 0.5, state="running").items()
    library = Library(lambda found: None)
    library._known = {point[0]: ((), point[1].summary)}
    library.silent = frozenset({point[0]})
    (row,) = library.board(BoardReader(tmp_path / "t")).rows
    assert board_words._point_facts(row, 0)[0][1].startswith("fedgh-s0: silent")
    assert board_words.of_point(row.points[0]) == Cell(" !0 ", "warning")


METHODS = {"fedlora": 0.95, "standalone": 0.85}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods by three seeds, of which one has stopped and one has not begun, beside a session of its own."""
    root = tmp_path_factory.mktemp("studies")
    folder = root / "sessions"
    study = StudySpec("quickstart", over={"method": tuple(METHODS), "seed": (0, 1, 2)})
    points = []
    for method, seed in product(METHODS, (0, 1, 2)):
        config = sessions.config(10, 20, method, seed=seed, runtime={"threads_per_client": 1})
        points.append(Point(f"{method}-s{seed}", {"method": method, "seed": seed}, config))
    checkpoints.Group.open(folder / "t3", documents(study, points)).close("stopped")
    for point in points[:-1]:
        method, seed = point.axes["method"], point.axes["seed"]
        sessions.make(
            folder / "t3" / point.name,
            rounds=12 if point.name == "standalone-s1" else 20,
            of=20,
            ceiling=METHODS[method] - 0.02 * seed,
            state="stopped" if point.name == "standalone-s1" else "finished",
            document={name: section for name, section in point.config.items() if name != "runtime"},
        )
    sessions.make(folder / "base", rounds=20, method="standalone", ceiling=0.8)
    return root


@pytest.fixture
def seeds_home(seeded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(seeded)
    now = datetime(2026, 1, 2, 11, 20, tzinfo=UTC)
    monkeypatch.setattr("tui.app.panels.sessions.present", lambda: now)
    return Path("sessions")


def view_of(seeds_home: Path) -> View:
    marked = (seeds_home / "t3", seeds_home / "base")
    compared = tuple(read(folder) for folder in sessions_of(marked))
    return View(read(seeds_home / "base"), marked=marked, compared=compared)


@pytest.mark.long
@pytest.mark.parametrize("panel", ["sessions", "compare"])
def test_a_study_is_a_group_with_its_progress_or_a_line_for_each_method_with_a_band(
    panel: str, seeds_home: Path
) -> None:
    check(f"{panel}-study-120x40", on_stage(panel, view_of(seeds_home), size=MIDDLE)[1])


@pytest.mark.long
async def test_its_row_has_a_finished_setting_and_no_mean_over_different_methods(seeds_home: Path) -> None:
    async with staged("sessions", view_of(seeds_home), size=MIDDLE) as (app, pilot):
        app.panel.show(replace(view_of(seeds_home), filter="study t3"))
        app.panel._list.put_cursor(seeds_home / "t3")
        text = await settle(pilot)
    (row,) = app.panel._list.rows
    last = [read(seeds_home / "t3" / f"fedlora-s{seed}").curves["accuracy"][-1] for seed in (0, 1, 2)]
    assert (row.key, row.cells[6]) == (seeds_home / "t3", f"{np.mean(last) * 100:.1f} %")
    words = " ".join(text.split())
    assert f"finished fedlora: {np.mean(last) * 100:.1f} %, the mean of 3" in words
    assert "settings 1 of 2 finished" in words


def test_the_best_of_a_study_is_chosen_among_its_finished_settings(tmp_path: Path) -> None:
    # Two methods by two rates by two seeds. Both settings of fedgh have finished, and fd has begun one.
    over = {"method": ("fedgh", "fd"), "training.lr": (0.1, 0.01), "seed": (0, 1)}
    config = sessions.config(2, 8, runtime={"threads_per_client": 1})
    points = [
        Point(f"{method}-{lr}-s{seed}", {"method": method, "training.lr": lr, "seed": seed}, config)
        for method, lr, seed in product(*over.values())
    ]
    checkpoints.Group.open(tmp_path / "t", documents(StudySpec("quickstart", over=over), points)).close(
        "stopped"
    )
    found = [
        Summary(
            f"t/{name}", str(tmp_path / "t" / name), "finished" if round == 8 else "running", accuracy=accuracy,
            best=best, round=round, rounds=8,
        )
        for name, accuracy, best, round in (
            ("fedgh-0.1-s0", 0.5, 0.9, 8), ("fedgh-0.1-s1", 0.7, 0.7, 8), ("fedgh-0.01-s0", 0.62, 0.62, 8),
            ("fedgh-0.01-s1", 0.64, 0.64, 8), ("fd-0.1-s0", 0.9, 0.9, 8), ("fd-0.1-s1", 0.1, 0.1, 2),
        )
    ]  # fmt: skip
    study = StudySummary.of(tmp_path / "t", found)
    assert [(each.name, each.accuracy, each.best) for each in study.settings] == [
        ("fedgh, training.lr=0.1", pytest.approx(0.6), pytest.approx(0.8)),
        ("fedgh, training.lr=0.01", pytest.approx(0.63), pytest.approx(0.63)),
        ("fd, training.lr=0.1", 0.9, 0.9),  # a mean with the seed in round 2 would be that of no round
        ("fd, training.lr=0.01", None, None),
    ]
    assert study.best_setting is study.settings[1]
    assert (study.accuracy, study.best) == (pytest.approx(0.63), pytest.approx(0.63))
    assert study_facts(study)[1:3] == [
        ("best", "fedgh, training.lr=0.01: 63.0 %, the mean of 2 seeds"),
        ("settings", "2 of 4 finished, from 60.0 % to 63.0 %"),
    ]
    assert StudySummary.of(tmp_path / "t", []).accuracy is None
    assert StudySummary.of(tmp_path / "t", found[:1]).best_setting is None  # one of two seeds has finished


@pytest.mark.long
@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
async def test_one_band_at_a_time_is_shown_without_gaps_that_of_the_row_under_the_cursor(
    seeds_home: Path, system: ColorSystem
) -> None:
    shown: list[tuple[str, int]] = []
    async with staged("compare", view_of(seeds_home), size=MIDDLE) as (app, pilot):
        panel = app.panel
        app.console._color_system = system
        for name in ("t3/standalone-s0", "base", "t3/fedlora-s0"):
            panel._table.put_cursor(seeds_home / name)
            await pilot.pause()
            figure, scheme = panel._chart.figure, look_of(panel._chart)
            assert figure.band is not None
            canvas = panel._chart.draw(72, 24, scheme)
            plot = canvas.window(2, 4, 19, 48)
            whole = canvas.bg[canvas.bg != scheme.background]
            assert "░" not in drawn(plot) and len(np.unique(whole)) == 1
            shown.append((figure.band.name, len(figure.bands)))
    assert shown == [
        ("std over 2 seeds of 2", 2),
        ("std over 3 seeds of 1", 2),  # a single session has none: the first there is
        ("std over 3 seeds of 1", 2),
    ]


def test_seeds_shown_together_are_named_after_what_they_share_and_counted(tmp_path: Path) -> None:
    study, spec = tmp_path / "t3", StudySpec("quickstart", over={"seed": (0,)})
    checkpoints.Group.open(study, documents(spec, [])).close("stopped")
    for names, said in {
        ("fd-s0", "fd-s1"): "t3/fd, 2 seeds",
        ("s0-fd", "s1-fd", "s2-fd"): "t3/fd, 3 seeds",
        ("s1", "s2", "s10"): "t3, 3 seeds",
        ("fd-seed1", "fd-seed2"): "t3/fd, 2 seeds",  # of data.seed
        ("lr1e-05-s1", "lr1e-05-s2"): "t3/lr1e-05, 2 seeds",
        ("fd-s1",): "t3/fd-s1",
    }.items():
        runs = [SessionData(study / name, config={"seed": seed}) for seed, name in enumerate(names)]
        (line,) = by_seed(runs, [study])
        assert line.label == said


@pytest.mark.long
def test_settings_that_differ_say_those_of_all_seeds_unless_these_are_the_same(seeds_home: Path) -> None:
    app, _ = on_stage("compare", view_of(seeds_home), size=MIDDLE)
    rows = {row.key: row.cells[1:] for row in app.panel._settings.rows}
    assert rows["seed"] == ("0, 1, 2", "0, 1", "0")
    two = [folder for folder in sessions_of((seeds_home / "t3",)) if folder.name[-1] in "01"]
    app, _ = on_stage(
        "compare", View(read(two[0]), marked=(seeds_home / "t3",), compared=tuple(map(read, two)))
    )
    assert [row.key for row in app.panel._settings.rows] == ["method.name"]


def test_a_line_is_the_mean_and_its_band_the_sample_deviation_of_the_rounds_all_seeds_have(
    seeds_home: Path,
) -> None:
    runs = view_of(seeds_home).compared
    lines = by_seed(runs, [seeds_home / "t3"])
    chart = figure(lines, [0, 1, 2], "mean accuracy", "rounds", [])
    line, band = chart.series[1], chart.bands[1]
    one, other = (run.curves["accuracy"][:12] * 100 for run in lines[1].runs)
    assert line.x is not None and list(line.x) == list(range(1, 13))
    np.testing.assert_allclose(line.y, (one + other) / 2)
    np.testing.assert_allclose(band.high - line.y, np.abs(one - other) / np.sqrt(2))
    second = figure(lines, [0, 1, 2], "mean accuracy", "rounds", [], lines[1].runs[0].folder)
    assert second.band is not chart.band and second.y_axis() == chart.y_axis()  # room for either
    alone = by_seed(runs, [])  # outside of a marked study
    assert [each.name for each in alone] == [run.name for run in runs]
    assert not figure(alone, range(len(alone)), "mean accuracy", "rounds", []).bands


def test_a_study_whose_list_is_damaged_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "points.json").write_text("{")
    assert StudySummary.of(tmp_path, ()).state == "damaged"
