"""Renaming a session: in one step, under its lock, and never over something else."""

from pathlib import Path

import pytest

import checkpoints
from checkpoints import Locked, SessionUnreadable, Store
from tests.checkpoints.helpers import make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of two rounds that nobody runs."""
    return make(tmp_path / "s", rounds=2)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_renamed_session_is_the_same_files_under_another_name(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    assert checkpoints.rename(folder, "t") == tmp_path / "t"
    assert contents(tmp_path / "t") == before and not folder.exists()
    assert checkpoints.verify(tmp_path / "t") == []
    with Store.open(tmp_path / "t") as store:
        store.event("warning", message="it goes on")


def test_who_runs_a_session_keeps_its_name(folder: Path) -> None:
    with Store.open(folder), pytest.raises(Locked):
        checkpoints.rename(folder, "t")
    assert folder.is_dir()


@pytest.mark.parametrize("what", ["session", "empty folder", "file", "dangling link"])
def test_a_name_that_is_taken_stays_with_what_has_it(what: str, folder: Path, tmp_path: Path) -> None:
    taken = tmp_path / "t"
    match what:
        case "session":
            make(taken, rounds=1)
        case "empty folder":
            taken.mkdir()
        case "file":
            taken.write_text("mine")
        case _:
            taken.symlink_to(tmp_path / "nowhere")
    with pytest.raises(SessionUnreadable, match="is there already"):
        checkpoints.rename(folder, "t")
    assert folder.is_dir() and (taken.is_symlink() or taken.exists())


def test_only_a_sessions_own_folder_is_renamed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(folder)
    for other in ("precious", "link"):
        with pytest.raises(SessionUnreadable, match="nothing was renamed"):
            checkpoints.rename(tmp_path / other, "t")
