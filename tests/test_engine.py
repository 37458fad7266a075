"""A round: who takes part, who is evaluated, what is recorded, and a client that goes astray."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.engine.progress import (
    ClientDiverged,
    ClientStarted,
    ClientTrained,
    EvaluationStarted,
    Event,
    RoundStarted,
    Warned,
    unobserved,
)
from simulator.metrics import cka_matrices
from tests import federations


def built(method: str = "standalone", /, **sections: Any) -> Built:
    return federations.built(federations.config(method, **sections))


def record(state: State) -> dict[str, Any]:
    assert state.record is not None
    return state.record


def test_participation_is_rounded_to_whole_clients() -> None:
    for participation, wanted in ((0.625, 3), (0.13, 1)):
        assert len(built(federation={"participation": participation}).engine.participants(1)) == wanted


def test_losses_are_those_of_the_participants() -> None:
    result = record(federations.run(built().engine, 1))
    losses = result["loss"]["per_client"]
    assert [client for client, loss in enumerate(losses) if loss is not None] == result["participants"]
    known = [loss for loss in losses if loss is not None]
    assert result["loss"]["mean"] == pytest.approx(sum(known) / 3)


@pytest.mark.long
def test_every_method_records_the_cross_entropy_of_its_clients_models() -> None:
    found = {
        method: record(federations.run(built(method, rounds=2).engine, 2))["loss"].get("cross_entropy")
        for method in methods.names()
    }
    assert {method: loss for method, loss in found.items() if not 0 < (loss or 0) < math.inf} == {}


def test_a_session_whose_records_have_no_cross_entropy_continues_without() -> None:
    engine = built().engine
    first = engine.round(engine.initial_state(), unobserved)
    loss = {key: value for key, value in record(first)["loss"].items() if key != "cross_entropy"}
    older = replace(first, record=record(first) | {"loss": loss})
    assert "cross_entropy" not in record(engine.round(older, unobserved))["loss"]


def test_the_cross_entropy_is_the_loss_without_what_the_method_adds() -> None:
    for method, adds in (("fedprox", {"mu": 0.0}), ("fd", {"gamma": 0.0})):
        losses = record(federations.run(built(method, method=adds).engine, 2))["loss"]
        assert losses["mean"] == losses["cross_entropy"]


def test_the_cross_entropy_is_that_of_the_model_that_answers_and_of_its_own_phase() -> None:
    """With μ of almost 1, FedLoRA's first phase trains on the model's own cross-entropy."""
    found = record(federations.run(built("fedlora", method={"mu": 1 - 1e-9}).engine, 1))
    assert found["loss"]["cross_entropy"] == pytest.approx(found["loss"]["mean"], rel=1e-6)
    assert found["loss"]["cross_entropy"] != pytest.approx(found["method_metrics"]["adapter_loss"], rel=1e-2)
    assert found["method_metrics"].keys() == {"adapter_loss"}


def test_totals_of_traffic_go_on_from_round_to_round() -> None:
    engine = built("lg_fedavg").engine
    first = engine.round(engine.initial_state(), unobserved)
    second = engine.round(first, unobserved)
    each = record(first)["bytes"]["up"]
    assert each == 3 * (8 * 4 + 4) * 4  # three heads of 8 features and 4 classes
    assert record(second)["bytes"]["up_total"] == 2 * each


def test_training_learns() -> None:
    """Two classes a client, told apart by their patterns."""
    engine = built(training={"epochs": 3}).engine
    first = engine.round(engine.initial_state(), unobserved)
    assert record(federations.run(engine, 15))["accuracy"]["mean"] > max(
        0.9, record(first)["accuracy"]["mean"]
    )


def events(parts: Built, state: State) -> tuple[State, list[Event]]:
    heard: list[Event] = []
    return parts.engine.round(state, heard.append), heard


def test_an_observer_hears_of_the_round_as_it_goes() -> None:
    parts = built()
    end, heard = events(parts, parts.engine.initial_state())
    participants = tuple(record(end)["participants"])
    assert heard[0] == RoundStarted(1, 3, participants)
    trained = [event for event in heard if isinstance(event, ClientTrained)]
    assert {event.client for event in trained} == set(participants)
    assert [(event.done, event.participants) for event in trained] == [(1, 3), (2, 3), (3, 3)]
    for one in participants:
        began = heard.index(ClientStarted(1, one))
        assert began < next(
            place for place, each in enumerate(heard) if each in trained and each.client == one
        )
    assert heard[-1] == EvaluationStarted(1, 4)


# Evaluation


def evaluated(rounds: int, **evaluation: Any) -> list[list[bool]]:
    """Which clients have an accuracy, after each round."""
    engine = built(evaluation=evaluation, federation={"participation": 0.25}).engine
    state, known = engine.initial_state(), []
    for _ in range(rounds):
        state = engine.round(state, unobserved)
        known.append([value is not None for value in record(state)["accuracy"]["per_client"]])
    return known


def test_participants_alone_are_evaluated_when_so_configured() -> None:
    engine = built(federation={"participation": 0.25}).engine
    (first,), (second,) = engine.participants(1), engine.participants(2)
    assert evaluated(2, clients="participants") == [
        [client == first for client in range(4)],
        [client in {first, second} for client in range(4)],
    ]


def test_a_number_of_clients_is_drawn_for_evaluation() -> None:
    assert [sum(known) for known in evaluated(1, clients=2)] == [2]
    assert evaluated(3, clients=2) == evaluated(3, clients=2)


def test_evaluating_participants_only_tells_the_same_as_evaluating_everyone() -> None:
    """After round 1 only the participants' models change, so that the others' accuracy stands."""
    parts = built()
    first = parts.engine.round(parts.engine.initial_state(), unobserved)
    second = parts.engine.round(first, unobserved)
    assert record(second)["accuracy"]["per_client"] == [by_hand(parts, second, k) for k in range(4)]


def by_hand(parts: Built, state: State, client: int) -> float:
    """Accuracy of a client's model on its test images, in one plain forward pass."""
    return share_correct(parts, client, part(state.clients[client], "model"))


