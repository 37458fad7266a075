"""FedRep: first the head, then the body, each with the other one fixed."""

import math

import pytest

from simulator.methods.fedrep import FedRep
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

P_WRONG = 1 / (1 + math.e)
"""The share of the other class in the softmax of the logits (1, 0)."""


def method(**options: object) -> FedRep:
    return sharing.method("fedrep", ["tiny_cnn"], [4], **options)


def test_the_head_learns_first_and_the_body_stays() -> None:
    """Logits (1, 0) of class 0: the gradient of the head's bias is softmax − one-hot = (−p, p), p = 1/(1 + e)."""
    nets = Nets(Plain())
    loss = method().head_loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)), rel=1e-12)
    assert nets.model.head.bias.grad.tolist() == pytest.approx([-P_WRONG, P_WRONG], rel=1e-12)
    assert nets.model.scale.grad is None


def test_then_the_body_learns_and_the_head_stays() -> None:
    """The features are scale · (1, 0), and the head is the identity: dCE/dscale = −p · 1 + p · 0."""
    nets = Nets(Plain())
    loss = method().body_loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)), rel=1e-12)
    assert nets.model.scale.grad.item() == pytest.approx(-P_WRONG, rel=1e-12)
    assert nets.model.head.weight.grad is None


def test_the_head_trains_its_own_epochs_and_the_body_those_of_the_run() -> None:
    parts, _, _, local = sharing.working(
        "fedrep", receives=False, options={"head_epochs": 3}, training={"epochs": 2}
    )
    head, body = parts.method.phases(local)
    assert (local.epochs(head), local.epochs(body)) == (3, 2)


def test_momentum_and_weight_decay_leave_the_fixed_part_alone() -> None:
    """In the phase of the head, the whole body keeps its bits; in that of the body, the head does."""
    training = {"momentum": 0.9, "weight_decay": 0.1, "epochs": 1}
    parts = federations.built(federations.config("fedrep", method={"head_epochs": 1}, training=training))
    state = parts.engine.initial_state()
    local = federations.local(parts, 0, state.clients[0])
    for phase, moving in zip(parts.method.phases(local), ("head.", ""), strict=True):
        before = {name: value.clone() for name, value in local.nets.model.named_parameters()}
        for _ in steps(local, phase):
            pass
        moved = {name for name, value in local.nets.model.named_parameters() if not value.equal(before[name])}
        assert moved == {name for name in before if name.startswith("head.") == bool(moving)}
