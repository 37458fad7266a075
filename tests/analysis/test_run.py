"""A session at one moment: methods, models, rounds, data of clients, names, and its place among forks."""

from dataclasses import replace
from pathlib import Path

import pytest

import checkpoints
from checkpoints import Damaged
from simulator import methods, models
from simulator.results.analysis import feed, static_names
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.overview import Summary, forks_of, origins, read_overview, tree
from simulator.results.analysis.run import Samples, SessionData
from tests import sessions


def test_the_methods_are_those_of_the_ledger_and_the_one_that_is_next(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=6, clients=2, switch=(4, "fedssa")))
    assert run.methods == ((1, "fedlora"), (5, "fedssa"))
    asked = {"event": "switched", "round": 6, "method": "fedgh"}
    assert replace(run, events=(*run.events, asked)).methods[-1] == (7, "fedgh")
    run = read(sessions.make(tmp_path / "new", rounds=0, of=5, clients=2, state="stopped"))
    assert (run.round, run.rounds, run.methods) == (0, 5, ((1, "fedlora"),))


def test_clients_of_whom_the_settings_do_not_say_have_an_unknown_model() -> None:
    ledger = Ledger.of([sessions.record(1, 3)])
    assert SessionData(Path("s"), ledger=ledger).models == ["?", "?", "?"]
    config = {"federation": {"clients": 2, "group": ["cnn1", "mine"]}}
    assert SessionData(Path("s"), config=config, ledger=ledger).models == ["cnn1", "mine", "?"]


def test_records_are_asked_for_by_round() -> None:
    run = SessionData(Path("s"), ledger=Ledger.of([sessions.record(round, 1) for round in (1, 2)]))
    assert [run.record(1), run.record(None)] == [*run.records]
    assert run.record(0) is run.record(3) is None


NOTED = {"classes": ["cat", "dog", "owl"], "train": [[3, 0, 9], [0, 1, 1]], "test": [19, 20]}


def test_a_client_has_its_classes_the_largest_first() -> None:
    samples = Samples.of(SessionData(Path("s"), document={"samples": NOTED}))
    assert samples is not None
    assert samples.largest(0) == [("owl", 9), ("cat", 3)]
    assert samples.largest(1) == [("dog", 1), ("owl", 1)]
    assert [samples.few(client) for client in (0, 1)] == [True, False]


def test_counts_that_do_not_fit_are_damage(tmp_path: Path) -> None:
    for number, (wrong, said) in enumerate((
        ({"test": [19]}, "of other clients than these 2"),
        ({"train": [[1, 2, 3]]}, "of other clients than these 2"),
        ({"train": [[1, 2, 3], [1, 2]]}, "not of 3 classes"),
        ({"train": [[1, 2, -3], [1, 2, 3]]}, "samples.train"),
        ({"test": [True, 3]}, "samples.test"),
        ({"test": [10**30, 3]}, "samples.test"),
    )):  # fmt: skip
        folder = sessions.make(tmp_path / f"s{number}", rounds=1, clients=2, samples=NOTED | wrong)
        with pytest.raises(Damaged, match=said):
            feed.read(folder)


def test_names_read_from_the_source_are_the_registered_ones() -> None:
    assert list(static_names.methods()) == methods.names()
    assert set(static_names.models()) <= set(models.names())
    assert set(static_names.models()) == {name for group in models.GROUPS.values() for name in group}


def test_a_clients_model_is_the_one_the_federation_deals_out() -> None:
    for group in ("htm5", "cnn1", ["cnn2", "tiny_mlp"]):
        dealt = models.assign(tuple(group) if isinstance(group, list) else group, 7)
        assert tuple(static_names.assigned(group, client) for client in range(7)) == dealt


def session(name: str, created: int, parent: str | None = None) -> Summary:
    about = {"id": f"id-{parent}", "name": parent, "round": 3} if parent else None
    return Summary(name, f"/s/{name}", "finished", id=f"id-{name}", parent=about, created=str(created))


def places(*sessions: Summary) -> list[tuple[str, tuple[bool, ...], bool]]:
    return [(branch.summary.name, branch.last, branch.orphan) for branch in tree(sessions)]


def test_forks_follow_their_parent_oldest_first_and_know_which_is_the_last() -> None:
    root, other = session("root", 1), session("other", 2)
    child, second = session("child", 4, "root"), session("second", 6, "root")
    grandchild = session("grandchild", 5, "child")
    assert places(grandchild, other, second, child, root) == [
        ("root", (), False), ("child", (False,), False), ("grandchild", (False, True), False),
        ("second", (True,), False), ("other", (), False),
    ]  # fmt: skip


def test_every_session_is_listed_once_whatever_it_says_of_its_parent() -> None:
    copy = replace(session("copy", 2), id="id-root")
    damaged = Summary("hurt", "/s/hurt", "damaged", error="…")
    assert places(session("child", 1, "gone")) == [("child", (), True)]
    for sessions_of in (
        [session("a", 1, "b"), session("b", 2, "a")],  # of one another
        [session("root", 1), copy, session("child", 3, "root")],
        [damaged],
    ):
        listed = sorted(name for name, _, _ in places(*sessions_of))
        assert listed == sorted(each.name for each in sessions_of)


def test_the_forks_of_a_session_are_those_beside_it_that_can_be_read(tmp_path: Path) -> None:
    parent = sessions.make(tmp_path / "parent", rounds=2, clients=2)
    id = checkpoints.SessionReader(parent).document["id"]
    for name in ("fork", "hurt"):
        sessions.make(tmp_path / name, rounds=2, clients=2, parent=(parent, id, 1))
    sessions.make(tmp_path / "other", rounds=1, clients=2)
    (tmp_path / "hurt" / "session.json").write_bytes(b"{}")
    assert forks_of(parent) == [{"name": "fork", "round": 1}]
    assert forks_of(tmp_path / "fork") == []


def test_a_fork_of_a_fork_shares_the_earlier_rounds_with_the_first_session(tmp_path: Path) -> None:
    base = sessions.make(tmp_path / "base", rounds=4, clients=2)
    id = checkpoints.SessionReader(base).document["id"]
    child = sessions.make(tmp_path / "child", rounds=4, clients=2, parent=(base, id, 2))
    own = checkpoints.SessionReader(child).document["id"]
    grandchild = sessions.make(tmp_path / "grandchild", rounds=4, clients=2, parent=(child, own, 3))
    found = origins(read_overview(grandchild))
    assert sorted(found.values()) == [("base", 2), ("child", 3), ("grandchild", 4)]
