"""Switching methods and settings between rounds: what may change and is carried over, and when it takes hold."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import checkpoints
from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.engine.builder import Built, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import ClientTrained, Event, RoundStarted, Switch, unobserved
from simulator.models import GROUPS
from simulator.sessions.history import asked_for, differences, history_entry, settings_in_force
from simulator.sessions.session import RunOutcome, Session
from tests import federations
from tests.operators import Operator, alone, config, finished, kinds, trained

# Switching methods and settings between rounds: what may change, what is carried over, and that training goes on.


def plan(group: str, name: str, **sections: Any) -> Config:
    base = {
        "seed": 3,
        "rounds": 6,
        "method": {"name": name},
        "data": {"public": 0.2},
        "federation": {"clients": 4, "participation": 0.75, "group": group},
        "training": {"batch_size": 32, "lr": 0.05},
        "runtime": {"workers": 1, "device": "cpu"},
    }
    return Config.read(merged(base, sections))


@functools.cache
def parts(group: str) -> Built:
    """Data and models that all methods of a group's tests share."""
    return federations.built(plan(group, "standalone"))


@functools.cache
def begun(group: str, name: str) -> tuple[Built, State]:
    """A method's parts, and the state after its first round."""
    built = rebuild(parts(group), plan(group, name))
    return built, built.engine.round(built.engine.initial_state(), unobserved)


@functools.cache
def runnable(group: str) -> list[str]:
    facts = federations.federation(GROUPS[group], samples=[100] * len(GROUPS[group]))
    return [
        name
        for name in methods.names()
        if methods.get(name)(methods.get(name).Config(name=name), facts).unmet_need() is None
    ]


def pairs(group: str, every: bool) -> Iterator[tuple[str, str]]:
    """Pairs of a group's methods that no group before has: those next to each other in a ring, or all."""
    names = runnable(group)
    for before, after in itertools.permutations(names, 2):
        neighbours = (names.index(before) + 1) % len(names) == names.index(after)
        if (every or neighbours) and (group == "tiny" or not {before, after} <= set(runnable("tiny"))):
            yield before, after


@pytest.mark.long
@pytest.mark.parametrize("group", federations.TINY_GROUPS)
def test_methods_can_be_switched_and_train_on(group: str) -> None:
    for before, after in pairs(group, every=False):
        switch_and_train(group, before, after)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", federations.TINY_GROUPS)
def test_every_pair_of_methods_can_be_switched_and_trains_on(group: str) -> None:
    for before, after in pairs(group, every=True):
        switch_and_train(group, before, after)


def switch_and_train(group: str, before: str, after: str) -> None:
    old, state = begun(group, before)
    new = rebuild(parts(group), plan(group, after))
    taken, said = new.engine.take_over(state, old.method)
    assert said, (before, after)
    assert [models(tensors) for tensors in taken.clients] == [models(tensors) for tensors in state.clients]
    end = new.engine.round(taken, unobserved)
    assert end.record is not None
    assert (end.record["round"], end.record["method"], end.record["diverged"]) == (2, after, [])
    assert end.record["accuracy"]["mean"] is not None
    again = new.engine.round(end, unobserved)  # the state it left is one it can start from
    assert again.round == 3


def models(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return federations.bits({name: tensor for name, tensor in tensors.items() if name.startswith("model/")})


# What is taken over


def switched(group: str, before: str, after: str) -> tuple[State, State, str]:
    old, state = begun(group, before)
    new = rebuild(parts(group), plan(group, after))
    taken, said = new.engine.take_over(state, old.method)
    return state, taken, said


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("lg_fedavg", "fedclassavg", "takes over head"),
        ("fedclassavg", "fedssa", "takes over head"),
        ("fedgh", "lg_fedavg", "takes over head and starts head/bias afresh"),
        ("fml", "fedkd", "takes over meme, u, s, v"),
        ("fml", "fedapen", "takes over meme"),
    ],
)
def test_what_two_methods_share_is_taken_over_and_the_rest_starts_afresh(
    before: str, after: str, words: str
) -> None:
    state, taken, said = switched("tiny", before, after)
    assert said == words
    shared = state.server.keys() & taken.server.keys()
    assert shared and ("afresh" in said or shared == state.server.keys())
    assert all(torch.equal(taken.server[name], state.server[name]) for name in shared)


def test_scaffolds_control_fedkds_factors_and_fedapens_weights_begin_as_they_must() -> None:
    state, taken, said = switched("tiny", "fedavg", "scaffold")
    assert all(torch.equal(taken.server[name], tensor) for name, tensor in state.server.items())
    assert all(not tensor.any() for name, tensor in taken.server.items() if name.startswith("control/"))
    assert said.endswith("and starts control afresh")
    _, taken, _ = switched("tiny", "fml", "fedkd")
    name = next(name.removeprefix("u/") for name in taken.server if name.startswith("u/"))
    u, s, v = (taken.server[f"{factor}/{name}"] for factor in "usv")
    torch.testing.assert_close((u * s) @ v, taken.server[f"meme/{name}"].flatten(1))
    _, taken, _ = switched("tiny", "fml", "fedapen")
    assert [tensors["lam"].item() for tensors in taken.clients] == [0.5] * 4


