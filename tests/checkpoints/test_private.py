"""Hidden folders of killed commands: listed, removed on request, and never taken from a living process."""

import os
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import checkpoints
from checkpoints import Locked, SessionUnreadable, Store
from tests.checkpoints.helpers import make
from tests.processes import FORKED


def make_and_wait(folder: Path, pipe: Connection) -> None:
    """In a process of its own: begin to make a session, say so, and wait."""
    with checkpoints.in_private(folder) as private:
        Store.create(private, {"config": {}}).close()
        pipe.send(private.name)
        pipe.recv()


def remove_and_wait(folder: Path, pipe: Connection) -> None:
    """In a process of its own: begin to remove a session, say so, and wait."""

    def wait(private: Path) -> None:
        pipe.send(private.name)
        pipe.recv()

    shutil.rmtree = wait  # type: ignore[assignment]
    checkpoints.remove(folder)


@pytest.mark.parametrize("work", [make_and_wait, remove_and_wait])
def test_a_killed_command_leaves_a_folder_that_can_be_removed_once_it_is_dead(
    tmp_path: Path, work: object
) -> None:
    if work is remove_and_wait:
        make(tmp_path / "s")
    here, there = FORKED.Pipe()
    process = FORKED.Process(target=work, args=(tmp_path / "s", there), daemon=True)
    process.start()
    name = here.recv()

    [busy] = checkpoints.leftovers(tmp_path)
    assert (busy.path.name, busy.in_use) == (name, True)
    with pytest.raises(Locked, match="is in use by"):
        checkpoints.remove_leftover(busy)

    process.kill()
    process.join()
    [left] = checkpoints.leftovers(tmp_path)
    assert (left.path.name, left.in_use) == (name, False)
    checkpoints.remove_leftover(left)
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_made_while_leftovers_are_removed_is_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal comes between the making of the folder and its lock."""
    mkdir, times = os.mkdir, iter(range(100))

    def mkdir_and_remove(path: str | Path, *about: int, **more: int) -> None:
        mkdir(path, *about, **more)
        if Path(path).name.endswith(".new") and next(times) == 0:
            checkpoints.remove_leftover(checkpoints.leftovers(tmp_path)[0])

    monkeypatch.setattr(os, "mkdir", mkdir_and_remove)
    assert checkpoints.verify(make(tmp_path / "s")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_what_is_left_in_a_group_is_listed_and_links_are_not(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "points.json").write_text("[]")
    for name in ("study/.a.0123456789abcdef.new", ".b.0123456789abcdef.new", ".c", "d.0123456789abcdef.new"):
        (tmp_path / name).mkdir()
    (tmp_path / ".e.0123456789abcdef.new").symlink_to(tmp_path / "study")
    (tmp_path / ".f.0123456789abcdef.new").write_text("")
    assert [left.path.name for left in checkpoints.leftovers(tmp_path)] == [
        ".b.0123456789abcdef.new",
        ".a.0123456789abcdef.new",
    ]


def test_a_folder_of_another_machine_goes_only_when_that_is_said_to_be_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = make(tmp_path / "s").rename(tmp_path / ".s.0123456789abcdef.new")
    monkeypatch.setattr("checkpoints.lock.is_elsewhere", lambda note: True)
    [found] = checkpoints.leftovers(tmp_path)
    with pytest.raises(Locked, match="add `steal=True`"):
        checkpoints.remove_leftover(found)
    checkpoints.remove_leftover(found, steal=True)
    assert not left.exists()


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


def test_a_name_that_is_taken_stays_with_what_has_it(tmp_path: Path) -> None:
    for number, what in enumerate(["session", "empty folder", "file", "dangling link"]):
        folder = make(tmp_path / f"{number}", rounds=1)
        taken = tmp_path / f"t{number}"
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
            checkpoints.rename(folder, taken.name)
        assert folder.is_dir() and (taken.is_symlink() or taken.exists())


def test_only_a_sessions_own_folder_is_renamed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(folder)
    for other in ("precious", "link"):
        with pytest.raises(SessionUnreadable, match="nothing was renamed"):
            checkpoints.rename(tmp_path / other, "t")
