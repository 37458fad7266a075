"""Switching a live session's method or settings: in the next round, after a later one, or not at all."""

from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from simulator.config import Config
from simulator.engine.progress import (
    ClientTrained,
    Event,
    RoundStarted,
    Switch,
)
from simulator.sessions.session import RunOutcome, Session
from tests import federations
from tests.operators import Operator, alone, config, finished, kinds, trained

pytestmark = pytest.mark.usefixtures("generated_images")


@pytest.mark.long
def test_a_switch_takes_hold_in_the_next_round_and_is_answered_with_its_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(2, 1), "switch", {"method": "fedssa", "set": ["training.lr=0.05"]}))
    Session.create(config(), folder, tmp_path).run(operator)
    reader = checkpoints.SessionReader(folder)
    assert [record["method"] for record in reader.records()] == ["lg_fedavg"] * 2 + ["fedssa"] * 2
    assert operator.answers() == [("switch", "applied", 3)]
    (event,) = [event for event in reader.events() if event["event"] == "switched"]
    assert (event["round"], event["before"], event["method"]) == (2, "lg_fedavg", "fedssa")
    assert (event["changes"], event["adopted"]) == (
        ["method lg_fedavg → fedssa", "training.lr 0.1 → 0.05"],
        "takes over head",
    )
    history = reader.manifest().history
    assert [(entry["from_round"], entry["method"]["name"]) for entry in history] == [
        (1, "lg_fedavg"),
        (3, "fedssa"),
    ]
    assert reader.manifest(3).applied == [operator.posted[0].id]
    assert any(isinstance(event, Switch) and event.from_round == 3 for event in operator.seen)


@pytest.mark.long
def test_switches_killed_and_resumed_give_the_run_left_alone(tmp_path: Path) -> None:
    """A kill once the switch's boundary is reached: it waits in the mailbox until a checkpoint says it is in force."""

    class Killed(BaseException):
        pass

    switch = ("switch", {"method": "fedssa", "set": []})
    undisturbed = tmp_path / "undisturbed"
    Session.create(config(), undisturbed, tmp_path).run(Operator(undisturbed, (trained(2, 1), *switch)))

    for number, moment in enumerate([finished(2), trained(3, 1), trained(3, 3), finished(3), trained(4, 1)]):
        folder = tmp_path / f"killed {number}"
        operator = Operator(folder, (trained(2, 1), *switch))

        def kill(event: Event, operator: Operator = operator, moment: Any = moment) -> None:
            operator(event)
            if moment(event):
                raise Killed

        session = Session.create(config(), folder, tmp_path)
        with pytest.raises(Killed):
            session.run(kill)
        session.close()
        Session.resume(folder, tmp_path).run()
        assert federations.committed(folder) == federations.committed(undisturbed)
        assert list((folder / "control" / "inbox").iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"method": "nosuch"}, "nosuch"),
        ({"method": "fedavg", "set": ["method.nosuch=1"]}, "unknown key"),
        ({"method": None, "set": ["data.alpha=0.1"]}, "cannot change within a run"),
        ({"method": "lg_fedavg", "set": []}, "nothing would change"),
        ({"method": None, "set": ["rounds=1"]}, "no round is left for it: round 2 is done, or under way"),
        ({"method": "heteroavg"}, "needs nested architectures"),
    ],
    ids=["unknown", "key", "data", "nothing", "rounds", "needs"],
)
def test_a_switch_that_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, arguments: dict[str, Any], why: str
) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(2, 1), "switch", arguments))
    Session.create(config(), folder, tmp_path).run(operator)
    assert operator.answers() == [("switch", "refused", None)]
    answer = checkpoints.answer(folder, operator.posted[0].id)
    assert answer is not None
    assert why in answer.message
    assert len(checkpoints.SessionReader(folder).manifest().history) == 1
    assert federations.committed(folder) == alone(tmp_path, config())


