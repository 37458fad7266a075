"""FedProx: cross-entropy and the squared distance to the received model, by hand."""

import math

import pytest
import torch

from simulator.base.tensors import part
from simulator.methods.fedprox import FedProx
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(**options: float) -> FedProx:
    return sharing.method("fedprox", ["tiny_cnn"], [4], **options)


def received(scale: float) -> dict[str, torch.Tensor]:
    return {f"received/{name}": tensor for name, tensor in Plain(scale).state_dict().items()}


def test_the_loss_adds_half_mu_times_the_squared_distance() -> None:
    """Logits (1, 0) of class 0: CE = log(1 + e⁻¹). Of all weights only the scale differs from the received, 1 from 3,
    so ‖w − w^{t−1}‖² = 4, and μ/2 = 0.05 makes it 0.2."""
    loss = method(mu=0.1).loss(Nets(Plain(1.0)), received(3.0), batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)) + 0.2, rel=1e-12)


def test_the_distance_is_to_what_the_server_sent() -> None:
    parts, _, state, local = sharing.working("fedprox", 1, receives=False)
    payload = parts.method.downlink(1, state.server, parts.federation.clients[1])
    parts.method.receive(local, payload)
    (phase,) = parts.method.phases(local)
    assert federations.bits(part(phase.state, "received")) == federations.bits(part(payload, "model"))


def test_without_mu_it_is_fedavg() -> None:
    end = [
        federations.run(federations.built(federations.config(name, method=options)).engine, 2).server
        for name, options in (("fedprox", {"mu": 0.0}), ("fedavg", {}))
    ]
    assert federations.bits(end[0]) == federations.bits(end[1])
