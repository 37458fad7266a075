"""FedMRL: nested widths of a projected representation by hand; two whole rounds against a reference."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.methods.fedmrl import FedMRL
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import Times, ce, features, of_head

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"


def method(*architectures: str, **options: Any) -> FedMRL:
    return sharing.of("fedmrl", federations.federation(architectures or (WIDE, HALF)), **options)


def nets() -> Nets:
    """G(x) = x, F(x) = 3x, v = G + 2F; the own head's logits are (v, 0), the small one's (0, v)."""
    projection = nn.Linear(2, 1)
    projection.load_state_dict({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.zeros(1)})
    return Nets(Times(3.0, 0), small=Times(1.0, 1), projection=projection)


def test_the_answer_is_the_own_heads_on_the_whole_projected_representation() -> None:
    """x = 1: u = (1, 3), v = 1·1 + 2·3 = 7."""
    fedmrl = method(d_1=1)
    assert fedmrl.predict(nets(), {}, torch.ones(1, 1, 1, 1)).tolist() == [[7.0, 0.0]]


def test_a_narrower_head_is_drawn_from_the_servers_stream_too() -> None:
    """The same weights each time, and other ones under another seed."""
    fedmrl = method(d_1=2)
    other = FedMRL(fedmrl.config, replace(fedmrl.federation, seed=8))
    heads = [each.init_server()["small/head.weight"] for each in (fedmrl, fedmrl, other)]
    assert heads[0].shape == (2, 2)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


def test_features_narrower_than_the_small_models_are_refused_by_client() -> None:
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn_w2\) has 4; lower method.d_1"):
        method(small=WIDE).check()
    method(small=WIDE, d_1=4).check()


def test_two_whole_rounds_equal_the_reference() -> None:
    """Clients of 8 and 4 features; of the small model's 4, the means of two neighbors each are used."""
    lr = 0.1
    config = federations.config(
        "fedmrl",
        method={"d_1": 2, "m_small": 0.5, "m_large": 2.0},
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, projections = ran.of_clients("model"), ran.of_clients("projection")
    shared = part(ran.server, "small")
    for t in (1, 2):
        smalls = [reference.leaves(shared) for _ in models]
        for client, (small, own, projection) in enumerate(zip(smalls, models, projections, strict=True)):
            for x, y in ran.batches("model", t, client):
                g = features(small, x)
                u = torch.cat([(g[:, ::2] + g[:, 1::2]) / 2, features(own, x)], 1)
                v = u @ projection["weight"].T + projection["bias"]
                (0.5 * ce(of_head(small, v[:, :2]), y) + 2.0 * ce(of_head(own, v), y)).backward()
                reference.step([*small.values(), *own.values(), *projection.values()], lr)
        shared = ran.mean(smalls)
    ran.assert_ended({"small": shared}, {"model": models, "projection": projections})
