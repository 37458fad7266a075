"""Groups: sessions that lie together, their one owner, and the processes that a dead owner leaves behind."""

import subprocess
import sys
from pathlib import Path

import pytest

import checkpoints
from checkpoints import POINTS, Group, GroupReader, Locked, SessionUnreadable, Store

DOCUMENTS = {"study.toml": b"rounds = 1\n", POINTS: b"[]\n"}
OWN_AND_BEGIN_A_CHILD = """
import subprocess, sys, time
from pathlib import Path
from checkpoints import Group
group = Group.open(Path(sys.argv[1]), {"points.json": b"[]"})
subprocess.Popen(["cat"], stdin=0, pass_fds=[group.descriptor])
print("begun", flush=True)
time.sleep(600)
"""


def test_a_group_is_made_with_its_documents_and_read_by_anybody(tmp_path: Path) -> None:
    with Group.open(tmp_path / "g", DOCUMENTS):
        reader = GroupReader(tmp_path / "g")
        assert reader.document("study.toml") == b"rounds = 1\n" and reader.alive()
    assert not GroupReader(tmp_path / "g").alive()
    assert checkpoints.groups(tmp_path) == [tmp_path / "g"]


def test_of_two_owners_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    with Group.open(tmp_path / "g", DOCUMENTS), pytest.raises(Locked, match="in use by process"):
        Group.open(tmp_path / "g")


def test_a_session_in_a_group_is_listed_and_named_after_it(tmp_path: Path) -> None:
    Group.open(tmp_path / "g", DOCUMENTS).close("stopped")
    for folder in (tmp_path / "g" / "one", tmp_path / "two"):
        Store.create(folder, {"config": {}, "parent": None}).close()
    found = checkpoints.sessions(tmp_path)
    assert [checkpoints.name_of(path) for path in found] == ["g/one", "two"]
    assert checkpoints.session_folders(tmp_path) == found
    assert {checkpoints.sessions_folder(path) for path in found} == {tmp_path}


def test_a_folder_of_something_else_is_not_made_a_group(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {"config": {}, "parent": None}).close()
    with pytest.raises(SessionUnreadable, match="is a session"):
        Group.open(tmp_path / "s", DOCUMENTS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(SessionUnreadable, match=r"thesis\.tex in it"):
        Group.open(tmp_path / "mine", DOCUMENTS)
    assert checkpoints.groups(tmp_path) == []


def test_a_group_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    Group.open(tmp_path / "g", {"study.toml": b"a = 1\n"}).close("failed")
    assert checkpoints.groups(tmp_path) == []
    Group.open(tmp_path / "g", DOCUMENTS).close("stopped")
    assert checkpoints.groups(tmp_path) == [tmp_path / "g"]


def test_a_command_reaches_the_owner_and_one_meant_for_an_earlier_owner_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    Group.open(folder, DOCUMENTS).close("stopped")
    stale = checkpoints.post(folder, "pause")
    with Group.open(folder) as group:
        answer = checkpoints.answer(folder, stale.id)
        assert answer is not None and answer.outcome == "refused"
        posted = checkpoints.post(folder, "stop")
        (command,) = group.commands()
        assert command.id == posted.id and group.commands() == []
        group.answer(command, "applied", "done")
        assert (answer := checkpoints.answer(folder, posted.id)) and answer.message == "done"


@pytest.mark.long
def test_what_a_killed_owner_began_is_waited_for(tmp_path: Path) -> None:
    """The owner's child lives until its input is closed; until then the group is its own, and nobody else's."""
    folder = tmp_path / "g"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWN_AND_BEGIN_A_CHILD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert owner.stdin is not None
    child = owner.stdin
    assert owner.stdout is not None and owner.stdout.readline() == b"begun\n"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert not GroupReader(folder).alive(), "nobody runs it any more"
    with pytest.raises(Locked):
        Group.open(folder)
    asked: list[int] = []

    def waiting() -> bool:
        asked.append(1)
        if len(asked) == 3:
            child.close()
        return True

    with Group.open(folder, waiting=waiting):
        assert len(asked) >= 3
