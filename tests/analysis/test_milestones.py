"""Where in a run something changed."""

from pathlib import Path

from simulator.results.analysis.events import Milestone, Switch, milestones, switches
from simulator.results.analysis.run import SessionData


def run_of(events: list[dict[str, object]], kept: tuple[int, ...] = (), keep_last: int = 3) -> SessionData:
    config = {"method": {"name": "fedlora"}, "checkpoint": {"keep_last": keep_last}}
    return SessionData(Path("x"), config=config, events=tuple(events), checkpoints=kept)


def test_a_switch_lies_between_the_rounds_and_names_the_method() -> None:
    switch = {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"}
    settings = {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"}
    fork = {"event": "forked", "round": 4, "name": "parent", "method": "fedlora"}
    assert milestones(run_of([switch, settings, fork])) == [
        Milestone(4.5, "fork"),
        Milestone(12.5, "switch", "fedssa"),
        Milestone(15.5, "switch", None),
    ]


def test_only_checkpoints_that_outlast_the_newest_count() -> None:
    found = milestones(run_of([], kept=(0, 10, 20, 38, 39, 40)))
    assert found == [Milestone(10, "checkpoint"), Milestone(20, "checkpoint")]


def test_checkpoints_by_the_dozen_do_not_count() -> None:
    assert milestones(run_of([], kept=tuple(range(10, 160, 10)))) == []


def test_a_fork_at_the_beginning_does_not_count() -> None:
    assert milestones(run_of([{"event": "forked", "round": 0, "name": "p", "method": "fd"}])) == []


def test_the_switches_are_those_of_the_history_and_its_first_entry_is_none() -> None:
    began = {"from_round": 1, "method": {"name": "fedlora"}}
    switched = {
        "from_round": 5,
        "method": {"name": "fd"},
        "before": "fedlora",
        "changes": ["method fedlora → fd"],
        "adopted": None,
    }
    run = SessionData(Path("x"), history=(began, switched))
    assert switches(run) == [Switch(5, "fd", "fedlora", ("method fedlora → fd",), None)]
