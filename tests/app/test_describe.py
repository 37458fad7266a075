"""`D`: all settings, and what differs from the parent, the preset, and a marked session."""

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from tests import sessions
from tests.app.driving import drive, opened, until
from tui.app.app import HtflApp
from tui.app.dialogs.base import Reflowed
from tui.app.dialogs.pages import Describe


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A session with a higher learning rate than its parent, which began from no preset, and a third one."""
    plain = sessions.config(4, 12) | {"preset": None}
    sessions.make(tmp_path / "main", rounds=12, clients=4, document=plain)
    id = checkpoints.SessionReader(tmp_path / "main").document["id"]
    changed = plain | {"training": {"lr": 0.05, "epochs": 5}}
    sessions.make(
        tmp_path / "fork", rounds=12, clients=4, parent=(tmp_path / "main", id, 5), document=changed
    )
    sessions.make(tmp_path / "third", rounds=12, clients=4, document=changed | {"seed": 7})
    return tmp_path / "fork"


def settings(app: HtflApp) -> str:
    return app.screen.query_one(Reflowed).render().plain


def shown(app: HtflApp, part: str) -> str:
    return str(app.screen.query_one(f"#{part}", Static).content)


def described(folder: Path, script: Any, size: tuple[int, int] = (80, 24), **about: Any) -> None:
    app = opened(folder.parent, folder.name, **about)

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        app.mark_all([folder.parent / "third"])
        await until(pilot, lambda: len(app.view.compared) == 1)
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Describe))
        await pilot.pause()
        await script(app, pilot)

    drive(app, run, size)


@pytest.mark.parametrize(("glyphs", "mark"), [("braille", "≠"), ("ascii", "!")])
def test_a_difference_is_marked_and_comes_first(fork: Path, glyphs: Any, mark: str) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        assert re.fullmatch(
            r"1 of \d+ settings differ from its parent main \(1 of 2\)\.", shown(app, "compared")
        )
        first, second, *_ = settings(app).splitlines()
        assert first.split() == [mark, "training.lr", "0.05", "there:", "0.01"]
        assert second.startswith("  ")

    described(fork, script, glyphs=glyphs)


@pytest.mark.long
def test_tab_compares_with_a_marked_session_and_words_filter(fork: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("tab")
        assert re.fullmatch(r"1 of \d+ settings differ from third \(2 of 2\)\.", shown(app, "compared"))
        assert settings(app).splitlines()[0].split()[1:] == ["seed", "0", "there:", "7"]
        await pilot.press(*"lr")
        assert [line.split()[0] for line in settings(app).splitlines()] == ["training.lr"]
        await pilot.press("q")
        assert settings(app) == "No setting fits these words."
        await pilot.press(*["backspace"] * 3, *"differs")
        assert [line.split()[1] for line in settings(app).splitlines()] == ["seed"]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    described(fork, script)


@pytest.mark.parametrize("size", [(60, 16), pytest.param((200, 60), marks=pytest.mark.long)])
def test_it_fits_the_screen(fork: Path, size: tuple[int, int]) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        box = app.screen.query_one(".dialog").region
        assert box.right <= size[0] and box.bottom <= size[1]
        assert app.screen.query_one(".hint").region.bottom < size[1]

    described(fork, script, size)
