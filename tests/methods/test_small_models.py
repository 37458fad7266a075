"""Small networks that travel beside the clients' own models: FML, FedMRL, pFedAFM, pFedMoE, and pFedES. Losses by hand,
and two whole rounds of each against a reference."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, part
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec
from simulator.engine.progress import Event, Warned
from simulator.methods.fedmrl import FedMRL
from simulator.methods.means import divergence
from simulator.methods.pfedafm import Mixture
from simulator.methods.pfedmoe import Gate
from simulator.models.network import NoHead
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import Rounds, Times, Weights, ce, features, logits, of_head
from tests.networks import Plain, batch

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)
LR = 0.1
Train = Callable[[Rounds, int, int, Weights, Weights, dict[str, Weights]], None]
"""A client's training in round t, of a copy of the small network that all received, and of its own networks."""


def both(name: str, *architectures: str, **options: Any) -> Any:
    """The method over a client of 8 features and one of 4."""
    return sharing.of(name, federations.federation(architectures or (WIDE, HALF)), **options)


def assert_as_reference(name: str, shared: str, own: tuple[str, ...], train: Train, **options: Any) -> Rounds:
    """Two rounds of clients of 8, 4, and 8 features. The small network has 4."""
    config = federations.config(
        name,
        method=options,
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": LR},
    )
    ran = Rounds(config, 2)
    networks, now = {each: ran.of_clients(each) for each in own}, part(ran.server, shared)
    for t in (1, 2):
        received, copies = now, [reference.leaves(now) for _ in ran.data]
        for client, copy in enumerate(copies):
            train(ran, t, client, received, copy, {each: networks[each][client] for each in own})
        now = ran.mean(copies)
    ran.assert_ended({shared: now}, networks)
    return ran


def pooled(g: Tensor, like: Tensor) -> Tensor:
    """Features of 4 at the width of these: each twice, or as they are."""
    return g if g.shape == like.shape else g.repeat_interleave(2, 1)


# FML


