"""Groups of sessions, their one owner, and sessions that travel to another machine in parcels."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checkpoints
from checkpoints import (
    POINTS,
    Arrival,
    Damaged,
    Group,
    GroupReader,
    Locked,
    Parcel,
    Piece,
    SessionReader,
    SessionUnreadable,
    Store,
    files,
    pack,
)
from tests.checkpoints.helpers import commit, make, save_unfinished_round
from tests.checkpoints.test_lock import hold
from tests.processes import FORKED
from tests.reliability.sessions import contents

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


# Travel

STUDY = {checkpoints.POINTS: b"[]"}


def travelling(session: Path) -> dict[str, bytes]:
    """The files of a session that go along."""
    return contents(session, ("lock", "tmp/"))


def group(folder: Path) -> Path:
    Group.open(folder, STUDY).close("stopped")
    return folder


def arrived(study: Path, session: Path, parcels: Iterable[Parcel] = ()) -> Arrival:
    arrival = Arrival(study, "s")
    for parcel in parcels or pack(session):
        arrival.take(parcel)
    return arrival


@pytest.mark.long
@given(most=st.integers(100, 5000))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_session_arrives_as_it_left_in_parcels_of_whatever_size(tmp_path: Path, most: int) -> None:
    shutil.rmtree(tmp_path)
    session = make(tmp_path / "s")
    with Store.open(session) as store:
        save_unfinished_round(store, 4)
    arrival = Arrival(group(tmp_path / "g"), "s")
    for parcel in pack(session, most):
        assert sum(len(piece.data) for piece in parcel) <= most
        arrival.take(parcel)
    arrival.settle()
    assert travelling(tmp_path / "g" / "s") == travelling(session)
    assert checkpoints.verify(tmp_path / "g" / "s") == []
    with Store.open(tmp_path / "g" / "s") as there:
        commit(there, 4)


def test_what_has_arrived_in_part_is_no_session_and_another_attempt_begins_afresh(tmp_path: Path) -> None:
    session, study = make(tmp_path / "s"), group(tmp_path / "g")
    first, *rest = pack(session, 200)
    Arrival(study, "s").take(first)
    assert not (study / "s").exists() and checkpoints.sessions(study) == []
    arrived(study, session, [first, *rest]).settle()
    assert travelling(study / "s") == travelling(session)


def test_a_session_that_comes_back_takes_the_place_of_what_has_not_got_further(tmp_path: Path) -> None:
    study, further = group(tmp_path / "g"), make(tmp_path / "further", rounds=3)
    make(study / "s", rounds=1)
    for come in (further, make(tmp_path / "behind", rounds=2)):
        arrived(study, come).settle()
        assert travelling(study / "s") == travelling(further) and list((study / "tmp").iterdir()) == []


def test_a_ledger_that_is_a_link_is_not_read_to_see_who_has_got_further(tmp_path: Path) -> None:
    session, study = make(tmp_path / "s"), group(tmp_path / "g")
    ledger = make(study / "s") / "ledger.jsonl"
    ledger.unlink()
    ledger.symlink_to(session / "ledger.jsonl")
    with pytest.raises(Damaged, match=r"ledger\.jsonl"):
        arrived(study, session).settle()
    assert ledger.is_symlink()


def test_a_session_that_somebody_runs_is_neither_packed_nor_replaced(tmp_path: Path) -> None:
    study = group(tmp_path / "g")
    arrival = arrived(study, make(tmp_path / "s"))
    with Store.open(make(study / "s", rounds=1)):
        for use in (lambda: next(pack(study / "s")), arrival.settle):
            with pytest.raises(Locked):
                use()
        assert SessionReader(study / "s").rounds() == [1]
        live = [piece.path for parcel in pack(study / "s", live=True) for piece in parcel]
        assert "session.json" in live


@pytest.mark.parametrize("crash", ["before", "between", "after"])
def test_a_crashed_arrival_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str) -> None:
    """Before the old one has made way, when it has, and when the new one has its name."""
    study = group(tmp_path / "g")
    old = travelling(make(study / "s", rounds=1))
    new = travelling(make(tmp_path / "further", rounds=3))
    arrival, renamed, real = arrived(study, tmp_path / "further"), [], files.rename_folder

    def rename(source: Path, target: Path) -> None:
        if len(renamed) == ["before", "between", "after"].index(crash):
            raise RuntimeError("killed")
        renamed.append(target)
        real(source, target)

    def remove(path: Path, *_: object, **__: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as killed, pytest.raises(RuntimeError, match="killed"):
        killed.setattr(files, "rename_folder", rename)
        killed.setattr(shutil, "rmtree", remove)
        arrival.settle()
    group(study)
    assert travelling(study / "s") == (old if crash == "before" else new)
    assert list((study / "tmp").iterdir()) == []


def test_the_note_of_an_owner_that_died_stays_where_it_can_be_seen_that_it_did(tmp_path: Path) -> None:
    session = make(tmp_path / "s")
    assert "owner.json" in {piece.path for parcel in pack(session) for piece in parcel}
    mine, its = FORKED.Pipe()
    owner = FORKED.Process(target=hold, args=(session, its))
    owner.start()
    mine.recv()
    owner.kill()
    owner.join()
    study = group(tmp_path / "g")
    arrived(study, session).settle()
    assert not (study / "s" / "owner.json").exists()
    assert SessionReader(study / "s").state() == "interrupted"
    with Store.open(study / "s") as there:
        commit(there, 4)


NO_PLACE = ["../elsewhere", "/etc/passwd", "objects/../../x", ""]


def test_a_piece_that_has_no_place_in_a_session_is_refused(tmp_path: Path) -> None:
    for path in NO_PLACE:
        arrival = Arrival(group(tmp_path / "g"), "s")
        with pytest.raises(Damaged, match="no place in a session"):
            arrival.take([Piece(path, 0, b"x")])


def test_a_group_shows_itself_by_a_file_of_a_name_that_no_other_has(tmp_path: Path) -> None:
    with Group.open(tmp_path / "g", STUDY) as one, Group.open(tmp_path / "h", STUDY) as other:
        with one.shown() as name, other.shown() as another:
            assert (one.folder / name).is_file() and not (other.folder / name).exists() and name != another
        assert not (one.folder / name).exists()
        one.shown().__enter__()  # and is killed
    group(tmp_path / "g")
    assert list((tmp_path / "g" / "tmp").iterdir()) == []
