"""Four sessions: one whose method was switched, its fork, a baseline without CKA, and one that has just begun."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import checkpoints
from tests import sessions
from tests.app.panels.stage import read
from tui.app.view import View


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose sessions lie under sessions/: main, main-fork, base, begun."""
    root = tmp_path_factory.mktemp("library")
    folder = root / "sessions"
    folder.mkdir()
    warning = (
        "the disk is nearly full: 1.2 GB are left, and a checkpoint of this session takes 240 MB; "
        "free some, or keep fewer"
    )
    main = sessions.make(
        folder / "main", rounds=20, switch=(12, "fedssa"), warning=warning, samples=sessions.samples(10)
    )
    parent = checkpoints.SessionReader(main).document["id"]
    sessions.make(
        folder / "main-fork", rounds=12, of=20, parent=(main, parent, 10), ceiling=0.85, state="stopped"
    )
    sessions.make(folder / "base", rounds=20, method="standalone", ceiling=0.8, cka_every=0)
    sessions.make(folder / "begun", rounds=0, of=20, state="stopped", samples=sessions.samples(10))
    return root


@pytest.fixture
def at_home(library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sessions' folder by a path that is the same on every machine, an hour after they were made."""
    monkeypatch.chdir(library)
    monkeypatch.setattr("tui.app.panels.sessions.present", lambda: datetime(2026, 1, 2, 11, 20, tzinfo=UTC))
    return Path("sessions")


@pytest.fixture
def view(at_home: Path) -> View:
    return View(read(at_home / "main"), sessions_dir=at_home)
