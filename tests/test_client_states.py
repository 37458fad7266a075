"""Clients' states out of core: drawn, kept or read when they are asked for, and never more of them than are wanted."""

import gc
import weakref
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from simulator.base import rng
from simulator.base.tensors import Tensors, named, of_module, total_bytes
from simulator.engine.builder import Built
from simulator.engine.client_states import ClientStates, StateCache
from simulator.engine.progress import ClientTrained, Event, unobserved
from simulator.runners import Job, Jobs
from tests import federations

KILOBYTE = 256
"""Numbers of float32 in it."""


def parts(method: str = "fedproto", **sections: Any) -> Built:
    return federations.built(federations.config(method, **sections))


# Drawn


def test_a_client_begins_with_the_model_of_its_own_stream_and_what_its_method_keeps() -> None:
    built = parts("fedkd")
    states = built.engine.initial_state().clients
    for client in built.federation.clients:
        stream = rng.torch_stream(7, "client/model", client=client.id)
        model = of_module(built.federation.build(client.architecture, stream))
        beside = built.method.init_client(client)
        assert beside, "FedKD keeps a projection"
        assert federations.bits(states[client.id]) == federations.bits(named("model", model) | beside)


def test_what_is_drawn_again_is_the_same() -> None:
    states = parts(runtime={"cache": 0}).engine.initial_state().clients
    assert states[1]["model/head.weight"] is not states[1]["model/head.weight"]
    assert federations.bits(states[1]) == federations.bits(states[1])


def test_there_is_a_state_for_every_client_and_for_nobody_else() -> None:
    states = parts().engine.initial_state().clients
    assert len(states) == len(list(states)) == 4
    for nobody in (-1, 4):
        with pytest.raises(IndexError):
            states[nobody]


def test_only_participants_are_no_longer_as_they_began() -> None:
    engine = parts("lg_fedavg", federation={"participation": 0.5}).engine
    start = engine.initial_state()
    end = engine.round(start, unobserved)
    assert end.record is not None
    assert (start.clients.begun(), end.clients.begun()) == ([], end.record["participants"])


def test_the_size_of_the_cache_changes_no_bit() -> None:
    none, usual = (
        federations.run(parts("fedproto", **sections).engine, 3)
        for sections in ({"runtime": {"cache": 0}}, {})
    )
    assert federations.state_bits(none) == federations.state_bits(usual)
    assert federations.untimed(none.record) == federations.untimed(usual.record)


# Cached


class Kilobytes:
    """A loader of one kilobyte for each client, which counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, client: int) -> Tensors:
        self.asked.append(client)
        return {"x": torch.full((KILOBYTE,), float(client))}


def test_what_is_in_the_cache_is_not_loaded_again() -> None:
    cache, loader = StateCache(2048), Kilobytes()
    for client in (0, 1, 0, 1, 0):
        assert cache.get(loader, client)["x"][0] == client
    assert loader.asked == [0, 1]


@given(size=st.integers(0, 5000), clients=st.lists(st.integers(0, 9), max_size=30))
def test_the_cache_holds_no_more_than_its_size(size: int, clients: list[int]) -> None:
    cache, loader = StateCache(size), Kilobytes()
    made = [weakref.ref(cache.get(loader, client)["x"]) for client in clients]
    there = {id(tensor) for each in made if (tensor := each()) is not None}
    assert len(there) * 1024 <= size


def test_of_a_client_the_cache_holds_one_state() -> None:
    """A round gives a client a new one, and nobody asks for that before it again."""
    cache, before, after = StateCache(1 << 20), Kilobytes(), Kilobytes()
    old = weakref.ref(cache.get(before, 0)["x"])
    cache.get(after, 0)
    assert old() is None


def test_a_state_that_a_checkpoint_holds_is_let_go_and_read_when_it_is_asked_for() -> None:
    start = parts(runtime={"cache": 0}).engine.initial_state().clients
    changed = {"x": torch.ones(KILOBYTE)}
    there = weakref.ref(changed["x"])
    loader = Kilobytes()
    states = start.after({2: changed}).written({2: loader})
    del changed
    assert there() is None
    assert (states[2]["x"][0], loader.asked, states.begun()) == (2.0, [2], [2])


def test_states_of_an_earlier_round_stay_as_they_were() -> None:
    before: ClientStates = parts().engine.initial_state().clients.after({0: {"x": torch.zeros(1)}})
    after = before.after({0: {"x": torch.ones(1)}})
    assert (before[0]["x"].item(), after[0]["x"].item()) == (0, 1)


# Jobs


def test_a_job_is_made_when_it_is_asked_for() -> None:
    made: list[int] = []

    def make(client: int) -> Job:
        made.append(client)
        return Job({}, None)

    jobs = Jobs([3, 5], make)
    assert (list(jobs), len(jobs), 3 in jobs, 4 in jobs, made) == ([3, 5], 2, True, False, [])
    assert jobs[5].payload is None
    assert made == [5]
    with pytest.raises(KeyError):
        jobs[4]


@pytest.mark.parametrize("runner", ["parallel", "sequential"])
def test_a_payload_is_made_as_its_client_starts_and_let_go_when_it_ends(runner: str) -> None:
    built = parts("fedavg", runtime={"runner": runner, "workers": 1})
    payloads: list[weakref.ref[Any]] = []
    alive: list[int] = []
    carry = built.engine._hooks.downlink

    def downlink(*arguments: Any) -> Mapping[str, torch.Tensor]:
        alive.append(sum(payload() is not None for payload in payloads))
        payload = {name: tensor.clone() for name, tensor in carry(*arguments).items()}
        payloads.append(weakref.ref(next(iter(payload.values()))))
        return payload

    trained: list[Event] = []
    with mock.patch.object(built.engine._hooks, "downlink", downlink):
        built.engine.round(built.engine.initial_state(), trained.append)
    assert sum(isinstance(event, ClientTrained) for event in trained) == 3
    assert alive == [0, 0, 0]


# Tensors


def bytes_of_tensors() -> int:
    """Of all tensors with values that this process has."""
    # Types and not isinstance: other subclasses, such as those that a trace leaves behind, have no memory of their own.
    found = [
        each for each in gc.get_objects() if type(each) in (torch.Tensor, nn.Parameter) and not each.is_meta
    ]
    return sum(
        {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in found}.values()
    )


@pytest.mark.long
def test_the_most_tensors_in_a_round_follow_who_takes_part_and_not_how_many_clients_there_are() -> None:
    """Two of five clients, and two of fifty, on the same images: less than a model of tiny_cnn lies between them."""
    most: dict[int, int] = {}
    for clients in (5, 50):
        before = bytes_of_tensors()
        built = federations.built(
            federations.config(
                "fedavg",
                federation={"clients": clients, "participation": 2 / clients, "group": "tiny_cnn"},
                data={"partition": "iid", "quantity": "equal"},
                evaluation={"clients": "participants"},
                runtime={"runner": "sequential", "cache": 0},
            ),
            federations.generated(per_class=400),
        )
        seen: list[int] = []
        uplink = built.engine._hooks.uplink

        def looked(*arguments: Any, seen: list[int] = seen, uplink: Any = uplink) -> Any:
            seen.append(bytes_of_tensors())  # while a client has all that it ever has
            return uplink(*arguments)

        with mock.patch.object(built.engine._hooks, "uplink", looked):
            built.engine.round(built.engine.initial_state(), unobserved)
        assert len(seen) == 2
        most[clients] = max(seen) - before
        model = total_bytes(built.engine.initial_state().clients[0])
        del built, uplink
    assert 2 * model < most[5]
    assert most[50] < most[5] + model
