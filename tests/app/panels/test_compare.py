"""The Compare panel: standings, targets, files."""

from pathlib import Path

from tests.app.panels.stage import on_stage, read
from tui.app.panels.compare import ComparePanel, standing_row
from tui.app.view import View


def view_of(home: Path, *names: str) -> View:
    runs = tuple(read(home / name) for name in names)
    return View(runs[0], compared=runs, marked=tuple(run.folder for run in runs))


def test_standings_count_rounds_and_bytes_to_the_target(at_home: Path) -> None:
    run = read(at_home / "base")
    reached = int((run.curves.mean >= 0.5).argmax()) + 1
    total = run.records[reached - 1]["bytes"]["up_total"] * 2
    row = standing_row(0, run, 0.5).cells
    assert row[:5] == ("1", "base", "standalone", "finished", "20/20")
    assert row[7] == str(reached)
    assert row[8] == f"{total / 2**20:.1f} MiB"


def test_a_target_out_of_reach_is_never_or_not_yet(at_home: Path) -> None:
    assert standing_row(0, read(at_home / "base"), 0.99).cells[7] == "never"


def test_keys_move_the_target_by_a_hundredth_and_cycle_the_x_axis(at_home: Path) -> None:
    view = view_of(at_home, "main", "base")
    seen: list[object] = []

    async def act(pilot: object, panel: ComparePanel) -> None:
        before = panel.target(view.compared)
        panel.action_next()
        panel.action_next()
        panel.action_previous()
        seen.append(round(panel.target(view.compared) - before, 6))
        for _ in range(4):
            panel.action_unit()
            seen.append(panel._chart.figure.x_label)

    on_stage("compare", view, act)
    assert seen == [0.01, "MiB", "FLOPs", "seconds", "rounds"]


def test_the_file_has_what_each_session_took(at_home: Path) -> None:
    view = view_of(at_home, "main", "base")
    app, _ = on_stage("compare", view)
    columns, rows = app.panel.table(view)
    assert [row[columns.index("session")] for row in rows] == ["main", "base"]
    assert rows[0][columns.index("methods")] == "fedlora→fedssa@13"
    assert all(len(row) == len(columns) for row in rows)
