"""ctrl+z gives the terminal to the shell, except while this process runs a session."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.app.driving import drive, opened, until
from tui.app.app import HtflApp
from tui.app.terminal import CANNOT


def press_ctrl_z(app: HtflApp, monkeypatch: pytest.MonkeyPatch, able: bool, running: str = "") -> list[Any]:
    """What reaches the process, and the notices of the app."""
    sent: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))

    async def script(pilot: Pilot[str]) -> None:
        monkeypatch.setattr(type(app._driver), "can_suspend", property(lambda _: able))
        if running:
            monkeypatch.setattr(type(app.runs), "running", property(lambda _: True))
            monkeypatch.setattr(type(app.runs), "name", property(lambda _: running))
        await pilot.press("ctrl+z")
        await until(pilot, lambda: bool(sent or app._notifications))
        sent.extend(each.message for each in app._notifications)

    drive(app, script)
    monkeypatch.undo()
    return sent


@pytest.mark.long
def test_ctrl_z_stops_this_process_unless_that_is_impossible_or_would_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(**about: Any) -> list[Any]:
        return press_ctrl_z(opened(tmp_path, None), monkeypatch, **about)

    assert press(able=True) == [(os.getpid(), signal.SIGTSTP)]
    assert press(able=False) == [CANNOT]
    (said,) = press(able=True, running="main")
    assert said.startswith("main runs in this process, so suspending the app would stop it. Press q")
