"""Switching methods and settings between rounds: what may change, what is carried over, and that training goes on."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.base.tensors import part
from simulator.config import Config
from simulator.engine.builder import Built, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.models import GROUPS
from simulator.sessions.history import asked_for, differences, history_entry, settings_in_force
from tests import federations


def config(group: str, name: str, **sections: Any) -> Config:
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
    return federations.built(config(group, "standalone"))


@functools.cache
def begun(group: str, name: str) -> tuple[Built, State]:
    """A method's parts, and the state after its first round."""
    built = rebuild(parts(group), config(group, name))
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
    new = rebuild(parts(group), config(group, after))
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
    new = rebuild(parts(group), config(group, after))
    taken, said = new.engine.take_over(state, old.method)
    return state, taken, said


@pytest.mark.parametrize(("before", "after"), [("lg_fedavg", "fedclassavg"), ("fedclassavg", "fedssa")])
def test_a_shared_head_is_taken_over(before: str, after: str) -> None:
    state, taken, said = switched("tiny", before, after)
    assert federations.bits(taken.server) == federations.bits(state.server)
    assert said == "takes over head"


def test_what_fedghs_header_lacks_starts_afresh_and_is_named() -> None:
    state, taken, said = switched("tiny", "fedgh", "lg_fedavg")
    assert torch.equal(taken.server["head/weight"], state.server["head/weight"])
    assert said == "takes over head and starts head/bias afresh"


def test_a_part_of_other_shapes_is_not_taken_over() -> None:
    """The weight of three classes does not fit, so its bias, which would, is left as well."""
    fedgen = federations.built(federations.config("fedgen")).method
    head = part(fedgen.init_server(), "head")
    fitting = {f"head/{name}": tensor for name, tensor in head.items()}
    other = {"head/weight": fitting["head/weight"][:3], "head/bias": fitting["head/bias"]}
    assert fedgen.adopt(fitting).keys() == fitting.keys()
    assert fedgen.adopt(other) == {}


def test_a_global_model_is_taken_over_and_scaffolds_control_starts_at_zero() -> None:
    state, taken, said = switched("tiny", "fedavg", "scaffold")
    assert all(torch.equal(taken.server[name], tensor) for name, tensor in state.server.items())
    assert all(not tensor.any() for name, tensor in taken.server.items() if name.startswith("control/"))
    assert said.endswith("and starts control afresh")


def test_fedkd_decomposes_the_meme_it_takes_over() -> None:
    state, taken, said = switched("tiny", "fml", "fedkd")
    assert all(torch.equal(taken.server[name], tensor) for name, tensor in state.server.items())
    name = next(name.removeprefix("u/") for name in taken.server if name.startswith("u/"))
    u, s, v = (taken.server[f"{factor}/{name}"] for factor in "usv")
    meme = taken.server[f"meme/{name}"]
    torch.testing.assert_close((u * s) @ v, meme.flatten(1))
    assert said == "takes over meme, u, s, v"


def test_fedapen_takes_over_the_meme_and_its_clients_begin_with_equal_weights() -> None:
    state, taken, said = switched("tiny", "fml", "fedapen")
    assert federations.bits(taken.server) == federations.bits(state.server)
    assert [tensors["lam"].item() for tensors in taken.clients] == [0.5] * 4
    assert said == "takes over meme"


def test_a_method_that_finds_nothing_of_its_own_starts_afresh_and_says_so() -> None:
    _, taken, said = switched("tiny", "standalone", "fedlora")
    new = rebuild(parts("tiny"), config("tiny", "fedlora"))
    assert federations.bits(taken.server) == federations.bits(new.engine.initial_state().server)
    assert said == "starts adapter afresh"


def test_other_hyper_parameters_of_the_same_method_keep_its_state() -> None:
    old, state = begun("tiny", "scaffold")
    new = rebuild(parts("tiny"), config("tiny", "scaffold", training={"lr": 0.01}))
    taken, said = new.engine.take_over(state, old.method)
    assert federations.state_bits(taken) == federations.state_bits(state)
    assert said == "what it keeps stays as it is"


# What may change


@pytest.mark.parametrize("assignment", ["training.lr=0.5", "method.mu=0.7"])
def test_these_settings_may_change_within_a_run(assignment: str) -> None:
    before = config("tiny", "fedlora")
    after = asked_for(before, {"method": None, "set": [assignment]})
    assert [line.split()[0] for line in differences(before, after)] == [assignment.split("=")[0]]


@pytest.mark.parametrize("assignment", ["seed=1", "runtime.workers=2"])
def test_what_the_session_was_made_with_cannot(assignment: str) -> None:
    with pytest.raises(ConfigError, match="cannot change within a run"):
        asked_for(config("tiny", "fedlora"), {"method": None, "set": [assignment]})


def test_hyper_parameters_of_the_replaced_method_do_not_carry_over() -> None:
    before = config("tiny", "fedlora", method={"mu": 0.7})
    after = asked_for(before, {"method": "fedssa", "set": ["method.mu_0=0.3"]})
    assert after.method == methods.get("fedssa").Config.model_validate({"name": "fedssa", "mu_0": 0.3})


def test_a_switch_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing would change"):
        asked_for(config("tiny", "fedlora"), {"method": "fedlora", "set": []})


@pytest.mark.parametrize("arguments", [{"method": 3}, {"set": "rounds=9"}, {"set": [9]}], ids=repr)
def test_arguments_of_another_kind_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a switch names a method"):
        asked_for(config("tiny", "fedlora"), arguments)


def test_the_history_gives_back_the_settings_in_force() -> None:
    before = config("tiny", "fedlora")
    after = asked_for(before, {"method": "fedssa", "set": ["training.lr=0.5", "rounds=9"]})
    history = [history_entry(before, 1), history_entry(after, 4)]
    assert Config.read(settings_in_force({"config": before.to_json()}, history)) == after
    assert Config.read(settings_in_force({"config": before.to_json()}, history[:1])) == before
    assert Config.read(settings_in_force({"config": before.to_json()}, [])) == before
