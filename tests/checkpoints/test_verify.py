"""The auditor finds any flipped bit, names what it belongs to, and finds nothing in a sound session."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import Damaged, Retention, SessionReader, Store, post, verify
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record, save_unfinished_round


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed session with every kind of file, retired rounds, and a last round that has no checkpoint."""
    folder = tmp_path_factory.mktemp("verify") / "s"
    with Store.create(folder, {"config": {"seed": 7}}, Retention(last=2)) as store:
        store.event("started")
        for round in range(1, 5):
            commit(store, round)
        save_unfinished_round(store, 5)
        post(folder, "pause")
        (command,) = store.commands()
        store.answer(command, "applied", "paused", round=4)
        store.append(record(5))
    post(folder, "switch", {"method": "fedgh"})
    return folder


def damaged(folder: Path) -> set[str]:
    return {finding.path for finding in verify(folder) if finding.severity == "damage"}


def test_a_sound_session_has_no_damage(session: Path) -> None:
    assert [(finding.path, finding.severity) for finding in verify(session)] == [("ledger.jsonl", "note")]


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_bit_anywhere_is_found(session: Path, data: st.DataObject) -> None:
    files = sorted(path for path in session.rglob("*") if path.is_file() and path.stat().st_size)
    path = data.draw(st.sampled_from(files))
    whole = path.read_bytes()
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
    try:
        assert path.relative_to(session).as_posix() in damaged(session)
    finally:
        path.write_bytes(whole)


def test_bytes_in_the_lock_file_are_found(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    (folder / "lock").write_bytes(b"\1")

    assert damaged(folder) == {"lock"}


def test_a_damaged_object_is_named_with_its_round_and_client(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    ref = SessionReader(folder).manifest(2).states["client/0"]
    (folder / ref.name).write_bytes((folder / ref.name).read_bytes()[:-1])

    (finding,) = verify(folder)
    assert (finding.path, finding.severity) == (ref.name, "damage")
    assert finding.message.startswith("round 2, client/0: ")
    with pytest.raises(Damaged, match=r"round 2, client/0: .*cut short.* go on from round 1"):
        SessionReader(folder).load(2, "client/0")


def test_a_missing_object_is_found_and_the_session_not_opened(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    ref = SessionReader(folder).manifest(2).states["client/1"]
    (folder / ref.name).unlink()

    (finding,) = verify(folder)
    assert finding.message == f"round 1, client/1 and 1 more: {ref.name} is missing."
    # client/1 never changed, so no earlier round helps.
    with pytest.raises(Damaged, match=r"round 2, client/1: .*is missing\. .*No earlier checkpoint"):
        Store.open(folder)


def test_a_damaged_manifest_is_refused_and_an_older_round_offered(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    path = folder / "manifests" / "000002.json"
    path.write_bytes(path.read_bytes().replace(b"fedlora", b"fedlorA"))
    objects = sorted(folder.glob("objects/??/*"))

    assert "manifests/000002.json" in damaged(folder)
    for use in (Store.open, lambda folder: SessionReader(folder).load(None, "server")):
        with pytest.raises(Damaged, match=r"000002.json is damaged.* go on from round 1"):
            use(folder)
    assert sorted(folder.glob("objects/??/*")) == objects


def test_a_manifest_under_another_rounds_name_is_found(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    (folder / "manifests" / "000002.json").rename(folder / "manifests" / "000003.json")

    assert "manifests/000003.json" in damaged(folder)


def test_strange_files_are_noted(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    strange = ["notes.txt", "manifests/1.json", "objects/x.bin", "objects/ab/short.safetensors"]
    strange += ["partial/client-3", "control/inbox/pause.json", "control/done/x"]
    (folder / "objects" / "ab").mkdir(exist_ok=True)
    for name in strange:
        (folder / name).write_text("x")

    findings = verify(folder)

    assert {finding.severity for finding in findings} == {"note"}
    assert sorted(finding.path for finding in findings) == sorted(strange)


def test_a_live_session_can_be_verified_between_any_two_steps(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, KEEP_ALL) as store:
        for round in range(1, 4):
            store.put({})
            save_unfinished_round(store, round)
            assert damaged(tmp_path / "s") == set()
            commit(store, round)
            store.heartbeat(round=round)
            post(tmp_path / "s", "checkpoint")
            assert damaged(tmp_path / "s") == set()


def test_an_unfinished_round_that_follows_no_checkpoint_is_noted(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(record(1))
        save_unfinished_round(store, 2)

    assert ("partial/000002.json", "note") in {(each.path, each.severity) for each in verify(tmp_path / "s")}