def share_correct(parts: Built, client: int, weights: dict[str, torch.Tensor]) -> float:
    network = parts.federation.build(parts.federation.clients[client].architecture, torch.Generator()).eval()
    network.load_state_dict(weights)
    x, y = parts.data.batch(parts.data.clients[client].test)
    return (network(x).argmax(1) == y).sum().item() / len(y)


def test_the_aggregated_model_is_what_the_client_would_receive_next() -> None:
    """FedAvg: the server's model of the client's architecture, on the client's test images."""
    parts = built("fedavg", evaluation={"model": "aggregated"})
    state = federations.run(parts.engine, 2)
    for client in parts.federation.clients:
        expected = part(state.server, client.architecture)
        if client.architecture == "tiny_mlp":  # its counter of batches plays no part in an answer
            expected["norm.num_batches_tracked"] = torch.tensor(0)
        assert record(state)["accuracy"]["per_client"][client.id] == share_correct(parts, client.id, expected)


# A client that diverges


def astray(state: State, client: int, **tensors: torch.Tensor) -> State:
    """The state with some tensors of a client's model replaced."""
    changed = state.clients[client] | {f"model/{name}": tensor for name, tensor in tensors.items()}
    return State(state.round, state.server, state.clients.after({client: changed}), state.record)


def poisoned(parts: Built) -> tuple[State, int]:
    """The state before round 1 with a NaN in the first layer of one participant."""
    client = parts.engine.participants(1)[1]
    start = parts.engine.initial_state()
    weight = torch.full_like(start.clients[client]["model/fc1.weight"], torch.nan)
    return astray(start, client, **{"fc1.weight": weight}), client


def exploding(parts: Built) -> tuple[State, int]:
    """A client whose loss is log 4 in its only step, and whose weights that step throws out of float32.

    Its features are 1e38 and its head is zero, so the logits are 0; the head's gradient is about 1e38 and the
    learning rate 1000.
    """
    client = parts.engine.participants(1)[1]
    start = parts.engine.initial_state()
    model = part(start.clients[client], "model")
    tensors = {name: torch.zeros_like(model[name]) for name in ("fc2.weight", "head.weight", "head.bias")}
    tensors["fc2.bias"] = torch.full_like(model["fc2.bias"], 1e38)
    state = astray(start, client, **tensors)
    zero_head = {name: torch.zeros_like(tensor) for name, tensor in start.server.items()}
    return State(0, zero_head, state.clients, None), client


def check_named_and_left_out(parts: Built, start: State, client: int) -> None:
    end, heard = events(parts, start)
    assert record(end)["diverged"] == [client]
    assert [event.client for event in heard if isinstance(event, ClientDiverged)] == [client]
    assert federations.bits(end.clients[client]) == federations.bits(start.clients[client])
    assert record(end)["loss"]["per_client"][client] is None
    assert record(end)["bytes"]["per_client_up"][client] == 0
    others = [k for k in record(end)["participants"] if k != client]
    assert all(federations.bits(end.clients[k]) != federations.bits(start.clients[k]) for k in others)
    assert all(tensor.isfinite().all() for tensor in end.server.values())
    json.dumps(record(end), allow_nan=False)


@pytest.mark.parametrize("method", ["lg_fedavg", "fedlora"])
def test_a_client_whose_loss_is_nan_is_named_and_the_others_go_on(method: str) -> None:
    parts = built(method)
    check_named_and_left_out(parts, *poisoned(parts))


def test_a_client_whose_last_step_explodes_is_named_and_the_others_go_on() -> None:
    """Its loss is still finite: only the weights show it."""
    parts = built("lg_fedavg", training={"batch_size": 1000, "lr": 1000.0})
    check_named_and_left_out(parts, *exploding(parts))