@pytest.mark.long
def test_a_stop_within_the_first_round_after_a_switch_keeps_its_clients(tmp_path: Path) -> None:
    switch = ("switch", {"method": "fedssa", "set": []})
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "s"
    Session.create(config(), undisturbed, tmp_path).run(Operator(undisturbed, (finished(1), *switch)))
    operator = Operator(folder, (finished(1), *switch), (trained(2, 1), "stop", {}))
    Session.create(config(), folder, tmp_path).run(operator)
    resumed: list[Event] = []
    Session.resume(folder, tmp_path).run(resumed.append)
    assert sum(isinstance(event, ClientTrained) and event.round == 2 for event in resumed) < 3
    assert federations.committed(folder) == federations.committed(undisturbed)


@pytest.mark.long
def test_a_finished_session_is_extended_by_more_rounds(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Session.create(config(), folder, tmp_path).run()
    checkpoints.post(folder, "switch", {"method": None, "set": ["rounds=6"]})
    session = Session.resume(folder, tmp_path)
    assert not session.finished
    assert session.run() == RunOutcome("finished", 6)
    longer = Session.create(Config.read(config().to_json() | {"rounds": 6}), tmp_path / "longer", tmp_path)
    longer.run()
    assert federations.committed(folder) == federations.committed(tmp_path / "longer")


@pytest.mark.long
def test_the_observer_hears_the_rounds_of_a_new_total(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (finished(1), "switch", {"method": None, "set": ["rounds=5"]}))
    Session.create(config(), folder, tmp_path).run(operator)
    totals = [event.rounds for event in operator.seen if isinstance(event, RoundStarted)]
    assert totals == [4, 5, 5, 5, 5]


@pytest.mark.long
def test_a_switch_asked_for_in_the_last_round_is_refused_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(4, 1), "switch", {"method": "fedssa", "set": []}))
    Session.create(config(), folder, tmp_path).run(operator)
    assert operator.answers() == [("switch", "refused", None)]
    answer = checkpoints.answer(folder, operator.posted[0].id)
    assert answer is not None and "no round is left for it" in answer.message
    assert not any(isinstance(event, Switch) for event in operator.seen)
    assert kinds(folder) == ["started", "refused", "stopped"]
    assert federations.committed(folder) == alone(tmp_path, config())


@pytest.mark.long
def test_a_switch_asked_for_in_the_last_round_that_brings_more_rounds_takes_hold(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(4, 1), "switch", {"method": "fedssa", "set": ["rounds=6"]}))
    assert Session.create(config(), folder, tmp_path).run(operator) == RunOutcome("finished", 6)
    assert operator.answers() == [("switch", "applied", 5)]
    methods = [record["method"] for record in checkpoints.SessionReader(folder).records()]
    assert methods == ["lg_fedavg"] * 4 + ["fedssa"] * 2


@pytest.mark.long
def test_a_switch_that_came_too_late_to_be_read_waits_until_the_run_is_extended(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Session.create(config(), folder, tmp_path).run()
    late = checkpoints.post(folder, "switch", {"method": "fedssa", "set": []})
    with Session.resume(folder, tmp_path) as session:
        assert session.finished
        assert session.run() == RunOutcome("finished", 4)
    assert checkpoints.pending(folder) == [late]

    checkpoints.post(folder, "switch", {"method": None, "set": ["rounds=6"]})
    assert Session.resume(folder, tmp_path).run() == RunOutcome("finished", 6)
    methods = [record["method"] for record in checkpoints.SessionReader(folder).records()]
    assert methods == ["lg_fedavg"] * 4 + ["fedssa"] * 2
    answer = checkpoints.answer(folder, late.id)
    assert answer is not None and (answer.outcome, answer.round) == ("applied", 5)
    assert checkpoints.verify(folder) == []


# A switch for a later round


def later(at_round: object, method: str = "fedssa", *settings: str) -> dict[str, Any]:
    return {"method": method, "set": list(settings), "at_round": at_round}


def switches(folder: Path) -> list[tuple[int, str]]:
    history = checkpoints.SessionReader(folder).manifest().history
    return [(entry["from_round"], entry["method"]["name"]) for entry in history]


@pytest.fixture
def switched_after_2(tmp_path: Path) -> Any:
    """What a switch to FedSSA that arrives in round 2 leaves."""
    folder = tmp_path / "in round 2"
    operator = Operator(folder, (trained(2, 1), "switch", {"method": "fedssa", "set": []}))
    Session.create(config(), folder, tmp_path).run(operator)
    return federations.committed(folder)


@pytest.mark.long
def test_a_switch_for_a_later_round_takes_hold_after_it(tmp_path: Path, switched_after_2: Any) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(1, 1), "switch", later(2)))
    Session.create(config(), folder, tmp_path).run(operator)
    assert switches(folder) == [(1, "lg_fedavg"), (3, "fedssa")]
    assert operator.answers() == [("switch", "applied", 3)]
    assert federations.committed(folder) == switched_after_2
    (event,) = [e for e in checkpoints.SessionReader(folder).events() if e["event"] == "scheduled"]
    assert (event["at_round"], event["command"]) == (2, operator.posted[0].id)


