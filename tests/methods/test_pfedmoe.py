"""pFedMoE: mixtures, a gate, and traffic by hand; two whole rounds against a reference."""

import math
from typing import Any

import torch
from torch import Tensor

from simulator.base.tensors import Tensors, part
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec
from simulator.engine.progress import Event, Warned
from simulator.methods.pfedmoe import Gate, PFedMoE
from simulator.models.network import NoHead
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import Times, ce, features, of_head

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)


def method(*architectures: str, **options: Any) -> PFedMoE:
    return sharing.of("pfedmoe", federations.federation(architectures or (WIDE, HALF)), **options)


def gate(spec: InputSpec, shares: Tensor, reads: Tensor | None = None) -> Gate:
    """A gate of two hidden numbers, whose last layer has these weights [2, 2] and the biases log 1 and log 3."""
    made = Gate(spec, 2)
    weights = made.state_dict() | {
        "reads.weight": torch.eye(2) if reads is None else reads,
        "norm.weight": torch.ones(2),
        "norm.bias": torch.zeros(2),
        "shares.weight": shares,
        "shares.bias": torch.tensor([0.0, math.log(3)]),
    }
    if "reads.bias" in weights:
        weights["reads.bias"] = torch.zeros(2)
    made.load_state_dict(weights)
    return made


def nets() -> Nets:
    """G(x) = x, F(x) = 3x, shares 1/4 and 3/4 for every sample; the own head's logits are (mixture, 0)."""
    small = Times(1.0, 1)
    small.head = NoHead(1, 2)  # type: ignore[assignment]
    return Nets(
        Times(3.0, 0), small=small, gate=gate(ImageSpec(1, 1, 1), torch.zeros(2, 2), torch.zeros(2, 1))
    )


def test_the_own_head_reads_the_mixture_of_both_features() -> None:
    """x = 1: 1/4 · 1 + 3/4 · 3 = 2.5."""
    torch.testing.assert_close(method().predict(nets(), {}, PIXEL), torch.tensor([[2.5, 0.0]]))


def test_of_tokens_the_gate_reads_the_fraction_of_each_word() -> None:
    """Words 1 and 2 have the vectors (1, 0) and (0, 1). Padding counts for nothing, so three ways to write a half of
    each give the same, and a third of word 1 gives another."""
    vectors = torch.tensor([[9.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    made = gate(TokenSpec(4, 3), torch.eye(2), vectors)
    shares = made(torch.tensor([[1, 2, 0, 0], [2, 1, 0, 0], [2, 2, 1, 1], [1, 2, 2, 0]]))
    torch.testing.assert_close(shares[:3], torch.tensor([[0.25, 0.75]]).expand(3, 2))
    assert shares[3, 0] < 0.25  # (1/3, 2/3) has less of word 1


def test_narrower_or_wider_features_of_the_small_model_are_pooled_to_the_clients_width() -> None:
    """G's four numbers of tiny_cnn_w2 are each used twice beside tiny_cnn's eight, and the reverse are means of two."""
    for own, small, spread in ((WIDE, HALF, True), (HALF, WIDE, False)):
        moe = method(own, small=small)
        networks = {
            name: moe.federation.build(name, moe.federation.stream(name)).eval() for name in (own, small)
        }
        only_small = gate(ImageSpec(1, 8, 8), torch.zeros(2, 2), torch.zeros(2, 64))
        only_small.shares.bias.data = torch.tensor([100.0, 0.0])
        x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        g = networks[small].features(x)
        expected = g.repeat_interleave(2, 1) if spread else (g[:, ::2] + g[:, 1::2]) / 2
        found = moe.predict(Nets(networks[own], small=networks[small], gate=only_small), {}, x)
        torch.testing.assert_close(found, networks[own].head(expected))
        moe.check()


def test_stacked_clients_train_in_bf16_too() -> None:
    """Where they cannot be stacked, a warning says so."""
    told: list[Event] = []
    config = federations.config(
        "pfedmoe",
        federation={"participation": 1.0, "group": WIDE},
        training={"precision": "bf16"},
        runtime={"runner": "stacked"},
    )
    federations.run(federations.built(config).engine, 1, told.append)
    assert not [event for event in told if isinstance(event, Warned) and "stacked" in event.message]


def shares_of(w: Tensors, x: Tensor) -> Tensor:
    """The gate by hand: LayerNorm and softmax written out."""
    h = x.flatten(1) @ w["reads.weight"].T + w["reads.bias"]
    h = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    h = 1 / (1 + (-(h * w["norm.weight"] + w["norm.bias"])).exp())
    e = (h @ w["shares.weight"].T + w["shares.bias"]).exp()
    return e / e.sum(1, keepdim=True)


def test_two_whole_rounds_equal_the_reference() -> None:
    """Clients of 8 and 4 features, and an extractor of 4."""
    lr = 0.1
    config = federations.config(
        "pfedmoe",
        method={"gate_hidden": 6},
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, gates, shared = ran.of_clients("model"), ran.of_clients("gate"), part(ran.server, "small")
    for t in (1, 2):
        smalls = [reference.leaves(shared) for _ in models]
        for client, (small, own, gate) in enumerate(zip(smalls, models, gates, strict=True)):
            for x, y in ran.batches("model", t, client):
                f, g = features(own, x), features(small, x)
                g = g if g.shape == f.shape else g.repeat_interleave(2, 1)
                shares = shares_of(gate, x)
                ce(of_head(own, shares[:, :1] * g + shares[:, 1:] * f), y).backward()
                reference.step([*small.values(), *own.values(), *gate.values()], lr)
        shared = ran.mean(smalls)
    ran.assert_ended({"small": shared}, {"model": models, "gate": gates})