def pair() -> Nets:
    """A local model whose logits are the pixels, and a meme whose logits are minus the pixels."""
    return Nets(Plain(1.0), meme=Plain(-1.0))


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
    loss = both("fml", alpha=0.75, beta=0.25).loss(pair(), {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(local + meme, rel=1e-13)


def test_each_loss_reaches_its_own_network_alone() -> None:
    """With z = scale · (1, 0) the gradient of CE is q_0 − 1 and that of KL is q_0 − p_0, times 1 for the scale's pixel.
    Local: q_0 = σ, p_0 = 1 − σ, so ¾(σ − 1) + ¼(2σ − 1); meme: q_0 = 1 − σ, so ¼(−σ) + ¾(1 − 2σ)."""
    sigma = 1 / (1 + math.exp(-1))
    nets = pair()
    both("fml", alpha=0.75, beta=0.25).loss(nets, {}, batch((1, 0, 0)), {}).backward()
    assert nets.model.scale.grad.item() == pytest.approx(
        0.75 * (sigma - 1) + 0.25 * (2 * sigma - 1), rel=1e-12
    )
    assert nets["meme"].scale.grad.item() == pytest.approx(0.25 * -sigma + 0.75 * (1 - 2 * sigma), rel=1e-12)


# FedMRL


def test_fedmrls_answer_is_the_own_heads_on_the_whole_projected_representation() -> None:
    """G(x) = x, F(x) = 3x, v = G + 2F; the own head's logits are (v, 0). x = 1: u = (1, 3), v = 1·1 + 2·3 = 7."""
    projection = nn.Linear(2, 1)
    projection.load_state_dict({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.zeros(1)})
    nets = Nets(Times(3.0, 0), small=Times(1.0, 1), projection=projection)
    assert both("fedmrl", d_1=1).predict(nets, {}, PIXEL).tolist() == [[7.0, 0.0]]


def test_a_narrower_head_is_drawn_from_the_servers_stream_too() -> None:
    """The same weights each time, and other ones under another seed."""
    fedmrl = both("fedmrl", d_1=2)
    other = FedMRL(fedmrl.config, replace(fedmrl.federation, seed=8))
    heads = [each.init_server()["small/head.weight"] for each in (fedmrl, fedmrl, other)]
    assert heads[0].shape == (2, 2)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


def test_features_narrower_than_the_small_models_are_refused_by_client() -> None:
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn_w2\) has 4; lower method.d_1"):
        both("fedmrl", small=WIDE).check()
    both("fedmrl", small=WIDE, d_1=4).check()


def test_two_whole_rounds_of_fedmrl_equal_the_reference() -> None:
    """Of the small model's 4 features, the means of two neighbors each are used."""

    def train(ran: Rounds, t: int, client: int, _: Weights, small: Weights, own: dict[str, Weights]) -> None:
        model, projection = own["model"], own["projection"]
        for x, y in ran.batches("model", t, client):
            g = features(small, x)
            u = torch.cat([(g[:, ::2] + g[:, 1::2]) / 2, features(model, x)], 1)
            v = u @ projection["weight"].T + projection["bias"]
            (0.5 * ce(of_head(small, v[:, :2]), y) + 2.0 * ce(of_head(model, v), y)).backward()
            reference.step([*small.values(), *model.values(), *projection.values()], LR)

    options = {"d_1": 2, "m_small": 0.5, "m_large": 2.0}
    assert_as_reference("fedmrl", "small", ("model", "projection"), train, **options)


# pFedAFM


def extractor() -> Times:
    """G(x) = x."""
    small = Times(1.0, 1)
    small.head = NoHead(1, 2)  # type: ignore[assignment]
    return small


def test_alpha_is_the_weight_of_the_own_features() -> None:
    """F(x) = 3x, and the own head's logits are (mixture, 0). x = 1: α · 3 + (1 − α) · 1."""
    for alpha, mixture in [(0.25, 1.5), (1.0, 3.0), (0.0, 1.0)]:
        nets = Nets(Times(3.0, 0), small=extractor(), alpha=Mixture(1, alpha))
        assert both("pfedafm").predict(nets, {}, PIXEL).tolist() == [[mixture, 0.0]]


def test_alpha_has_an_entry_for_each_feature_of_the_client() -> None:
    for client, width in [(0, 8), (1, 4)]:
        for afm, start in ((both("pfedafm"), 1.0), (both("pfedafm", alpha=0.5), 0.5)):
            state = afm.init_client(afm.federation.clients[client])
            assert state["alpha/weight"].tolist() == [start] * width
            assert len(state) == 1 + len(part(state, "small"))


def test_two_whole_rounds_of_pfedafm_equal_the_reference() -> None:
    """The model and α learn before the extractor. α leaves [0, 1] in some steps, and is put back. Clients keep the
    extractor that they received, with which α was trained."""
    kept: Weights = {}
    outside = 0

    def train(
        ran: Rounds, t: int, client: int, received: Weights, small: Weights, own: dict[str, Weights]
    ) -> None:
        nonlocal outside
        kept.update(received)
        model, alpha = own["model"], own["alpha"]["weight"]
        for x, y in ran.batches("model", t, client):
            f = features(model, x)
            ce(of_head(model, alpha * f + (1 - alpha) * pooled(features(received, x), f)), y).backward()
            reference.step([*model.values(), alpha], LR)
            with torch.no_grad():
                outside += int((alpha > 1).sum() + (alpha < 0).sum())
                alpha.clamp_(0, 1)
        for x, y in ran.batches("small", t, client):
            ce(of_head(model, pooled(features(small, x), features(model, x))), y).backward()
            reference.step(list(small.values()), LR)
            reference.step(list(model.values()), 0.0)  # forgets its gradients

    ran = assert_as_reference("pfedafm", "small", ("model", "alpha"), train)
    assert outside > 0
    ran.assert_ended({}, {"small": [kept] * 3})


# pFedMoE


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


def test_the_own_head_reads_the_mixture_of_both_features() -> None:
    """G(x) = x, F(x) = 3x, shares 1/4 and 3/4 for every sample; the own head's logits are (mixture, 0). x = 1:
    1/4 · 1 + 3/4 · 3 = 2.5."""
    half = gate(ImageSpec(1, 1, 1), torch.zeros(2, 2), torch.zeros(2, 1))
    nets = Nets(Times(3.0, 0), small=extractor(), gate=half)
    torch.testing.assert_close(both("pfedmoe").predict(nets, {}, PIXEL), torch.tensor([[2.5, 0.0]]))


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
        moe = both("pfedmoe", own, small=small)
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


def test_two_whole_rounds_of_pfedmoe_equal_the_reference() -> None:
    def train(ran: Rounds, t: int, client: int, _: Weights, small: Weights, own: dict[str, Weights]) -> None:
        model = own["model"]
        for x, y in ran.batches("model", t, client):
            f, shares = features(model, x), shares_of(own["gate"], x)
            g = pooled(features(small, x), f)
            ce(of_head(model, shares[:, :1] * g + shares[:, 1:] * f), y).backward()
            reference.step([*small.values(), *model.values(), *own["gate"].values()], LR)

    assert_as_reference("pfedmoe", "small", ("model", "gate"), train, gate_hidden=6)


# pFedES


def test_pfedes_needs_images() -> None:
    federation = federations.federation(["tiny_fasttext"], shape=TokenSpec(4, 5))
    with pytest.raises(ConfigError, match=r"needs images \(its extractor makes images of images\).*tokens"):
        sharing.of("pfedes", federation).check()


def made(w: Tensors, x: Tensor) -> Tensor:
    """The extractor's images."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=1).relu()
    return F.conv2d(h, w["conv2.weight"], w["conv2.bias"], padding=1).relu()


def test_two_whole_rounds_of_pfedes_equal_the_reference() -> None:
    """The extractor is trained after the model, for epochs of its own."""

    def train(
        ran: Rounds, t: int, client: int, received: Weights, extractor: Weights, own: dict[str, Weights]
    ) -> None:
        model = own["model"]
        for x, y in ran.batches("model", t, client):
            (0.7 * ce(logits(model, x), y) + 0.3 * ce(logits(model, made(received, x)), y)).backward()
            reference.step(list(model.values()), LR)
        for x, y in ran.batches("extractor", t, client, epochs=3):
            ce(logits(model, made(extractor, x)), y).backward()
            reference.step(list(extractor.values()), LR)
            reference.step(list(model.values()), 0.0)  # forgets its gradients

    options = {"mu": 0.3, "channels": 3, "extractor_epochs": 3}
    assert_as_reference("pfedes", "extractor", ("model",), train, **options)
