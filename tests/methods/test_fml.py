"""FML: two networks that teach each other, of which the small one travels; by hand."""

import math
from typing import Any

import pytest
import torch

from simulator.base.errors import ConfigError
from simulator.base.tensors import of_module
from simulator.methods import Uplink
from simulator.methods.base import divergence
from simulator.methods.fml import FML
from simulator.models import ImageShape
from simulator.models.federation import Federation
from simulator.training.phase import Nets
from tests import federations
from tests.networks import Plain, batch


def method(federation: Federation | None = None, **options: Any) -> FML:
    federation = federation or federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2])
    return FML(federations.config("fml", method=options).method, federation)


def pair() -> Nets:
    """A local model whose logits are the pixels, and a meme whose logits are minus the pixels."""
    nets = Nets(Plain(1.0))
    nets["meme"] = Plain(-1.0)
    return nets


def test_divergence_by_hand() -> None:
    """p = softmax(log 3, 0) = (¾, ¼), q = (½, ½): KL(p ‖ q) = ¾ log(3/2) + ¼ log(1/2), and half of it in the mean
    with a second sample on which both agree."""
    teacher = torch.tensor([[math.log(3), 0.0], [1.0, 2.0]], dtype=torch.float64)
    student = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    expected = (0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 2
    assert divergence(teacher, student).item() == pytest.approx(expected, rel=1e-13)


def test_only_the_student_learns_from_the_divergence() -> None:
    """The gradient for the student's logits is q − p, over the batch."""
    teacher = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64, requires_grad=True)
    student = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    divergence(teacher, student).backward()
    assert teacher.grad is None
    torch.testing.assert_close(student.grad, torch.tensor([[-0.25, 0.25]], dtype=torch.float64))


def test_the_loss_is_the_sum_of_both_networks_losses() -> None:
    """Logits (1, 0) and (−1, 0) of class 0, so with σ = 1/(1 + e⁻¹) the softmaxes are (σ, 1−σ) and (1−σ, σ). CE:
    −log σ and −log(1−σ). Either KL is (2σ − 1) log(σ/(1−σ)) = 2σ − 1. α = ¾, β = ¼."""
    sigma = 1 / (1 + math.exp(-1))
    local = 0.75 * -math.log(sigma) + 0.25 * (2 * sigma - 1)
    meme = 0.25 * -math.log(1 - sigma) + 0.75 * (2 * sigma - 1)
    loss = method(alpha=0.75, beta=0.25).loss(pair(), {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(local + meme, rel=1e-13)


def test_each_loss_reaches_its_own_network_alone() -> None:
    """With z = scale · (1, 0) the gradient of CE is q_0 − 1 and that of KL is q_0 − p_0, times 1 for the scale's pixel.
    Local: q_0 = σ, p_0 = 1 − σ, so ¾(σ − 1) + ¼(2σ − 1); meme: q_0 = 1 − σ, so ¼(−σ) + ¾(1 − 2σ)."""
    sigma = 1 / (1 + math.exp(-1))
    nets = pair()
    method(alpha=0.75, beta=0.25).loss(nets, {}, batch((1, 0, 0)), {}).backward()
    assert nets.model.scale.grad.item() == pytest.approx(
        0.75 * (sigma - 1) + 0.25 * (2 * sigma - 1), rel=1e-12
    )
    assert nets["meme"].scale.grad.item() == pytest.approx(0.25 * -sigma + 0.75 * (1 - 2 * sigma), rel=1e-12)


def test_the_meme_is_the_smallest_architecture_unless_another_is_named() -> None:
    shape = ImageShape(3, 32, 32)
    htm5 = federations.federation(["cnn1", "cnn5", "cnn2"], num_classes=10, shape=shape)
    assert method(htm5).small == "cnn5"
    assert method(htm5, meme="tiny_cnn").small == "tiny_cnn"
    assert "meme/conv1.weight" in method(htm5, meme="tiny_cnn").init_server()


def test_a_meme_there_is_not_or_that_does_not_fit_the_images_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown model 'tiny'"):
        method(meme="tiny").check()
    with pytest.raises(ConfigError, match=r"'cnn5' needs images of at least 16×16"):
        method(meme="cnn5").check()


def test_the_meme_is_the_mean_weighted_by_training_samples_and_counters_stay() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8, BatchNorm's statistics included; its counter does not travel."""
    fml = method(meme="tiny_mlp")
    start = fml.init_server()
    payload = fml.downlink(1, start, fml.federation.clients[0])
    uplinks = [
        Uplink(client, {name: torch.full_like(tensor, value) for name, tensor in payload.items()})
        for client, value in zip(fml.federation.clients, (4.0, 8.0, 10.0), strict=True)
    ]
    server, _ = fml.aggregate(1, start, uplinks)
    assert server.keys() - payload.keys() == {"meme/norm.num_batches_tracked"}
    assert "meme/norm.running_mean" in payload
    assert all((server[name] == 8.0).all() for name in payload)
    assert torch.equal(server["meme/norm.num_batches_tracked"], start["meme/norm.num_batches_tracked"])


def test_both_networks_are_trained_and_only_the_meme_travels() -> None:
    parts = federations.built(federations.config("fml"))
    state = parts.engine.initial_state()
    info = parts.federation.clients[1]  # a tiny_mlp, while the meme is a tiny_cnn
    payload = {name: t.clone() for name, t in parts.method.downlink(1, state.server, info).items()}
    done = federations.updated(parts, 1, state.clients[1], payload)
    assert set(done.uplink) == {
        f"meme/{name}" for name in of_module(parts.federation.architectures["tiny_cnn"])
    }
    assert all(not torch.equal(tensor, state.server[name]) for name, tensor in done.uplink.items())
    assert done.tensors.keys() == state.clients[1].keys()
    assert not torch.equal(done.tensors["model/head.weight"], state.clients[1]["model/head.weight"])


def test_the_local_model_alone_answers() -> None:
    x = batch((1, 2, 0)).x
    assert method().predict(pair(), {}, x).tolist() == [[1.0, 2.0]]
