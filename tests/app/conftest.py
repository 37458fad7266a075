"""A session to look at, and waiting for the app."""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from textual._context import active_app
from textual.app import App

from tests import sessions

FRAME = 0.02
"""Seconds after which Textual has drawn what has changed, on a machine with nothing else to do."""
PATIENCE = 60.0
"""Seconds after which a test goes on, whatever the app does."""


async def settled(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the app has nothing to do but what comes from other threads.

    Textual's own wait also ends after 20 ms in which the process got no processor, which it takes for idleness.
    """
    loop: Any = asyncio.get_running_loop()
    app = active_app.get(None)
    end = time.monotonic() + PATIENCE
    await asyncio.sleep(max(FRAME, min_sleep))
    while time.monotonic() < end:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        if app is None or not _has_work(app):
            return
        await asyncio.sleep(FRAME / 4)


def _has_work(app: App[Any]) -> bool:
    """Whether the app has keys that wait for earlier ones, or something to draw."""
    keys = getattr(app, "_key_queue", None)
    if keys is not None and keys.under_way:
        return True
    if not app.is_running or not app._screen_stack:
        return False
    return bool(app.screen._callbacks or app.screen._dirty_widgets)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pilot", "app"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", settled)


@pytest.fixture(scope="session")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished session of 12 rounds and 4 clients. Checkpoints are kept of rounds 5, 10 and 12."""
    return sessions.make(tmp_path_factory.mktemp("made") / "main", rounds=12, clients=4)


@pytest.fixture
def home(tmp_path: Path, twelve: Path) -> Path:
    """A folder of its own with a copy of that session."""
    shutil.copytree(twelve, tmp_path / "main")
    return tmp_path
