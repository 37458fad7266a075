"""The keys with which the app is measured."""

from pathlib import Path

import pytest

from benchmarks.app import DOWN, ESCAPE, KEYS, LEFT, MARKED, RIGHT, SIZE
from tests import sessions
from tests.app.driving import driven, until
from tui.app.app import HtflApp
from tui.app.runs import LaunchOptions

NAMES = {LEFT: "left", RIGHT: "right", DOWN: "down", ESCAPE: "escape", "[": "left_square_bracket"}
NAMES |= {"]": "right_square_bracket", ",": "comma", ".": "full_stop", "?": "question_mark"}


@pytest.mark.slow
async def test_every_key_changes_the_screen_in_each_pass(tmp_path: Path) -> None:
    """The benchmark waits for what the app writes after a key, so a key without an effect would never be answered."""
    samples = sessions.samples(6)
    sessions.make(tmp_path / "first", clients=6, rounds=30, samples=samples)
    sessions.make(tmp_path / "second", clients=6, rounds=30, method="fedssa", ceiling=0.85)
    app = HtflApp(LaunchOptions(tmp_path, tmp_path), tmp_path / "first")
    silent: list[tuple[int, str, int]] = []
    async with driven(app, SIZE) as pilot:
        await until(pilot, lambda: app.view.run.round == 30)
        await pilot.press(*MARKED)
        await until(pilot, lambda: len(app.view.compared) == 2)
        for number in range(2):
            for panel, (show, *others) in KEYS.items():
                await pilot.press(show, "g")
                await pilot.pause(0.1)
                for place, key in enumerate(others):
                    before = app.export_screenshot()
                    await pilot.press(NAMES.get(key, key))
                    await pilot.pause()
                    if app.export_screenshot() == before:
                        silent.append((number, panel, place))
    assert silent == []