@pytest.mark.parametrize("method", ["lg_fedavg", "fedlora"])
def test_a_round_in_which_all_diverge_leaves_everything_as_it_was(method: str) -> None:
    parts = built(method)
    start = parts.engine.initial_state()
    for client in range(4):
        weight = torch.full_like(start.clients[client]["model/fc1.weight"], torch.nan)
        start = astray(start, client, **{"fc1.weight": weight})
    end = parts.engine.round(start, unobserved)
    assert federations.state_bits(end) == federations.state_bits(start)
    assert record(end)["diverged"] == record(end)["participants"]
    assert record(end)["loss"]["mean"] is None


# CKA


def measured_rounds(rounds: int, **sections: Any) -> tuple[list[int], list[str]]:
    """The rounds whose records have CKA, by default if no setting says when, and the warnings on the way."""
    engine = built("standalone", **{"cka": {"every": None}, **sections}).engine
    state, found, warned = engine.initial_state(), list[int](), list[str]()

    def observe(event: Event) -> None:
        if isinstance(event, Warned):
            warned.append(event.message)

    for _ in range(rounds):
        state = engine.round(state, observe)
        if (cka := record(state)["cka"]) is not None:
            found.append(state.round)
            assert set(cka["layers"]) == set(cka["matrix"]) == set(cka["order"])
            assert json.loads(json.dumps(cka)) == cka
    return found, warned


@pytest.mark.long
def test_by_default_cka_is_measured_after_round_1_and_every_tenth_round() -> None:
    """A round's three participants train on 32 samples for 10 epochs: 960. Four clients are shown the 16 samples of
    the probe: 64, which takes 64 / 3 / 960 = 2.2 % of a round, and 0.2 % of ten.
    """
    assert measured_rounds(20, cka={"every": None, "probe": 16}, training={"epochs": 10}) == ([1, 10, 20], [])


def test_cka_that_cannot_be_measured_is_said_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two layers of 16 samples take far more than 100 bytes, of which a setting asks nothing."""
    assert measured_rounds(4, cka={"every": 2}) == ([2, 4], [])
    alone = {"clients": 1, "participation": 1.0}
    said = "CKA is not measured: no two clients have a layer in common."
    assert measured_rounds(10, federation=alone) == ([], [said])
    monkeypatch.setattr(cka_matrices, "MEMORY", 100)
    rounds, (warned,) = measured_rounds(1)
    assert rounds == []
    assert warned.startswith("CKA is not measured: the layers' outputs for ")
    assert warned.endswith("Use cka.every=10 with fewer cka.layers or a smaller cka.probe.")
    assert measured_rounds(1, cka={"every": 1}) == ([1], [])

    def fails(*_: object) -> None:
        raise MemoryError("no 3 GiB are left")

    monkeypatch.setattr(cka_matrices, "measure", fails)
    assert measured_rounds(1) == ([], ["CKA is not measured: no 3 GiB are left"])


def test_measuring_cka_and_evaluating_the_aggregated_model_change_no_state() -> None:
    plain, measured, aggregated = (
        federations.run(built("fedavg", **sections).engine, 2)
        for sections in ({}, {"cka": {"every": 1}}, {"evaluation": {"model": "aggregated"}})
    )
    for other in (measured, aggregated):
        assert federations.state_bits(plain) == federations.state_bits(other)


def cka(name: str, rounds: int = 1, **sections: Any) -> Any:
    """CKA as the last round's record has it, all four clients of one architecture."""
    settings = {"federation": {"group": "tiny_cnn"}, "cka": {"every": 1}}
    engine = federations.built(federations.config(name, **{**settings, **sections})).engine
    record = federations.run(engine, rounds).record
    assert record is not None
    return record["cka"]


def test_cka_compares_the_models_that_are_evaluated() -> None:
    """Clients that would receive the same model are alike in every layer; those that training left are not."""
    aggregated = cka("fedavg", evaluation={"model": "aggregated"})
    assert set(aggregated["layers"].values()) == {1.0}
    local = cka("fedavg")
    assert all(value < 1.0 for value in local["layers"].values())
    asked = cka("fedavg", cka={"every": 1, "model": "aggregated"})
    assert asked == aggregated


def test_clients_that_have_never_taken_part_are_left_out_of_cka_or_counted() -> None:
    """Three of four clients take part in round 1."""
    out, counted = (cka("fedavg", cka={"every": 1, "untrained": each}) for each in (False, True))
    for matrix in out["matrix"].values():
        assert sum(value is not None for row in matrix for value in row) == 3 * 3
    for matrix in counted["matrix"].values():
        assert all(value is not None for row in matrix for value in row)


def test_a_layer_that_no_model_has_is_refused_before_round_1() -> None:
    with pytest.raises(ConfigError, match="stage9"):
        federations.built(federations.config("standalone", cka={"every": 1, "layers": ["stage9"]}))
