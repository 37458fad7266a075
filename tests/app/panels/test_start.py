"""What Sessions shows in an empty folder: what to do first."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from htfl_sim import catalog
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import drive, until
from tests.app.panels.stage import on_stage
from tui.app.app import HtflApp
from tui.app.dialogs.run_forms import NewRunDialog
from tui.app.dialogs.upkeep import AttachDialog
from tui.app.runs import LaunchOptions
from tui.app.view import View


def test_an_empty_folder_says_what_to_do_first_and_lists_every_preset(tmp_path: Path) -> None:
    view = View(SessionData(Path()), sessions_dir=tmp_path)
    names: list[Any] = []

    async def read(pilot: Any, panel: Any) -> None:
        names.extend(row.key for row in panel._start.list.rows)

    _, text = on_stage("sessions", view, read, size=(80, 24))
    said = " ".join(text.split())
    assert "FedLoRA on digits: no download, about a minute" in said
    assert "Press n for a new run" in said and "`htfl-sim run` starts the quickstart" in said
    assert names[:2] == ["quickstart", "attach"]
    assert {*names} == {"attach", *catalog.preset_names()} and len(names) == len({*names})


@pytest.mark.long
def test_enter_takes_the_step_under_the_cursor(tmp_path: Path) -> None:
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"))

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.panel.id == "sessions" and app.focused is not None)
        for moves, dialog in (((), NewRunDialog), (("down",), AttachDialog)):
            await pilot.press(*moves, "enter")
            await until(pilot, lambda wanted=dialog: isinstance(app.screen, wanted))  # type: ignore[misc]
            if isinstance(app.screen, NewRunDialog):
                assert app.screen.values["preset"] == "quickstart"
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)

    drive(app, script)


@pytest.mark.long
def test_a_folder_with_a_session_lists_it(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=1, clients=2)
    _, text = on_stage("sessions", View(SessionData(Path()), sessions_dir=tmp_path))
    assert "1 session in" in text and "first steps" not in text
