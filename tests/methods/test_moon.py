"""MOON: the model-contrastive loss and whom it contrasts, by hand."""

import math

import pytest
from torch import Tensor

from simulator.base.tensors import of_module, part
from simulator.methods.moon import MOON
from simulator.training.client import LocalClient
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(**options: float) -> MOON:
    return sharing.method("moon", ["tiny_cnn"], [4], **options)


def three(model: float, received: float, previous: float) -> Nets:
    nets = Nets(Plain(model))
    nets["global"], nets["previous"] = Plain(received), Plain(previous)
    return nets


CE = math.log1p(math.exp(-1))
"""Cross-entropy of the logits (1, 0) for class 0."""


def test_the_loss_by_hand() -> None:
    """z = (1, 0), z_glob = (2, 0), z_prev = (−1, 0): similarities 1 and −1. With τ = ½ and μ = 3,
    ℓ_con = −log(e²/(e² + e⁻²)) = log(1 + e⁻⁴)."""
    loss = method(mu=3.0, tau=0.5).loss(three(1.0, 2.0, -1.0), {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(CE + 3 * math.log1p(math.exp(-4)), rel=1e-12)


def test_the_previous_model_is_the_one_the_last_local_training_left() -> None:
    parts = federations.built(federations.config("moon", federation={"participation": 1.0}))
    state = federations.run(parts.engine, 2)
    for client in (0, 1):
        info = parts.federation.clients[client]
        local = federations.local(parts, client, state.clients[client], round=3)
        parts.method.receive(local, parts.method.downlink(3, state.server, info))
        kept = part(state.clients[client], "model")
        received = kept | part(parts.method.downlink(3, state.server, info), "model")
        assert federations.bits(of_module(local.nets["previous"])) == federations.bits(kept)
        assert federations.bits(of_module(local.nets["global"])) == federations.bits(received)
        assert federations.bits(of_module(local.nets.model)) == federations.bits(received)


def first_round(first: str) -> tuple[LocalClient, dict[str, Tensor]]:
    """A client that receives for the first time, and its own initial draw."""
    _, _, state, local = sharing.working("moon", options={"first": first})
    return local, part(state.clients[0], "model")


def test_in_its_first_round_a_client_contrasts_equal_networks() -> None:
    """So that the contrast is log 2 whatever the temperature, and teaches nothing."""
    local, _ = first_round("equal")
    assert federations.bits(of_module(local.nets["previous"])) == federations.bits(
        of_module(local.nets["global"])
    )


def test_sessions_from_before_contrast_with_the_clients_own_draw() -> None:
    local, own = first_round("own")
    assert federations.bits(of_module(local.nets["previous"])) == federations.bits(own)
    assert local.state == {}
