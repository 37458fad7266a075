"""A study in the app: a group among the sessions, with its progress, and lines with bands in Compare."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from simulator.studies.folder import documents
from simulator.studies.study import Point, Study
from simulator.studies.summary import StudySummary, by_seed
from tests import sessions
from tests.app.panels.stage import on_stage, read
from tests.app.panels.test_snapshots import MIDDLE, check
from tui.app.messages import SessionMarked
from tui.app.panels.compare_chart import figure
from tui.app.panels.session_list import SessionList
from tui.app.panels.sessions import SessionsPanel
from tui.app.view import View
from tui.app.watch import sessions_of

METHODS = {"fedlora": 0.95, "standalone": 0.85}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods by three seeds, of which one has stopped and one has not begun, beside a session of its own."""
    root = tmp_path_factory.mktemp("studies")
    folder = root / "sessions"
    study = Study("quickstart", over={"method": tuple(METHODS), "seed": (0, 1, 2)})
    points = [
        Point(
            f"{method}-s{seed}", {"method": method, "seed": seed}, sessions.config(10, 20, method, seed=seed)
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
            document=point.config,
        )
    sessions.make(folder / "base", rounds=20, method="standalone", ceiling=0.8)
    return root


@pytest.fixture
def home(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    now = datetime(2026, 1, 2, 11, 20, tzinfo=UTC)
    monkeypatch.setattr("tui.app.panels.session_list.present", lambda: now)
    return Path("sessions")


def view_of(home: Path) -> View:
    marked = (home / "t3", home / "base")
    compared = tuple(read(folder) for folder in sessions_of(marked))
    return View(read(home / "base"), marked=marked, compared=compared)


def test_a_study_is_a_group_with_its_progress(home: Path) -> None:
    _, text = on_stage("sessions", view_of(home), size=MIDDLE)
    check("sessions-study-120x40", text)
    (row,) = (line for line in text.splitlines() if " t3 " in line)
    assert "4/6" in row and "stopped" in row and "fedlora, standalone" in row
    assert "├─ fedlora-s0" in text and "└─ standalone-s1" in text


def test_marked_it_is_a_line_for_each_method_with_a_band_over_seeds(home: Path) -> None:
    app, text = on_stage("compare", view_of(home), size=MIDDLE)
    check("compare-study-120x40", text)
    figure = app.panel._chart.figure  # type: ignore[attr-defined]
    assert [line.name for line in figure.series] == ["t3/fedlora", "t3/standalone", "base"]
    assert [band.name for band in figure.bands] == ["t3/fedlora", "t3/standalone"]
    assert "t3/fedlora ×3" in text and "t3/standalone ×2" in text


def test_a_line_is_the_mean_and_its_band_the_sample_deviation_of_the_rounds_all_seeds_have(
    home: Path,
) -> None:
    lines = by_seed(view_of(home).compared, [home / "t3"])
    chart = figure(lines, [0, 1, 2], "mean accuracy", "rounds", [])
    line, band = chart.series[1], chart.bands[1]
    one, other = (run.curves.mean[:12] * 100 for run in lines[1].runs)
    assert line.x is not None and list(line.x) == list(range(1, 13))
    np.testing.assert_allclose(line.y, (one + other) / 2)
    np.testing.assert_allclose(band.high - line.y, np.abs(one - other) / np.sqrt(2))


def test_sessions_outside_a_marked_study_stay_single_lines(home: Path) -> None:
    runs = view_of(home).compared
    lines = by_seed(runs, [])
    assert [line.name for line in lines] == [run.name for run in runs]
    assert not figure(lines, range(len(lines)), "mean accuracy", "rounds", []).bands


def test_keys_mark_a_study_and_fold_it(home: Path) -> None:
    shown: list[int] = []

    async def act(pilot: object, panel: SessionsPanel) -> None:
        table = panel.query_one(SessionList)
        table.put_cursor(home / "t3")
        panel.action_mark()
        shown.append(len(table.rows))
        for _ in range(2):
            table.fold(home / "t3")
            shown.append(len(table.rows))

    app, text = on_stage("sessions", view_of(home), act, size=MIDDLE)
    assert shown == [7, 2, 7]
    assert [each.folder for each in app.posted if isinstance(each, SessionMarked)] == [home / "t3"]
    assert "study t3" in text and "6: 4 finished, 1 stopped, 1 not begun" in text


def test_a_filter_that_leaves_but_a_study_shows_it(home: Path) -> None:
    app, text = on_stage("sessions", replace(view_of(home), filter="study t3"), size=MIDDLE)
    assert [row.key for row in app.panel._list.rows] == [home / "t3"]  # type: ignore[attr-defined]
    assert "No session has all these words" not in text and " t3 " in text


def test_a_study_whose_list_is_damaged_is_said_to_be(home: Path, tmp_path: Path) -> None:
    (tmp_path / "points.json").write_text("{")
    assert StudySummary.of(tmp_path, ()).state == "damaged"
