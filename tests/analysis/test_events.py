"""Where in a run something changed, and what that did, worked out by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.results.analysis.events import (
    Effect,
    Milestone,
    Switch,
    Window,
    effects,
    milestones,
    read_effects,
    switches,
)
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.analysis.runs import record, time


def run_of(events: Sequence[Any], kept: tuple[int, ...]) -> SessionData:
    config = {"method": {"name": "fedlora"}, "checkpoint": {"keep_last": 3}}
    return SessionData(Path("x"), config=config, events=tuple(events), checkpoints=kept)


def test_milestones_are_switches_forks_after_the_beginning_and_checkpoints_that_outlast_the_newest() -> None:
    switch = {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"}
    settings = {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"}
    fork, of_beginning = ({"event": "forked", "round": at, "name": "p", "method": "fd"} for at in (4, 0))
    changes = [Milestone(4.5, "fork"), Milestone(12.5, "switch", "fedssa"), Milestone(15.5, "switch", None)]
    for events, kept, expected in (
        ([switch, settings, fork], (), changes),
        ([of_beginning], (0, 10, 20, 38, 39, 40), [Milestone(10, "checkpoint"), Milestone(20, "checkpoint")]),
        ([], tuple(range(10, 160, 10)), []),  # by the dozen they are a routine
    ):
        assert milestones(run_of(events, kept)) == expected


def test_the_switches_are_those_of_the_history_and_its_first_entry_is_none() -> None:
    run = SessionData(Path("x"), history=(entry(1, "fedlora"), entry(5, "fd", "fedlora")))  # type: ignore[arg-type]
    assert switches(run) == [Switch(5, "fd", "fedlora", ("method fedlora → fd",), None)]


approx = pytest.approx


def entry(from_round: int, method: str, before: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"from_round": from_round, "method": {"name": method}}
    if before is not None:
        made |= {"before": before, "changes": [f"method {before} → {method}"], "adopted": None}
    return made


def run(
    name: str,
    means: Sequence[float | None],
    history: Sequence[dict[str, Any]] = (),
    bytes: Sequence[int] = (),
    seconds: Sequence[float] = (),
    parent: tuple[str, int] | None = None,
    events: Sequence[dict[str, Any]] = (),
    clock: Sequence[float] = (),
) -> SessionData:
    """A session with these accuracies, and with these bytes up and seconds in each round. Downlinks are empty."""
    records, total = [], 0
    for number, mean in enumerate(means, 1):
        made = record(number, mean)
        total += bytes[number - 1] if bytes else 100
        made["bytes"] |= {"up_total": total, "down_total": 0}
        made["timing"] |= {"seconds": seconds[number - 1] if seconds else 2.0}
        if clock:
            made["time"] = time(clock[number - 1] - 1, clock[number - 1])
        records.append(made)
    about = {"id": f"id-{parent[0]}", "name": parent[0], "round": parent[1]} if parent else None
    document: Any = {"id": f"id-{name}", "parent": about}
    before: Any = tuple(history) or (entry(1, "fedlora"),)
    told: Any = tuple(events)
    return SessionData(Path(name), document=document, history=before, events=told, ledger=Ledger.of(records))


SWITCHED = (entry(1, "fedlora"), entry(4, "fedssa", "fedlora"))


def test_a_switch_by_hand() -> None:
    made = run("s", [0.1, 0.2, 0.6, 0.5, 0.7], SWITCHED, bytes=[10, 20, 30, 6, 8], seconds=[1, 2, 3, 4, 6],
               clock=[2, 5, 6, 7, 10])  # fmt: skip
    [found] = effects(made)
    assert (found.round, found.kind, found.changes) == (3, "switch", ("method fedlora → fedssa",))
    # Rounds 1 to 3: (0.1 + 0.2 + 0.6) / 3; from 0.1 to 0.6 in two steps; 60 / 3 bytes; 6 / 3 s, also on the clock.
    assert found.before == Window("s", "fedlora", 1, 3, approx(0.3), approx(0.25), 20, 2, approx(2))
    assert found.after == Window("s", "fedssa", 4, 5, approx(0.6), approx(0.2), 7, 5, approx(2))
    assert found.before is not None and found.before.rounds == 3
    assert found.beside is None and found.parent is None


def test_a_window_has_at_most_ten_rounds_and_ends_at_the_next_change_and_the_newest_comes_first() -> None:
    def windows(of: Effect) -> list[tuple[int, int, str]]:
        return [(each.first, each.last, each.method) for each in (of.before, of.after) if each]

    [found] = effects(run("s", [0.5] * 40, (entry(1, "fedlora"), entry(16, "fedssa", "fedlora"))))
    assert windows(found) == [(6, 15, "fedlora"), (16, 25, "fedssa")]
    newest, oldest = effects(run("s", [0.5] * 9, (*SWITCHED, entry(6, "fedgh", "fedssa"))))
    assert (newest.round, oldest.round) == (5, 3)
    assert windows(oldest) == [(1, 3, "fedlora"), (4, 5, "fedssa")]
    assert windows(newest) == [(4, 5, "fedssa"), (6, 9, "fedgh")]


def test_a_switch_that_no_checkpoint_has_yet_counts() -> None:
    changes = ["method a → b"]
    event = {"event": "switched", "round": 2, "method": "fedgh", "before": "fedlora", "changes": changes}
    [found] = effects(run("s", [0.1, 0.2, 0.3], events=[event]))
    assert (found.round, found.changes) == (2, ("method a → b",))
    assert found.after is not None and found.after.method == "fedgh"
    [again] = effects(run("s", [0.1, 0.2], (entry(1, "a"), entry(3, "b", "a")), events=[event]))
    assert again.changes == ("method a → b",) and again.after is None  # no round yet


def test_a_round_without_an_evaluation_is_in_no_mean_of_accuracy() -> None:
    [found] = effects(run("s", [0.1, None, 0.5, None, None], SWITCHED))
    before, after = found.before, found.after
    assert before is not None and (before.accuracy, before.change) == (approx(0.3), approx(0.2))
    assert after is not None and (after.accuracy, after.change) == (None, None)


FORKED = {"event": "forked", "round": 2, "method": "fedssa", "changes": ["method fedlora → fedssa"]}


def test_a_fork_has_its_parents_same_rounds_beside() -> None:
    parent = run("parent", [0.1, 0.2, 0.3, 0.4, 0.5])
    history = (entry(1, "fedlora"), entry(3, "fedssa", "fedlora"))
    fork = run("fork", [0.1, 0.2, 0.6, 0.8], history, parent=("parent", 2), events=[FORKED])
    [found] = effects(fork, parent)
    assert (found.kind, found.parent, found.changes) == ("fork", "parent", ("method fedlora → fedssa",))
    assert found.before is not None and found.before.accuracy == approx(0.15)
    assert found.after is not None and found.after.accuracy == approx(0.7)
    # Rounds 3 and 4 of the parent: the fork has no more.
    assert found.beside is not None
    assert (found.beside.session, found.beside.method, found.beside.last) == ("parent", "fedlora", 4)
    assert found.beside.accuracy == approx(0.35)


def test_the_parents_rounds_end_where_it_changed_itself() -> None:
    parent = run("parent", [0.1] * 6, (entry(1, "fedlora"), entry(5, "fedgh", "fedlora")))
    [found] = effects(run("fork", [0.1] * 6, parent=("parent", 2)), parent)
    assert found.beside is not None and (found.beside.first, found.beside.last) == (3, 4)
    assert found.changes == ()


def test_a_fork_of_the_beginning_and_one_whose_parent_stopped_there() -> None:
    [whole] = effects(run("fork", [0.4, 0.5], parent=("parent", 0)), run("parent", [0.1, 0.3]))
    assert whole.before is None
    assert whole.beside is not None and whole.beside.accuracy == approx(0.2)
    assert effects(run("s", [0.1, 0.2])) == []
    [last] = effects(run("fork", [0.4, 0.5], parent=("parent", 1)), run("parent", [0.4]))
    assert last.beside is None and last.parent == "parent"


def test_the_parent_is_found_by_its_name_and_also_when_it_was_renamed(tmp_path: Path) -> None:
    parent = sessions.make(tmp_path / "parent", rounds=6, clients=2)
    id = str(checkpoints.SessionReader(parent).document["id"])
    fork = sessions.make(tmp_path / "fork", rounds=4, clients=2, method="fedssa", parent=(parent, id, 2))

    def beside() -> str | None:
        [found] = read_effects(read(fork))
        assert isinstance(found, Effect)
        return found.beside and found.beside.session

    assert beside() == "parent"
    parent.rename(tmp_path / "renamed")
    assert beside() == "renamed"
    (tmp_path / "renamed" / "session.json").unlink()
    assert beside() is None
