"""A session's life: made, written, closed, opened again, read by others meanwhile."""

import errno
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from checkpoints import (
    DiskError,
    SessionReader,
    SessionUnreadable,
    Store,
    TensorSpec,
    files,
    verify,
)
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record, server_value, weights


def test_what_is_committed_is_read_back(tmp_path: Path) -> None:
    session = SessionReader(make(tmp_path / "s", rounds=2))

    assert session.document["config"] == {"seed": 7}
    assert session.records() == [record(1), record(2)]
    assert [event["event"] for event in session.events()] == ["started"]
    assert session.manifest().history == [{"round": 1, "method": "fedlora"}]
    loaded = session.load(1, "server", {name: TensorSpec.of(t) for name, t in weights(1).items()})
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights(1).items())


def test_tensors_come_back_by_name_or_in_the_order_that_is_expected(tmp_path: Path) -> None:
    """Not in that of safetensors, which differs from process to process."""
    given = {name: torch.full((2,), number) for number, name in enumerate("hbgaecfd")}
    with Store.create(tmp_path / "s", {}) as store:
        ref = store.put(given)
        expected = {name: TensorSpec.of(tensor) for name, tensor in given.items()}
        assert list(store.session.load_object(1, "server", ref)) == list("abcdefgh")
        assert list(store.session.load_object(1, "server", ref, expected)) == list("hbgaecfd")


def test_the_ledger_is_one_plain_line_of_json_per_round(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)

    assert (folder / "ledger.jsonl").read_text() == (
        '{"accuracy":{"mean":0.5},"round":1,"timing":{"seconds":0.25}}\n'
    )


def test_the_bytes_of_an_object_depend_on_values_only(tmp_path: Path) -> None:
    image = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4)
    with Store.create(tmp_path / "s", {}) as store:
        plain = store.put({"a": image, "b": torch.ones(2)})
        strided = store.put({"b": torch.ones(2, 2)[0], "a": image.to(memory_format=torch.channels_last)})

    assert plain == strided


def test_tied_weights_are_stored_under_both_names(tmp_path: Path) -> None:
    tied = torch.ones(4)
    with Store.create(tmp_path / "s", {}) as store:
        store.commit(
            0, {"server": store.put({"in": tied, "out": tied, "none": torch.empty(0)})}, None, [], []
        )
        loaded = store.session.load(0, "server")

    assert torch.equal(loaded["in"], loaded["out"])
    assert loaded["none"].shape == (0,)


def test_states_are_put_from_several_threads(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store, ThreadPoolExecutor(4) as pool:
        # Every state twice over, so that threads meet at the same object.
        refs = list(pool.map(lambda n: store.put(weights(n // 2)), range(40)))
        store.commit(0, {f"client/{n}": ref for n, ref in enumerate(refs)}, None, [], [])

        assert [server_value(store.session.load(0, f"client/{n}")) for n in range(40)] == [
            n // 2 for n in range(40)
        ]
    assert verify(tmp_path / "s") == []


def test_rounds_only_go_forward_and_bring_their_own_record(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, KEEP_ALL) as store:
        commit(store, 2)
        ref = store.put(weights(0))
        for round, line in [(2, record(2)), (1, record(1)), (3, record(4)), (3, None)]:
            with pytest.raises(ValueError, match=f"round {round}"):
                store.commit(round, {"server": ref}, line, [], [])
        commit(store, 3)


def test_a_change_of_state_reaches_watchers_at_once_and_progress_twice_a_second(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        reader = SessionReader(tmp_path / "s")
        store.heartbeat("paused", round=1)
        assert reader.state() == "paused"
        beats = (reader.owner() or {})["heartbeat"]
        for client in range(100):
            store.heartbeat(client=client)
        assert (reader.owner() or {})["heartbeat"] <= beats + 1
    assert (reader.owner() or {})["progress"] == {"client": 99}
    assert reader.state() == "stopped"


def test_a_closed_store_refuses_to_write(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", {})
    store.close("finished")

    with pytest.raises(SessionUnreadable, match="closed"):
        store.put(weights(1))
    assert SessionReader(tmp_path / "s").state() == "finished"


def test_a_name_that_is_taken_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    make(tmp_path / "s", rounds=1)

    for name in ("notes", "file", "s"):
        with pytest.raises(SessionUnreadable, match="Choose another name"):
            Store.create(tmp_path / name, {})
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]
    assert verify(tmp_path / "s") == []


def test_a_read_only_place_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "os", Failing({"mkdir"}, 0, errno.EROFS))

    with pytest.raises(DiskError, match="writing is not allowed") as caught:
        Store.create(tmp_path / "s", {})
    assert str(tmp_path / "s") in str(caught.value)
    assert caught.value.exit_code == 5
    assert not (tmp_path / "s").exists()


def test_asking_for_what_is_not_kept_says_what_is(tmp_path: Path) -> None:
    session = SessionReader(make(tmp_path / "s", rounds=2))

    with pytest.raises(SessionUnreadable, match="kept: 1, 2"):
        session.manifest(9)
    with pytest.raises(SessionUnreadable, match="no state client/9"):
        session.load(2, "client/9")


@pytest.mark.long
def test_reading_json_needs_no_torch(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    code = (
        "import sys, pathlib, checkpoints as c\n"
        "s = c.SessionReader(pathlib.Path(sys.argv[1]))\n"
        "s.records(), s.events(), s.manifest(), s.owner(), s.state()\n"
        "assert c.verify(s.folder) == []\n"
        "assert 'torch' not in sys.modules and 'safetensors' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
