"""What is kept is what the policy says, and objects live exactly as long as a checkpoint needs them."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import Retention, SessionReader, Store, prune, verify
from tests.checkpoints.helpers import KEEP_ALL, commit, record, weights

BEST = "accuracy.mean"


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
    there = {path.relative_to(folder).as_posix() for path in folder.glob("objects/??/*")}
    assert there == needed
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
