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
    fedprox = sharing.method("fedprox", ["tiny_cnn"], [4], **options)
    assert isinstance(fedprox, FedProx)
    return fedprox


def received(scale: float) -> dict[str, torch.Tensor]:
    return {f"received/{name}": tensor for name, tensor in Plain(scale).state_dict().items()}


def test_the_loss_adds_half_mu_times_the_squared_distance() -> None:
    """Logits (1, 0) of class 0: CE = log(1 + e⁻¹). Of all weights only the scale differs from the received, 1 from 3,
    so ‖w − w^{t−1}‖² = 4, and μ/2 = 0.05 makes it 0.2."""
    loss = method(mu=0.1).loss(Nets(Plain(1.0)), received(3.0), batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)) + 0.2, rel=1e-12)


def test_the_gradient_pulls_towards_the_received_model() -> None:
    """μ(w − w^{t−1}) = 0.1 · (1 − 3) = −0.2 beside the gradient of CE, which μ = 0 leaves alone."""
    gradients = []
    for mu in (0.1, 0.0):
        nets = Nets(Plain(1.0))
        method(mu=mu).loss(nets, received(3.0), batch((1, 0, 0)), {}).backward()
        gradients.append(nets.model.scale.grad.item())
    assert gradients[0] - gradients[1] == pytest.approx(-0.2, rel=1e-12)


def test_the_distance_is_to_what_the_server_sent() -> None:
    parts = federations.built(federations.config("fedprox"))
    state = parts.engine.initial_state()
    local = federations.local(parts, 1, state.clients[1])
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


def test_a_large_mu_holds_every_client_near_the_received_model() -> None:
    """η = 0.01 and μ = 50: a step keeps half of the distance, so clients move far less than without."""

    def moved(mu: float) -> float:
        config = federations.config("fedprox", method={"mu": mu}, training={"lr": 0.01, "epochs": 3})
        parts = federations.built(config)
        start = parts.engine.initial_state()
        end = parts.engine.round(start, lambda event: None)
        key = "tiny_cnn/fc1.weight"
        return float((end.server[key] - start.server[key]).norm())

    assert moved(50.0) < moved(0.0) / 3