def test_it_is_pending_until_its_round_also_through_a_stop(tmp_path: Path, switched_after_2: Any) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(1, 1), "switch", later(2)), (trained(1, 2), "stop", {}))
    Session.create(config(), folder, tmp_path).run(operator)
    assert [command.arguments["at_round"] for command in checkpoints.pending(folder)] == [2]
    Session.resume(folder, tmp_path).run()
    assert checkpoints.pending(folder) == []
    assert federations.committed(folder) == switched_after_2


def test_a_fork_after_it_replays_it_to_the_same_bits(tmp_path: Path) -> None:
    folder, child = tmp_path / "s", tmp_path / "child"
    settings = config(checkpoint={"every": 4, "keep_last": 1})
    Session.create(settings, folder, tmp_path).run(Operator(folder, (trained(1, 1), "switch", later(2))))
    for kept in (folder / "manifests").glob("00000[23].json"):
        kept.unlink()
    simulator.fork(folder, child, tmp_path, 3)
    Session.resume(child, tmp_path).run()
    assert switches(child) == [(1, "lg_fedavg"), (3, "fedssa")]
    (records, states), (now, then) = federations.committed(folder), federations.committed(child)
    assert (now, then) == (records, states)


def test_an_earlier_switch_that_comes_later_does_not_get_lost(tmp_path: Path) -> None:
    """One for round 3 was asked for first; the one that arrives in round 1 stays in force beside it."""
    folder = tmp_path / "s"
    now = {"method": "lg_fedavg", "set": ["training.lr=0.02"]}
    operator = Operator(folder, (trained(1, 1), "switch", later(3)), (trained(1, 2), "switch", now))
    Session.create(config(), folder, tmp_path).run(operator)
    assert switches(folder) == [(1, "lg_fedavg"), (2, "lg_fedavg"), (4, "fedssa")]
    last = checkpoints.SessionReader(folder).manifest().history[-1]
    assert last["settings"]["training"]["lr"] == 0.02


def test_a_switch_that_an_earlier_one_makes_impossible_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    shorter = {"method": None, "set": ["rounds=2"]}
    operator = Operator(folder, (trained(1, 1), "switch", later(3)), (trained(1, 2), "switch", shorter))
    assert Session.create(config(), folder, tmp_path).run(operator) == RunOutcome("finished", 2)
    answer = checkpoints.answer(folder, operator.posted[0].id)
    assert answer is not None and answer.message == "the run ends with round 2, before round 3."


@pytest.mark.parametrize(
    ("at_round", "why"),
    [
        (1, "round 1 is over: round 2 is done, or under way"),
        (4, "no round is left for it: round 4"),
        (9, "the run ends with round 4, before round 9"),
        (-1, "a switch happens at the end of a round"),
        ("2", "a switch happens at the end of a round"),
        (True, "a switch happens at the end of a round"),
    ],
)
def test_a_round_that_cannot_be_is_refused(tmp_path: Path, at_round: object, why: str) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(2, 1), "switch", later(at_round)))
    Session.create(config(), folder, tmp_path).run(operator)
    answer = checkpoints.answer(folder, operator.posted[0].id)
    assert answer is not None and answer.outcome == "refused" and why in answer.message


def test_an_extension_may_be_asked_for_at_the_last_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(1, 1), "switch", later(4, "fedssa", "rounds=6")))
    assert Session.create(config(), folder, tmp_path).run(operator) == RunOutcome("finished", 6)
    assert switches(folder) == [(1, "lg_fedavg"), (5, "fedssa")]
