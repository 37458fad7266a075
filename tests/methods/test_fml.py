"""FML: two networks that teach each other, of which the small one travels; by hand."""

import math
from typing import Any

import pytest
import torch

from simulator.methods.base import divergence
from simulator.methods.fml import FML
from simulator.models.federation import Federation
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(federation: Federation | None = None, **options: Any) -> FML:
    federation = federation or federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2])
    return sharing.of("fml", federation, **options)


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
