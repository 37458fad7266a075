"""A study in the app: a group among the sessions, with its progress, and lines with bands in Compare."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.color import ColorSystem

import checkpoints
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.board import StudySummary
from simulator.studies.folder import documents
from simulator.studies.selection import by_seed
from simulator.studies.study import Point, StudySpec
from tests import sessions
from tests.app.charts.pictures import drawn
from tests.app.panels.stage import on_stage, read
from tests.app.panels.test_snapshots import MIDDLE, check
from tui.app.panels.compare import ComparePanel, figure
from tui.app.panels.sessions import SessionList, SessionsPanel, study_facts
from tui.app.view import View
from tui.app.watch import sessions_of
from tui.app.widgets.screen import look_of

METHODS = {"fedlora": 0.95, "standalone": 0.85}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods by three seeds, of which one has stopped and one has not begun, beside a session of its own."""
    root = tmp_path_factory.mktemp("studies")
    folder = root / "sessions"
    study = StudySpec("quickstart", over={"method": tuple(METHODS), "seed": (0, 1, 2)})
    points = [
        Point(
            f"{method}-s{seed}",
            {"method": method, "seed": seed},
            sessions.config(10, 20, method, seed=seed, runtime={"threads_per_client": 1}),
        )
        for method in METHODS
        for seed in (0, 1, 2)
    ]
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
def home(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    now = datetime(2026, 1, 2, 11, 20, tzinfo=UTC)
    monkeypatch.setattr("tui.app.panels.sessions.present", lambda: now)
    return Path("sessions")


def view_of(home: Path) -> View:
    marked = (home / "t3", home / "base")
    compared = tuple(read(folder) for folder in sessions_of(marked))
    return View(read(home / "base"), marked=marked, compared=compared)


@pytest.mark.long
def test_a_study_is_a_group_with_its_progress(home: Path) -> None:
    _, text = on_stage("sessions", view_of(home), size=MIDDLE)
    check("sessions-study-120x40", text)
    (row,) = (line for line in text.splitlines() if " t3 " in line)
    assert "4/6" in row and "stopped" in row
    assert "fedlora, 1 of 2 finished" in row  # Standalone has not finished: there is no best of two yet
    assert "├─ fedlora-s0" in text and "└─ standalone-s1" in text


@pytest.mark.long
def test_its_row_has_a_finished_setting_and_no_mean_over_different_methods(home: Path) -> None:
    async def act(pilot: Any, panel: SessionsPanel) -> None:
        panel.show(replace(view_of(home), filter="study t3"))
        panel.query_one(SessionList).put_cursor(home / "t3")

    app, text = on_stage("sessions", view_of(home), act, size=MIDDLE)
    (row,) = app.panel._list.rows
    last = [read(home / "t3" / f"fedlora-s{seed}").curves["accuracy"][-1] for seed in (0, 1, 2)]
    assert (row.key, row.cells[6]) == (home / "t3", f"{np.mean(last) * 100:.1f} %")
    words = " ".join(text.split())
    assert f"finished fedlora: {np.mean(last) * 100:.1f} %, the mean of 3" in words
    assert "settings 1 of 2 finished" in words


def test_the_best_of_a_study_is_chosen_among_its_finished_settings(tmp_path: Path) -> None:
    # Two methods by two rates by two seeds. Both settings of fedgh have finished, and fd has begun one.
    points = [
        Point(
            f"{method}-{lr}-s{seed}",
            {"method": method, "training.lr": lr, "seed": seed},
            sessions.config(2, 8, runtime={"threads_per_client": 1}),
        )
        for method in ("fedgh", "fd")
        for lr in (0.1, 0.01)
        for seed in (0, 1)
    ]
    spec = StudySpec(
        "quickstart", over={"method": ("fedgh", "fd"), "training.lr": (0.1, 0.01), "seed": (0, 1)}
    )
    checkpoints.Group.open(tmp_path / "t", documents(spec, points)).close("stopped")
    reached = {
        "fedgh-0.1-s0": (0.5, 0.9, 8), "fedgh-0.1-s1": (0.7, 0.7, 8), "fedgh-0.01-s0": (0.62, 0.62, 8),
        "fedgh-0.01-s1": (0.64, 0.64, 8), "fd-0.1-s0": (0.9, 0.9, 8), "fd-0.1-s1": (0.1, 0.1, 2),
    }  # fmt: skip
    found = [
        Summary(
            f"t/{name}", str(tmp_path / "t" / name), "finished" if round == 8 else "running", accuracy=accuracy,
            best=best, round=round, rounds=8,
        )
        for name, (accuracy, best, round) in reached.items()
    ]  # fmt: skip
    study = StudySummary.of(tmp_path / "t", found)
    assert [(each.name, each.accuracy, each.best) for each in study.settings] == [
        ("fedgh, training.lr=0.1", pytest.approx(0.6), pytest.approx(0.8)),
        ("fedgh, training.lr=0.01", pytest.approx(0.63), pytest.approx(0.63)),
        (
            "fd, training.lr=0.1",
            0.9,
            0.9,
        ),  # a mean with the seed that is in round 2 would be that of no round
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
def test_marked_it_is_a_line_for_each_method_with_a_band_over_seeds(home: Path) -> None:
    app, text = on_stage("compare", view_of(home), size=MIDDLE)
    check("compare-study-120x40", text)
    figure = app.panel._chart.figure
    assert [line.name for line in figure.series] == ["t3/fedlora, 3 seeds", "t3/standalone, 2 seeds", "base"]
    assert [band.name for band in figure.bands] == ["std over 3 seeds of 1", "std over 2 seeds of 2"]
    assert text.count("t3/fedlora, 3 seeds") == text.count("t3/standalone, 2 seeds") == 2


@pytest.mark.long
@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
def test_one_band_at_a_time_is_shown_without_gaps_that_of_the_row_under_the_cursor(
    home: Path, system: ColorSystem
) -> None:
    shown: list[tuple[str, int]] = []

    async def act(pilot: Any, panel: ComparePanel) -> None:
        pilot.app.console._color_system = system
        for key in (home / "t3" / "standalone-s0", home / "base", home / "t3" / "fedlora-s0"):
            panel._table.put_cursor(key)
            await pilot.pause()
            figure, scheme = panel._chart.figure, look_of(panel._chart)
            assert figure.band is not None
            canvas = panel._chart.draw(72, 24, scheme)
            plot = canvas.window(2, 4, 19, 48)
            whole = canvas.bg[canvas.bg != scheme.background]
            assert "░" not in drawn(plot) and len(np.unique(whole)) == 1
            shown.append((figure.band.name, len(figure.bands)))

    on_stage("compare", view_of(home), act, size=MIDDLE)
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
def test_settings_that_differ_say_those_of_all_seeds_unless_these_are_the_same(home: Path) -> None:
    app, _ = on_stage("compare", view_of(home), size=MIDDLE)
    rows = {row.key: row.cells[1:] for row in app.panel._settings.rows}
    assert rows["seed"] == ("0, 1, 2", "0, 1", "0")
    two = [folder for folder in sessions_of((home / "t3",)) if folder.name[-1] in "01"]
    app, _ = on_stage("compare", View(read(two[0]), marked=(home / "t3",), compared=tuple(map(read, two))))
    assert [row.key for row in app.panel._settings.rows] == ["method.name"]


def test_a_line_is_the_mean_and_its_band_the_sample_deviation_of_the_rounds_all_seeds_have(
    home: Path,
) -> None:
    runs = view_of(home).compared
    lines = by_seed(runs, [home / "t3"])
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
