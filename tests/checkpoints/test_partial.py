"""What finished clients of an unfinished round made is kept until the round is committed, and used only there."""

from pathlib import Path

import pytest

from checkpoints import (
    Damaged,
    Retention,
    SessionReader,
    SessionUnreadable,
    Store,
    TensorSpec,
    UnfinishedRound,
    prune,
    verify,
)
from tests.checkpoints.helpers import (
    KEEP_ALL,
    commit,
    make,
    record,
    save_unfinished_round,
    server_value,
    weights,
)


def objects(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("objects/??/*")}


def warnings(store: Store) -> list[str]:
    return [event["message"] for event in store.session.events() if event["event"] == "warning"]


def present(store: Store) -> UnfinishedRound:
    partial = store.unfinished_round()
    assert partial is not None
    return partial


def test_finished_clients_survive_a_stop_within_a_round(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    with Store.open(folder, retention=KEEP_ALL) as store:
        states = save_unfinished_round(store, 3, clients=2)
    assert verify(folder) == []
    assert SessionReader(folder).unfinished_round() == UnfinishedRound(3, {"clients": 2}, states)

    with Store.open(folder, retention=KEEP_ALL) as store:
        partial = present(store)
        assert (partial.round, partial.note, partial.states) == (3, {"clients": 2}, states)
        expected = {name: TensorSpec.of(tensor) for name, tensor in weights(0).items()}
        assert server_value(store.load_unfinished(partial, "client/1/state", expected)) == 301
        assert server_value(store.load_unfinished(partial, "client/1/uplink")) == -301


def test_the_commit_of_the_round_takes_what_it_needs_and_removes_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        commit(store, 1)
        states = save_unfinished_round(store, 2)

    with Store.open(folder) as store:
        kept = present(store).states["client/0/state"]
        store.commit(2, {"server": store.put(weights(2)), "client/0": kept}, record(2), [], [])
        assert store.unfinished_round() is None

    assert list((folder / "partial").iterdir()) == []
    assert states["client/0/state"].name in objects(folder)
    assert states["client/0/uplink"].name not in objects(folder)
    assert verify(folder) == []


def test_saving_again_replaces_what_was_saved_of_the_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        save_unfinished_round(store, 1, clients=1)
        first = objects(folder)
        both = save_unfinished_round(store, 1, clients=2)
        assert present(store).states == both
        assert objects(folder) == {ref.name for ref in both.values()} > first
        alone = {"client/1/state": both["client/1/state"]}
        store.save_unfinished_round(1, {}, alone)
        assert objects(folder) == {ref.name for ref in alone.values()}


def test_neither_retention_nor_pruning_takes_an_object_an_unfinished_round_needs(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}, KEEP_ALL) as store:
        commit(store, 1)
        server = store.session.manifest(1).states["server"]
        commit(store, 2)
        store.save_unfinished_round(3, {}, {"server/state": server})

    plan = prune(folder, Retention(last=1), dry_run=True)
    assert prune(folder, Retention(last=1)) == plan
    assert server.name in objects(folder)
    with Store.open(folder) as store:
        assert server_value(store.load_unfinished(present(store), "server/state")) == 1
        # Round 1 went, round 3 does not name it: now nothing does.
        commit(store, 3)
    assert server.name not in objects(folder)
    assert verify(folder) == []


def test_an_unfinished_round_counts_only_after_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        commit(store, 1)
        store.append(record(2))
        states = save_unfinished_round(store, 3)
        assert present(store).round == 3
    assert SessionReader(folder).unfinished_round() is None

    with Store.open(folder) as store:
        # Round 2 had no checkpoint, so it is run again, and round 3 after it.
        assert store.unfinished_round() is None
        assert "the finished clients of round 3 are computed again" in warnings(store)[-1]
    assert not objects(folder) & {ref.name for ref in states.values()}
    assert verify(folder) == []


def test_what_a_finished_round_left_is_removed_without_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        save_unfinished_round(store, 1)
        file = folder / "partial" / "000001.json"
        data = file.read_bytes()
        commit(store, 1)
    file.write_bytes(data)  # as if the power had failed before its removal was durable

    with Store.open(folder) as store:
        assert store.unfinished_round() is None
        assert warnings(store) == []
    assert not file.exists()


def test_a_damaged_unfinished_round_is_computed_again(tmp_path: Path) -> None:
    for number, part in enumerate(["file", "object"]):
        folder = make(tmp_path / str(number), rounds=1)
        with Store.open(folder) as store:
            states = save_unfinished_round(store, 2)
        path = folder / ("partial/000002.json" if part == "file" else states["client/0/state"].name)
        path.write_bytes(path.read_bytes()[:-1] + b"!")

        with Store.open(folder) as store:
            assert store.unfinished_round() is None
            (warning,) = warnings(store)
            assert "is damaged" in warning
            assert warning.endswith("the finished clients of round 2 are computed again.")
            commit(store, 2)
        assert verify(folder) == []


def test_damage_after_the_opening_is_named_with_round_and_client(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        states = save_unfinished_round(store, 1)
        (tmp_path / "s" / states["client/0/uplink"].name).unlink()

        with pytest.raises(Damaged, match=r"unfinished round 1, client/0/uplink: .* is missing"):
            store.load_unfinished(present(store), "client/0/uplink")
        with pytest.raises(SessionUnreadable, match="holds no client/9/state"):
            store.load_unfinished(present(store), "client/9/state")
        with pytest.raises(Damaged, match="'other' is missing"):
            store.load_unfinished(present(store), "client/0/state", {"other": TensorSpec((1,), "float32")})


def test_only_the_next_round_is_unfinished_and_only_known_objects_belong_to_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "other", {}) as other:
        foreign = other.put(weights(9))
    with Store.create(tmp_path / "s", {}) as store:
        commit(store, 4)
        known = {"client/0/state": store.put(weights(1))}
        for round in (0, 4, 6):
            with pytest.raises(ValueError, match=f"round {round} is not the one after round 4"):
                store.save_unfinished_round(round, {}, known)
        with pytest.raises(ValueError, match="not put into this session"):
            store.save_unfinished_round(5, {}, {"client/0/state": foreign})
        for name in ("client/0", "client/0/../x", "client/0/state/x", "client/0/"):
            with pytest.raises(ValueError, match="not the name of a state"):
                store.save_unfinished_round(5, {}, {name: known["client/0/state"]})
        with pytest.raises(ValueError, match="JSON"):
            store.save_unfinished_round(5, {"loss": float("nan")}, known)
        store.save_unfinished_round(5, {}, known)
