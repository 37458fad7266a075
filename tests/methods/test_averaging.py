"""Methods that average models or parts of them, by hand: FedAvg, FedPer, FedRep, LG-FedAvg, Ditto, MOON; Standalone."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from simulator import models
from simulator.base.tensors import floating, of_module, part
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

CE = math.log1p(math.exp(-1))
"""Cross-entropy of the logits (1, 0) for class 0."""


def filled(method: Any, client: int, value: float) -> Uplink:
    """An uplink in which every number is `value`."""
    info = method.federation.clients[client]
    payload = method.downlink(1, method.init_server(), info)
    return Uplink(info, {name: torch.full_like(tensor, value) for name, tensor in payload.items()})


# Standalone


def test_standalone_trains_by_sgd_and_nothing_travels() -> None:
    """One batch holds all of a client's data, so a round is w − η ∇ℓ(w), computed here without the runner."""
    parts = federations.built(federations.config("standalone", training={"batch_size": 1000, "lr": 0.5}))
    start = parts.engine.initial_state()
    end: Any = parts.engine.round(start, unobserved)
    assert end.record["bytes"]["up"] == end.record["bytes"]["down"] == 0
    client = end.record["participants"][0]
    assert parts.federation.clients[client].architecture == "tiny_cnn"  # which has no dropout
    model = models.build("tiny_cnn", parts.federation.spec, parts.data.num_classes, torch.Generator())
    model.load_state_dict(part(start.clients[client], "model"))
    x, y = parts.data.batch(parts.data.clients[client].train)
    F.cross_entropy(model(x), y).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(end.clients[client][f"model/{name}"], parameter - 0.5 * parameter.grad)


# FedAvg


def test_each_architecture_averages_apart_and_one_that_nobody_sent_stays() -> None:
    """The CNNs (n = 1, 1) meet at (2 + 4)/2 = 3; the MLP, alone in its group, stays at 10."""
    fedavg = sharing.method("fedavg", ["tiny_cnn", "tiny_mlp", "tiny_cnn"], [1, 100, 1])
    start = fedavg.init_server()
    uplinks = [filled(fedavg, 0, 2.0), filled(fedavg, 1, 10.0), filled(fedavg, 2, 4.0)]
    server = fedavg.aggregate(1, start, uplinks).server
    for architecture, value in (("tiny_cnn", 3.0), ("tiny_mlp", 10.0)):
        assert all((each == value).all() for each in floating(part(server, architecture)).values())
    server = fedavg.aggregate(1, start, uplinks[:1]).server
    assert federations.bits(part(server, "tiny_mlp")) == federations.bits(part(start, "tiny_mlp"))


def test_a_client_receives_all_but_its_own_counter() -> None:
    _, method, state, local = sharing.working("fedavg", 1, receives=False)
    payload = method.downlink(1, state.server, local.info)
    assert "model/norm.running_mean" in payload and "model/norm.num_batches_tracked" not in payload
    local.nets.model.get_buffer("norm.num_batches_tracked").fill_(5)
    method.receive(local, payload)
    expected = part(state.server, "tiny_mlp") | {"norm.num_batches_tracked": torch.tensor(5)}
    assert federations.bits(part(local.tensors(), "model")) == federations.bits(expected)


# FedPer


def test_in_fedper_a_client_keeps_the_head_that_it_trained_and_receives_the_mean_body() -> None:
    """n = 1 and 3: (4 + 3·8)/4 = 7."""
    method = sharing.method("fedper", ["tiny_cnn", "tiny_cnn"], [1, 3])
    server = method.init_server()
    ends = [
        sharing.trained_to(method, client, server, sharing.start(method, client), value)
        for client, value in enumerate((4.0, 8.0))
    ]
    after = method.aggregate(1, server, [uplink for _, uplink in ends]).server
    assert not [name for name in (*after, *ends[0][1].payload) if "head." in name]
    local = sharing.at_work(method, 0, ends[0][0], round=2)
    method.receive(local, method.downlink(2, after, local.info))
    for name, value in local.nets.model.named_parameters():
        assert (value == (4.0 if name.startswith("head.") else 7.0)).all()


def test_a_switch_takes_over_the_body_of_fedavg() -> None:
    fedavg, fedper = (sharing.method(name, ["tiny_cnn", "tiny_mlp"]) for name in ("fedavg", "fedper"))
    server = {name: tensor + 1 for name, tensor in fedavg.init_server().items()}
    adopted = fedper.adopt(server)
    assert adopted.keys() == fedper.init_server().keys()
    assert all(torch.equal(adopted[name], server[name]) for name in adopted)


# FedRep


