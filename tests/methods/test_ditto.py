"""Ditto: FedAvg on the shared model, and beside it a model that is held near it and answers."""

import math

import pytest
import torch

from simulator.base.tensors import part
from simulator.engine.progress import unobserved
from simulator.methods.ditto import Ditto
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(**options: float) -> Ditto:
    return sharing.method("ditto", ["tiny_cnn"], [4], **options)


def received(scale: float) -> dict[str, torch.Tensor]:
    return {f"received/{name}": tensor for name, tensor in Plain(scale).state_dict().items()}


def test_the_own_loss_adds_half_lambda_times_the_squared_distance() -> None:
    """Logits (1, 0) of class 0. Only the scale differs from the received one, 1 from 3: log(1 + e⁻¹) + ½ · 2 · 4."""
    loss = method(lam=2.0).own_loss(Nets(Plain(1.0)), received(3.0), batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)) + 4, rel=1e-12)


def test_a_clients_own_model_starts_at_the_first_received_one_and_then_continues() -> None:
    ditto = method()
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    own = part(local.tensors(), "model")
    assert federations.bits(own) == federations.bits(part(server, "tiny_cnn"))
    later = sharing.at_work(
        ditto, 0, local.tensors() | sharing.filled({"model/fc1.bias": own["fc1.bias"]}, 5.0)
    )
    ditto.receive(later, ditto.downlink(2, server, later.info))
    assert (part(later.tensors(), "model")["fc1.bias"] == 5.0).all()


def test_the_shared_model_travels_and_the_own_one_does_not() -> None:
    ditto = method()
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    with torch.no_grad():
        local.nets["shared"].get_parameter("fc1.bias").fill_(2.0)
        local.nets.model.get_parameter("fc1.bias").fill_(3.0)
    assert (ditto.uplink(local)["model/fc1.bias"] == 2.0).all()
    assert (part(local.tensors(), "model")["fc1.bias"] == 3.0).all()


def test_the_server_is_that_of_fedavg_bit_for_bit() -> None:
    """The own models take nothing from the shared one: it sees the same batches in the same order."""
    end = [
        federations.run(federations.built(federations.config(name)).engine, 2).server
        for name in ("ditto", "fedavg")
    ]
    assert federations.bits(end[0]) == federations.bits(end[1])


def test_a_large_lambda_holds_the_own_model_near_the_received_one() -> None:
    """η = 0.01 and λ = 50: a step keeps half of the distance."""

    def moved(lam: float) -> float:
        config = federations.config("ditto", method={"lam": lam}, training={"lr": 0.01, "epochs": 3})
        parts = federations.built(config)
        start = parts.engine.initial_state()
        end = parts.engine.round(start, unobserved)
        return float((end.clients[0]["model/fc1.weight"] - start.server["tiny_cnn/fc1.weight"]).norm())

    assert moved(50.0) < moved(0.0) / 3
