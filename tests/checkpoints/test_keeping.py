"""What is kept: checkpoints by the policy, finished clients of an unfinished round, and a ledger that was torn."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    warnings,
    weights,
)

BEST = "accuracy.mean"


def objects(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("objects/??/*")}


def kept_by(policy: Retention, scores: list[float | None]) -> list[int]:
    """The policy in the words of its documentation, over rounds 1, 2, … with these scores."""
    rounds = range(1, len(scores) + 1)
    keep = set(rounds[-policy.last :]) | {round for round in rounds if round in policy.pinned}
    keep |= {round for round in rounds if policy.every and round % policy.every == 0}
    best = max((score for score in scores if score is not None), default=None)
    if policy.best and best is not None:
        keep.add(scores.index(best) + 1)
    return sorted(keep)


policies = st.builds(
    Retention,
    last=st.integers(1, 3),
    every=st.none() | st.integers(1, 4),
    best=st.none() | st.just(BEST),
    pinned=st.frozensets(st.integers(1, 8), max_size=2),
)
quiet = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.long
@quiet
@given(
    policy=policies,
    rounds=st.lists(st.tuples(st.none() | st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 2)), max_size=8),
    reopened=st.sets(st.integers(1, 8)),
)
def test_the_checkpoints_kept_are_the_policys_and_the_objects_are_theirs(
    tmp_path_factory: pytest.TempPathFactory,
    policy: Retention,
    rounds: list[tuple[float | None, int]],
    reopened: set[int],
) -> None:
    folder = tmp_path_factory.mktemp("kept") / "s"
    store = Store.create(folder, {}, policy)
    for round, (score, server) in enumerate(rounds, start=1):
        if round in reopened:
            store.close()
            store = Store.open(folder, retention=policy)
        commit(store, round, server=server, score=score)
    store.close()

    session = SessionReader(folder)
    assert session.rounds() == kept_by(policy, [score for score, _ in rounds])
    needed = {ref.name for round in session.rounds() for ref in session.manifest(round).states.values()}
    assert objects(folder) == needed
    assert len(session.records()) == len(rounds)


def test_an_object_put_for_the_next_commit_survives_the_retirement_of_its_last_user(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, Retention(last=1)) as store:
        commit(store, 1, server=7)
        back_again = store.put(weights(7))
        commit(store, 2, server=8)
        store.commit(3, {"server": back_again}, record(3), [], [])
    assert verify(tmp_path / "s") == []


def test_what_was_put_and_never_committed_is_swept_when_opened(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        commit(store, 1)
        orphan = store.put(weights(99))
    (tmp_path / "s" / "tmp" / "leftover").write_bytes(b"x")
    assert sorted(finding.path for finding in verify(tmp_path / "s")) == [orphan.name, "tmp/leftover"]

    Store.open(tmp_path / "s").close()

    assert verify(tmp_path / "s") == []


@pytest.mark.long
@quiet
@given(policy=policies, scores=st.lists(st.none() | st.sampled_from([0.1, 0.5, 0.9]), min_size=1, max_size=6))
def test_pruning_does_what_its_dry_run_said(
    tmp_path_factory: pytest.TempPathFactory, policy: Retention, scores: list[float | None]
) -> None:
    folder = tmp_path_factory.mktemp("prune") / "s"
    with Store.create(folder, {}, KEEP_ALL) as store:
        for round, score in enumerate(scores, start=1):
            commit(store, round, score=score)
    before = sum(path.stat().st_size for path in folder.glob("objects/??/*"))

    plan = prune(folder, policy, dry_run=True)
    assert sum(path.stat().st_size for path in folder.glob("objects/??/*")) == before
    done = prune(folder, policy)

    assert done == plan
    assert SessionReader(folder).rounds() == kept_by(policy, scores)
    assert sum(path.stat().st_size for path in folder.glob("objects/??/*")) == before - done.bytes
    assert verify(folder) == []


def test_a_policy_that_keeps_nothing_is_refused() -> None:
    for wrong in ({"last": 0}, {"every": 0}):
        with pytest.raises(ValueError, match="at least the last"):
            Retention(**wrong)


# Unfinished rounds


def present(store: Store) -> UnfinishedRound:
    partial = store.unfinished_round()
    assert partial is not None
    return partial


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


@pytest.mark.parametrize("part", ["file", "object"])
def test_a_damaged_unfinished_round_is_computed_again(tmp_path: Path, part: str) -> None:
    folder = make(tmp_path / "s", rounds=1)
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


# A ledger that was torn, cut, or lost


def assert_whole_again(folder: Path, rounds: int) -> None:
    expected = [record(round) for round in range(1, rounds + 1)]
    assert SessionReader(folder).records() == expected
    with Store.open(folder, retention=KEEP_ALL) as store:
        assert store.session.records() == expected
        assert "ledger.jsonl" in store.session.events()[-1]["message"]
    assert verify(folder) == []


def test_a_missing_ledger_is_damage_and_is_rebuilt(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    (folder / "ledger.jsonl").unlink()
    assert "ledger.jsonl is missing." in [
        each.message for each in verify(folder) if each.severity == "damage"
    ]
    assert_whole_again(folder, rounds=2)


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_ledger_cut_anywhere_is_rebuilt_when_all_checkpoints_are_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = make(tmp_path_factory.mktemp("ledger") / "s", rounds=3)
    raw = (folder / "ledger.jsonl").read_bytes()
    cut = data.draw(st.integers(0, len(raw) - 1))
    (folder / "ledger.jsonl").write_bytes(raw[:cut])

    assert_whole_again(folder, rounds=3)


def test_a_line_that_was_made_longer_is_rebuilt_with_one_warning(tmp_path: Path) -> None:
    """The rebuilt ledger is shorter, and the bytes beyond its length are no line of their own."""
    folder = make(tmp_path / "s", rounds=3)
    raw = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(raw.replace(b"0.25", b"0.2500", 1))
    with Store.open(folder) as store:
        assert store.take_warnings() == [
            "ledger.jsonl was torn or altered; it was rebuilt from the checkpoints."
        ]
    assert (folder / "ledger.jsonl").read_bytes() == raw


def test_an_altered_line_whose_checkpoint_is_gone_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=3, retention=Retention(last=1))
    raw = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(raw.replace(b"0.25", b"0.26", 1))

    for use in (Store.open, lambda path: SessionReader(path).records()):
        with pytest.raises(Damaged, match="is damaged before round 3"):
            use(folder)


def test_a_torn_event_line_is_cut_off_and_said(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"at":"20')

    assert [event["event"] for event in SessionReader(folder).events()] == ["started"]
    with Store.open(folder) as store:
        commit(store, 2)
    assert [event["event"] for event in SessionReader(folder).events()] == ["started", "warning"]
    assert verify(folder) == []


def test_a_round_gets_its_checkpoint_after_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}, KEEP_ALL) as store:
        for round in (1, 2, 3):
            store.append(record(round))
        commit(store, 3)
        commit(store, 4)

    session = SessionReader(folder)
    assert session.records() == [record(round) for round in (1, 2, 3, 4)]
    assert session.rounds() == [3, 4]
    # Two lines come before round 3's.
    line = len((folder / "ledger.jsonl").read_bytes()) // 4
    assert session.manifest(3).ledger.bytes == 2 * line
    with Store.open(folder) as store:
        assert store.round == 4
        assert server_value(store.session.load(3, "server")) == 3
    assert verify(folder) == []


def test_the_late_checkpoint_brings_the_record_that_was_appended(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(record(1))
        with pytest.raises(ValueError, match="record of round 1 is not the one in the ledger"):
            store.commit(1, {"server": store.put(weights(1))}, record(1, score=0.9), [], [])
        commit(store, 1)
        with pytest.raises(ValueError, match="round 1 comes after round 1"):
            commit(store, 1)
    assert SessionReader(tmp_path / "s").records() == [record(1)]
