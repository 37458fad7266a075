"""Sessions as a tree."""

from pathlib import Path

import checkpoints
from simulator.results.analysis.overview import Branch, Summary, forks_of, origins, read_overview, tree
from tests import sessions


def session(name: str, created: int, parent: str | None = None) -> Summary:
    about = {"id": f"id-{parent}", "name": parent, "round": 3} if parent else None
    return Summary(name, f"/s/{name}", "finished", id=f"id-{name}", parent=about, created=str(created))


def places(*sessions: Summary) -> list[tuple[str, tuple[bool, ...], bool]]:
    return [(branch.summary.name, branch.last, branch.orphan) for branch in tree(sessions)]


def test_forks_follow_their_parent_oldest_first_and_know_which_is_the_last() -> None:
    found = places(
        session("grandchild", 5, "child"),
        session("other", 2),
        session("second", 6, "root"),
        session("child", 4, "root"),
        session("root", 1),
    )
    assert found == [
        ("root", (), False),
        ("child", (False,), False),
        ("grandchild", (False, True), False),
        ("second", (True,), False),
        ("other", (), False),
    ]


def test_a_fork_whose_parent_is_not_there_is_a_root_of_its_own() -> None:
    assert places(session("child", 1, "gone")) == [("child", (), True)]


def test_sessions_that_claim_to_descend_from_one_another_are_listed_once_each() -> None:
    assert sorted(name for name, _, _ in places(session("a", 1, "b"), session("b", 2, "a"))) == ["a", "b"]


def test_a_copied_session_does_not_get_its_originals_forks_again() -> None:
    copy = Summary("copy", "/s/copy", "finished", id="id-root", created="2")
    found = [branch.summary.name for branch in tree([session("root", 1), copy, session("child", 3, "root")])]
    assert sorted(found) == ["child", "copy", "root"]


def test_a_damaged_session_of_which_nothing_is_known_is_a_root() -> None:
    damaged = Summary("hurt", "/s/hurt", "damaged", error="…")
    assert tree([damaged]) == [Branch(damaged)]


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
