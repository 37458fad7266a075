"""What every registered method promises, checked for each of them alike."""

import copy
import dataclasses
import pickle
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from simulator import methods, rng
from simulator.builder import Built
from simulator.engine import State
from simulator.methods import Method
from simulator.rng import drawing_from
from simulator.sessions.session import Session
from simulator.tensors import total_bytes
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Nets
from tests import federations

DOCS = Path(__file__).parents[2] / "docs" / "methods"
ROUNDS = 3

pytestmark = pytest.mark.parametrize("name", methods.names())


def built(name: str, **sections: Any) -> Built:
    return federations.built(federations.config(name, **sections))


def after(name: str, rounds: int = ROUNDS, **sections: Any) -> State:
    return federations.run(built(name, **sections).engine, rounds)


def attributes(method: Method) -> bytes:
    """All a method object holds beside the facts of the federation."""
    return pickle.dumps({key: value for key, value in vars(method).items() if key != "federation"})


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def test_states_keep_their_names_shapes_and_dtypes(name: str) -> None:
    engine = built(name).engine
    start, end = engine.start(), federations.run(engine, ROUNDS)
    assert shapes(end.server) == shapes(start.server)
    assert [shapes(client) for client in end.clients] == [shapes(client) for client in start.clients]


def test_a_round_trains_every_participant_and_nobody_else(name: str) -> None:
    engine = built(name).engine
    start = engine.start()
    end = engine.round(start, lambda event: None)
    changed = [
        federations.bits(a) != federations.bits(b) for a, b in zip(start.clients, end.clients, strict=True)
    ]
    assert changed == [client in end.record["participants"] for client in range(4)]
    assert len(end.record["participants"]) == 3


def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    first, second = after(name), after(name)
    assert federations.state_bits(first) == federations.state_bits(second)
    assert federations.untimed(first.record) == federations.untimed(second.record)


def test_another_seed_gives_other_bits(name: str) -> None:
    assert federations.state_bits(after(name, 1, seed=7)) != federations.state_bits(after(name, 1, seed=8))


def test_one_worker_and_two_give_the_same_bits(name: str) -> None:
    one, two = after(name, runtime={"workers": 1}), after(name, runtime={"workers": 2})
    assert federations.state_bits(one) == federations.state_bits(two)
    assert federations.untimed(one.record) == federations.untimed(two.record)


def test_a_session_stopped_and_resumed_gives_the_bits_of_one_left_alone(name: str, tmp_path: Path) -> None:
    config = federations.config(name)
    with federations.on_images(federations.generated()):
        Session.create(config, tmp_path / "alone", tmp_path).run()
        Session.create(config, tmp_path / "stopped", tmp_path).run(stop=lambda: "enough")
        Session.resume(tmp_path / "stopped", tmp_path).run()
    assert federations.committed(tmp_path / "stopped") == federations.committed(tmp_path / "alone")


def test_measured_traffic_is_the_size_of_the_payloads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, list[int]] = {"down": [0] * 4, "up": [0] * 4}
    method = methods.get(name)
    downlink, uplink = method.downlink, method.uplink

    def weighed_downlink(self: Method, round: int, server: Any, client: Any) -> Any:
        payload = downlink(self, round, server, client)
        sent["down"][client.id] += total_bytes(payload)
        return payload

    def weighed_uplink(self: Method, local: LocalClient) -> Any:
        payload = uplink(self, local)
        sent["up"][local.info.id] += total_bytes(payload)
        return payload

    monkeypatch.setattr(method, "downlink", weighed_downlink)
    monkeypatch.setattr(method, "uplink", weighed_uplink)
    traffic = after(name, 1).record["bytes"]
    assert traffic["per_client_down"] == sent["down"]
    assert traffic["per_client_up"] == sent["up"]
    assert (traffic["down"], traffic["up"]) == (sum(sent["down"]), sum(sent["up"]))
    assert sum(traffic["by_tensor"].values()) == traffic["down"] + traffic["up"]


def test_a_round_is_a_function_of_the_state_it_starts_from(name: str) -> None:
    """The method, and all else that outlives a round, remembers nothing of the rounds before."""
    parts = built(name)
    before = attributes(parts.method)
    start = parts.engine.start()
    untouched = federations.state_bits(start)
    first = federations.state_bits(parts.engine.round(start, lambda event: None))
    federations.run(parts.engine, ROUNDS)
    again = federations.state_bits(parts.engine.round(start, lambda event: None))
    assert again == first
    assert federations.state_bits(start) == untouched
    assert attributes(parts.method) == before


def test_no_global_generator_is_touched(name: str) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    after(name, 1, runtime={"workers": 2})
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]


def test_losses_are_pure(name: str) -> None:
    """The same inputs give the same value, nothing is drawn, and no value is looked at (it would fail on meta)."""
    for nets, phase, batch in phases_of(name):
        nets.eval()  # dropout and batch statistics are the network's, not the loss's
        stream = rng.torch_stream(0, "tests/loss")
        drawn = stream.get_state()
        weights = federations.bits(nets.state_dict())
        with drawing_from(stream):
            first, second = (phase.loss(nets, phase.state, batch) for _ in range(2))
        assert first.shape == ()
        assert first.isfinite()
        assert torch.equal(first, second)
        assert torch.equal(stream.get_state(), drawn)
        assert federations.bits(nets.state_dict()) == weights
        state = {key: tensor.to("meta") for key, tensor in phase.state.items()}
        assert phase.loss(
            copy.deepcopy(nets).to("meta"), state, Batch(*(t.to("meta") for t in batch))
        ).is_meta


def test_every_phase_trains_the_modules_it_names(name: str) -> None:
    for nets, phase, batch in phases_of(name):
        phase.loss(nets, phase.state, batch).backward()
        for module in phase.trains:
            assert any(parameter.grad is not None for parameter in nets[module].parameters()), module


def phases_of(name: str) -> Iterator[tuple[Nets, Any, Batch]]:
    """Every phase of the first client of each architecture, in round 2, with a batch of its data."""
    parts = built(name)
    state = federations.run(parts.engine, 1)
    for client in range(len(parts.federation.architectures)):
        local = federations.local(parts, client, state.clients[client], round=2)
        info = parts.federation.clients[client]
        parts.method.receive(local, parts.method.downlink(2, state.server, info))
        for phase in parts.method.phases(local):
            yield local.nets, phase, next(local.batches(phase))


def test_the_card_is_filled_in(name: str) -> None:
    card = dataclasses.asdict(methods.get(name).card)
    assert all(text.strip() == text and text for text in card.values()), card


def test_the_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