def test_in_fedrep_the_head_learns_first_and_then_the_body() -> None:
    """Logits (1, 0) of class 0: the gradient of the head's bias is softmax − one-hot = (−p, p), p = 1/(1 + e). The
    features are scale · (1, 0), and the head is the identity: dCE/dscale = −p."""
    fedrep, p = sharing.method("fedrep", ["tiny_cnn"], [4]), 1 / (1 + math.e)
    nets = Nets(Plain())
    loss = fedrep.head_loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    assert loss.item() == pytest.approx(CE, rel=1e-12)
    assert nets.model.head.bias.grad.tolist() == pytest.approx([-p, p], rel=1e-12)
    assert nets.model.scale.grad is None
    nets = Nets(Plain())
    fedrep.body_loss(nets, {}, batch((1, 0, 0)), {}).backward()
    assert nets.model.scale.grad.item() == pytest.approx(-p, rel=1e-12)  # type: ignore[union-attr,operator]
    assert nets.model.head.weight.grad is None


def test_momentum_and_weight_decay_leave_the_fixed_part_alone() -> None:
    """In the phase of the head, the whole body keeps its bits; in that of the body, the head does."""
    training = {"momentum": 0.9, "weight_decay": 0.1, "epochs": 1}
    _, fedrep, _, local = sharing.working(
        "fedrep", receives=False, options={"head_epochs": 3}, training=training
    )
    head, body = fedrep.phases(local)
    assert (local.epochs(head), local.epochs(body)) == (3, 1)
    for phase, moving in ((head, True), (body, False)):
        before = {name: value.clone() for name, value in local.nets.model.named_parameters()}
        for _ in steps(local, phase):
            pass
        moved = {name for name, value in local.nets.model.named_parameters() if not value.equal(before[name])}
        assert moved == {name for name in before if name.startswith("head.") == moving}


# LG-FedAvg


def test_in_lg_fedavg_a_client_replaces_its_head_and_nothing_else() -> None:
    for client in range(2):
        _, _, state, local = sharing.working("lg_fedavg", client)
        head = {f"model/{name.replace('/', '.')}": tensor for name, tensor in state.server.items()}
        assert head.keys() == {"model/head.weight", "model/head.bias"}
        assert federations.bits(local.tensors()) == federations.bits(state.clients[client] | head)


def test_a_head_is_adopted_whole_or_not_at_all() -> None:
    """A weight that fits stays out with a bias that does not; what a head lacks here is left behind."""
    method = sharing.method("lg_fedavg", ["tiny_cnn"])
    fits = {"head/weight": torch.ones(2, 8), "head/bias": torch.ones(2)}
    assert federations.bits(method.adopt(fits | {"head/scale": torch.ones(1)})) == federations.bits(fits)
    assert method.adopt(fits | {"head/bias": torch.ones(3)}) == {}


# Ditto


def test_in_ditto_a_clients_own_model_starts_at_the_first_received_one_and_does_not_travel() -> None:
    ditto = sharing.method("ditto", ["tiny_cnn"], [4])
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    assert federations.bits(part(local.tensors(), "model")) == federations.bits(part(server, "tiny_cnn"))
    with torch.no_grad():
        local.nets["shared"].get_parameter("fc1.bias").fill_(2.0)
        local.nets.model.get_parameter("fc1.bias").fill_(3.0)
    assert (ditto.uplink(local)["model/fc1.bias"] == 2.0).all()
    later = sharing.at_work(ditto, 0, local.tensors())
    ditto.receive(later, ditto.downlink(2, server, later.info))
    assert (part(later.tensors(), "model")["fc1.bias"] == 3.0).all()


# MOON


def test_moon_contrasts_the_received_model_with_the_previous_one() -> None:
    """z = (1, 0), z_glob = (2, 0), z_prev = (−1, 0): similarities 1 and −1. With τ = ½ and μ = 3,
    ℓ_con = −log(e²/(e² + e⁻²)) = log(1 + e⁻⁴)."""
    nets = Nets(Plain(1.0))
    nets["global"], nets["previous"] = Plain(2.0), Plain(-1.0)
    loss = sharing.method("moon", ["tiny_cnn"], [4], mu=3.0, tau=0.5).loss(nets, {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(CE + 3 * math.log1p(math.exp(-4)), rel=1e-12)


def test_the_previous_model_is_the_one_the_last_local_training_left() -> None:
    parts = federations.built(federations.config("moon", federation={"participation": 1.0}))
    state = federations.run(parts.engine, 2)
    for client in (0, 1):
        local = federations.local(parts, client, state.clients[client], round=3)
        payload = parts.method.downlink(3, state.server, local.info)
        parts.method.receive(local, payload)
        kept = part(state.clients[client], "model")
        for name, expected in {"previous": kept, "global": kept | part(payload, "model")}.items():
            assert federations.bits(of_module(local.nets[name])) == federations.bits(expected)
        assert federations.bits(of_module(local.nets.model)) == federations.bits(expected)


def test_in_its_first_round_a_client_contrasts_equal_networks_and_in_older_sessions_its_own_draw() -> None:
    """So that the contrast is log 2 whatever the temperature, and teaches nothing."""
    for first in ("equal", "own"):
        _, _, state, local = sharing.working("moon", options={"first": first})
        received = of_module(local.nets["global"])
        expected = received if first == "equal" else part(state.clients[0], "model")
        assert federations.bits(of_module(local.nets["previous"])) == federations.bits(expected)
    assert local.state == {}
