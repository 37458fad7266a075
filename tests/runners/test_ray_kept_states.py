"""What actors keep of the states that they return, and how the driver names it. Nothing here needs Ray."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.base.tensors import Copies, total_bytes
from simulator.runners.ray import transfer
from simulator.runners.ray.runner import _Waiting
from simulator.runners.ray.transfer import ActorStates, Kept, KnownStates, Message, Orders, Payloads

STATE = 40
"""Bytes of a state in these tests: ten floats."""


def state(value: float) -> dict[str, Tensor]:
    return {"model/weight": torch.full((10,), value)}


def trained(actor: ActorStates, orders: Orders, client: int, value: float) -> dict[str, Tensor]:
    """The update that an actor returns, as new tensors of the driver."""
    actor.begin(orders)
    return {name: each.clone() for name, each in actor.keep(orders, client, state(value)).items()}


@dataclass
class Run:
    """A driver with two actors of whom each does the tasks that it was sent in their order."""

    limit: int
    known: KnownStates = field(init=False)
    actors: dict[str, ActorStates] = field(default_factory=lambda: {"a": ActorStates(), "b": ActorStates()})
    states: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    answers: dict[str, list[tuple[Orders, int, dict[str, Tensor]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        self.known = KnownStates(self.limit)
        self.states = {client: state(float(client)) for client in range(4)}

    def send(self, name: str, client: int, value: float) -> None:
        """Have an actor train a client, whose answer arrives later. Checks the state that it begins with."""
        actor, begins = self.actors[name], self.states[client]
        sent = self.known.at(name, client, begins) or Message(begins)
        orders = self.known.orders(name)
        actor.begin(orders)
        found = actor.found(orders.driver, sent)
        assert torch.equal(found["model/weight"], begins["model/weight"])
        self.answers[name].append((orders, client, trained(actor, orders, client, value)))

    def receive(self, name: str) -> None:
        if self.answers[name]:
            orders, client, new = self.answers[name].pop(0)
            self.states[client] = new
            self.known.returned(name, orders.task, client, new)

    def abandon(self) -> None:
        for name, waiting in self.answers.items():
            for orders, client, _ in waiting:
                self.known.abandoned(name, orders.task, [client])
            waiting.clear()

    def die(self, name: str) -> None:
        self.actors[name] = ActorStates()
        self.answers[name].clear()
        self.known.lost(name)

    def kept(self, name: str) -> int:
        return sum(map(total_bytes, self.actors[name]._kept[self.known.driver].values()))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "receive", "abandon", "die"]), st.sampled_from("ab"), st.integers(0, 3)
    )
)


@given(STEPS, st.sampled_from([0, STATE, 2 * STATE, 100 * STATE]))
def test_a_state_that_is_named_is_always_there_and_is_the_right_one(steps: Any, limit: int) -> None:
    """Whatever is sent, arrives late, is abandoned, or dies; `Run.send` checks the state."""
    run = Run(limit)
    for number, (what, name, client) in enumerate(steps):
        match what:
            case "send":
                run.send(name, client, 100.0 + number)
            case "receive":
                run.receive(name)
            case "abandon":
                run.abandon()
            case "die":
                run.die(name)
    run.abandon()
    for name, actor in run.actors.items():
        actor.begin(run.known.orders(name))
        assert run.kept(name) <= limit


def test_of_two_states_within_the_limit_of_one_the_older_is_dropped() -> None:
    known, actor = KnownStates(STATE), ActorStates()
    first, second = known.orders("a"), known.orders("a")
    states = [trained(actor, first, 0, 1.0), trained(actor, second, 1, 2.0)]
    known.returned("a", first.task, 0, states[0])
    known.returned("a", second.task, 1, states[1])
    assert known.at("a", 0, states[0]) is None
    assert known.at("a", 1, states[1]) == Kept(second.task, 1)
    assert [known.orders("a").dropped for _ in range(2)] == [(Kept(first.task, 0),), ()]


def test_a_client_that_trains_again_replaces_its_state() -> None:
    known, old, new = KnownStates(STATE), state(1.0), state(2.0)
    known.returned("a", 1, 0, old)
    known.returned("b", 2, 0, new)
    assert known.at("a", 0, old) is None
    assert known.at("b", 0, new) == Kept(2, 0)
    assert (known.orders("a").dropped, known.orders("b").dropped) == ((Kept(1, 0),), ())
    known.returned("b", 3, 0, newest := state(3.0))
    assert known.at("b", 0, newest) == Kept(3, 0)


def test_a_dead_actor_keeps_nothing_and_is_told_nothing() -> None:
    known = KnownStates(STATE)
    states = [state(float(client)) for client in range(3)]
    for client in (0, 1):
        known.returned("a", 1 + client, client, states[client])
    known.lost("a")
    assert known.keeper(1) is None
    assert known.orders("a").dropped == ()
    known.returned("a", 3, 2, states[2])
    assert known.at("a", 2, states[2]) == Kept(3, 2)


def test_a_state_is_named_only_to_the_actor_that_keeps_it_and_sent_if_it_changed() -> None:
    weight = "model/weight"
    changes: list[Callable[[dict[str, Tensor]], object]] = [
        lambda new: new[weight].add_(1),
        lambda new: new.update({weight: new[weight].clone()}),
        lambda new: new.update({"method/mu": torch.ones(1)}),
    ]
    for change in changes:
        known, new = KnownStates(), state(1.0)
        known.returned("a", 1, 0, new)
        assert known.at("a", 0, new) is not None and known.at("b", 0, new) is None
        assert (known.keeper(0), known.keeper(1)) == ("a", None)
        change(new)
        assert known.at("a", 0, new) is None


def test_what_an_actor_keeps_lies_in_memory_as_if_it_had_been_sent() -> None:
    turned = torch.arange(6.0).reshape(2, 3).T
    [kept] = ActorStates().keep(KnownStates().orders("a"), 0, {"x": turned}).values()
    assert kept.is_contiguous()
    assert torch.equal(kept, turned)


def test_runs_that_share_an_actor_do_not_share_states() -> None:
    actor, one, other = ActorStates(), KnownStates(), KnownStates()
    mine = one.orders("a")
    trained(actor, mine, 0, 1.0)
    actor.forget(other.driver)
    assert actor.found(one.driver, Kept(mine.task, 0))["model/weight"][0] == 1
    actor.forget(one.driver)
    with pytest.raises(KeyError):
        actor.found(one.driver, Kept(mine.task, 0))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes in bytes of the tensors that are hashed."""
    sizes: list[int] = []
    whole = transfer.bytes_of

    def noted(tensor: Tensor) -> Any:
        sizes.append(tensor.nbytes)
        return whole(tensor)

    monkeypatch.setattr(transfer, "bytes_of", noted)
    return sizes


def copies(server: Mapping[str, Tensor]) -> Copies:
    return Copies({name: each.clone() for name, each in server.items()}, server)


def test_copies_of_the_same_tensors_are_hashed_once(hashed: list[int]) -> None:
    payloads, server = Payloads(lambda message: object()), state(1.0)
    first, second = payloads.put(copies(server)), payloads.put(copies(server))
    assert first is second
    assert hashed == [STATE]
    server["model/weight"] += 1
    assert payloads.put(copies(server)) is not first
    assert hashed == [STATE, STATE]


def test_groups_go_to_the_actor_that_keeps_them_then_to_whoever_is_idle() -> None:
    waiting = _Waiting([("a", [0]), ("b", [1]), (None, [2]), ("b", [3]), ("b", [4])])
    assert [waiting.next_for("a") for _ in range(3)] == [[0], [2], [1]]
    waiting.again([[5], [6]])
    assert [waiting.next_for("b") for _ in range(4)] == [[3], [4], [5], [6]]
    assert not waiting