def test_a_method_that_finds_nothing_of_its_own_starts_afresh_and_says_so() -> None:
    _, taken, said = switched("tiny", "standalone", "fedlora")
    new = rebuild(parts("tiny"), plan("tiny", "fedlora"))
    assert federations.bits(taken.server) == federations.bits(new.engine.initial_state().server)
    assert said == "starts adapter afresh"


def test_other_hyper_parameters_of_the_same_method_keep_its_state() -> None:
    old, state = begun("tiny", "scaffold")
    new = rebuild(parts("tiny"), plan("tiny", "scaffold", training={"lr": 0.01}))
    taken, said = new.engine.take_over(state, old.method)
    assert federations.state_bits(taken) == federations.state_bits(state)
    assert said == "what it keeps stays as it is"


# What may change


def test_some_settings_may_change_within_a_run_and_others_not() -> None:
    before = plan("tiny", "fedlora")
    for assignment in ("training.lr=0.5", "method.mu=0.7"):
        after = asked_for(before, {"method": None, "set": [assignment]})
        assert [line.split()[0] for line in differences(before, after)] == [assignment.split("=")[0]]
    for arguments, why in (
        ({"method": None, "set": ["seed=1"]}, "cannot change within a run"),
        ({"method": None, "set": ["runtime.workers=2"]}, "cannot change within a run"),
        ({"method": "fedlora", "set": []}, "nothing would change"),
        ({"method": 3}, "a switch names a method"),
        ({"set": "rounds=9"}, "a switch names a method"),
        ({"set": [9]}, "a switch names a method"),
    ):
        with pytest.raises(ConfigError, match=why):
            asked_for(before, arguments)


def test_hyper_parameters_of_the_replaced_method_do_not_carry_over() -> None:
    before = plan("tiny", "fedlora", method={"mu": 0.7})
    after = asked_for(before, {"method": "fedssa", "set": ["method.mu_0=0.3"]})
    assert after.method == methods.get("fedssa").Config.model_validate({"name": "fedssa", "mu_0": 0.3})


def test_the_history_gives_back_the_settings_in_force() -> None:
    before = plan("tiny", "fedlora")
    after = asked_for(before, {"method": "fedssa", "set": ["training.lr=0.5", "rounds=9"]})
    history = [history_entry(before, 1), history_entry(after, 4)]
    assert Config.read(settings_in_force({"config": before.to_json()}, history)) == after
    assert Config.read(settings_in_force({"config": before.to_json()}, history[:1])) == before
    assert Config.read(settings_in_force({"config": before.to_json()}, [])) == before


# Switching a live session's method or settings: in the next round, after a later one, or not at all.


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


def test_a_switch_for_a_later_round_is_pending_until_then_also_through_a_stop(tmp_path: Path) -> None:
    folder, then = tmp_path / "s", tmp_path / "in round 2"
    now = (trained(2, 1), "switch", {"method": "fedssa", "set": []})
    Session.create(config(), then, tmp_path).run(Operator(then, now))
    operator = Operator(folder, (trained(1, 1), "switch", later(2)), (trained(1, 2), "stop", {}))
    Session.create(config(), folder, tmp_path).run(operator)
    assert [command.arguments["at_round"] for command in checkpoints.pending(folder)] == [2]
    (event,) = [e for e in checkpoints.SessionReader(folder).events() if e["event"] == "scheduled"]
    assert (event["at_round"], event["command"]) == (2, operator.posted[0].id)
    Session.resume(folder, tmp_path).run()
    assert checkpoints.pending(folder) == []
    assert operator.answers()[0] == ("switch", "applied", 3)
    assert switches(folder) == [(1, "lg_fedavg"), (3, "fedssa")]
    assert federations.committed(folder) == federations.committed(then)


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


def test_a_switch_that_cannot_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    never = "a switch happens at the end of a round"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"method": "nosuch"}, "nosuch"),
        ({"method": "fedavg", "set": ["method.nosuch=1"]}, "unknown key"),
        ({"method": None, "set": ["data.alpha=0.1"]}, "cannot change within a run"),
        ({"method": "lg_fedavg", "set": []}, "nothing would change"),
        ({"method": None, "set": ["rounds=1"]}, "no round is left for it: round 2 is done, or under way"),
        ({"method": "heteroavg"}, "needs nested architectures"),
        (later(1), "round 1 is over: round 2 is done, or under way"),
        (later(4), "no round is left for it: round 4"),
        (later(9), "the run ends with round 4, before round 9"),
        *((later(round), never) for round in (-1, "2", True)),
    ]
    folder = tmp_path / "s"
    operator = Operator(folder, *((trained(2, 1), "switch", arguments) for arguments, _ in refused))
    Session.create(config(), folder, tmp_path).run(operator)
    answers = [checkpoints.answer(folder, command.id) for command in operator.posted]
    for answer, (_, why) in zip(answers, refused, strict=True):
        assert answer is not None and answer.outcome == "refused" and why in answer.message
    assert len(checkpoints.SessionReader(folder).manifest().history) == 1
    assert federations.committed(folder) == alone(tmp_path, config())


@pytest.mark.long
def test_an_extension_may_be_asked_for_at_the_last_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(1, 1), "switch", later(4, "fedssa", "rounds=6")))
    assert Session.create(config(), folder, tmp_path).run(operator) == RunOutcome("finished", 6)
    assert switches(folder) == [(1, "lg_fedavg"), (5, "fedssa")]
    assert [each.rounds for each in operator.seen if isinstance(each, RoundStarted)] == [4] * 4 + [6] * 2
