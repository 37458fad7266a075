"""pFedMoE: mixtures, a gate, and traffic by hand; two whole rounds against a reference."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.tensors import Tensors, part
from simulator.data.specs import ImageSpec, InputSpec, TableSpec, TokenSpec
from simulator.engine.progress import Event, Warned
from simulator.methods.pfedmoe import Gate, PFedMoE
from simulator.models.network import NoHead
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference
from tests.methods.small_models import Times, ce, features, flops

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)


def method(*architectures: str, **options: Any) -> PFedMoE:
    return PFedMoE(
        federations.config("pfedmoe", method=options).method,
        federations.federation(architectures or (WIDE, HALF)),
    )


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


def test_the_loss_is_the_cross_entropy_of_the_mixture() -> None:
    """Logits (2.5, 0): log(1 + e⁻²·⁵) for class 0, and 2.5 more for class 1."""
    of_0, of_1 = (method().loss(nets(), {}, Batch(PIXEL, torch.tensor([y])), {}).item() for y in (0, 1))
    assert of_0 == pytest.approx(math.log1p(math.exp(-2.5)))
    assert of_1 == pytest.approx(math.log1p(math.exp(-2.5)) + 2.5)


def test_each_sample_gets_shares_of_its_own() -> None:
    """Of (3, 1), the normalized numbers are ±1/√(1 + 1e-5), here a. With weights 1 in a diagonal, the logits of the
    shares are σ(a) and σ(−a) + log 3. Of (1, 3) they are σ(−a) and σ(a) + log 3."""
    a = 1 / math.sqrt(1 + 1e-5)
    high, low = 1 / (1 + math.exp(-a)), 1 / (1 + math.exp(a))
    shares = gate(TableSpec(2), torch.eye(2))(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    first, second = (1 / (1 + 3 * math.exp(other - own)) for own, other in ((high, low), (low, high)))
    torch.testing.assert_close(shares, torch.tensor([[first, 1 - first], [second, 1 - second]]))


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


def test_the_extractor_starts_as_its_architecture_does_and_has_no_head() -> None:
    moe = method()
    built = moe.federation.build(HALF, moe.federation.stream("server/small")).state_dict()
    body = {name: tensor for name, tensor in built.items() if not name.startswith("head.")}
    assert federations.bits(part(moe.init_server(), "small")) == federations.bits(body)


def test_the_extractor_travels_and_nothing_else() -> None:
    """tiny_cnn at half its width for grey images, without its head: 20 + 54 + 28 numbers."""
    parameters = (9 + 1) * 2 + (8 + 1) * 6 + (6 + 1) * 4
    config = federations.config("pfedmoe", federation={"participation": 1.0, "group": [WIDE, HALF]})
    record = federations.run(federations.built(config).engine, 1).record
    assert record is not None
    assert record["bytes"]["per_client_up"] == record["bytes"]["per_client_down"] == [4 * parameters] * 4
    assert set(record["bytes"]["by_tensor"]) == {"up/small", "down/small"}


def test_a_client_keeps_the_extractor_and_a_gate_of_its_own_size() -> None:
    """Images of 64 pixels, 5 hidden numbers: 64·5 + 5, LayerNorm 5 + 5, and 5·2 + 2."""
    state = method(gate_hidden=5).init_client(method().federation.clients[0])
    sizes = {name: sum(each.numel() for each in part(state, name).values()) for name in ("gate", "small")}
    assert sizes == {"gate": (64 + 1) * 5 + 2 * 5 + (5 + 1) * 2, "small": 102}
    assert len(state) == len(part(state, "gate")) + len(part(state, "small"))


def test_the_gate_stays_with_its_client_and_goes_on_from_where_it_was() -> None:
    parts = federations.built(federations.config("pfedmoe", federation={"participation": 1.0}))
    start = parts.engine.initial_state()
    first = parts.engine.round(start, lambda event: None)
    second = parts.engine.round(first, lambda event: None)
    weights = [state.clients[0]["gate/shares.weight"] for state in (start, first, second)]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])
    assert not torch.equal(start.clients[0]["gate/shares.weight"], start.clients[1]["gate/shares.weight"])
    assert {name.split("/")[0] for name in first.server} == {"small"}


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


def test_a_client_answers_with_the_extractor_it_has_or_would_receive_next() -> None:
    """It has the one it trained last. With an aggregated evaluation it is the server's."""
    parts = federations.built(federations.config("pfedmoe", federation={"participation": 1.0}))
    state = federations.run(parts.engine, 1)
    own = federations.local(parts, 0, state.clients[0], 2)
    parts.method.before_answering(own)
    assert torch.equal(own.nets["small"].state_dict()["fc2.bias"], state.clients[0]["small/fc2.bias"])
    received = federations.local(parts, 0, state.clients[0], 2)
    parts.method.receive(received, parts.method.downlink(2, state.server, received.info))
    parts.method.before_answering(received)
    assert torch.equal(received.nets["small"].state_dict()["fc2.bias"], state.server["small/fc2.bias"])
    assert not torch.equal(state.clients[0]["small/fc2.bias"], state.server["small/fc2.bias"])
    initial = parts.method.init_server()
    assert not torch.equal(state.clients[0]["small/fc2.bias"], initial["small/fc2.bias"])


@pytest.mark.parametrize(("small", "width", "pooling"), [("tiny_mlp", 8, 0), (HALF, 4, 4 * 4 * 8)])
def test_operations_are_those_of_both_models_of_the_gate_and_of_pooling(
    small: str, width: int, pooling: int
) -> None:
    """A sample's training takes 6 · K · C operations in a head, which the extractor lacks. In the gate, it takes
    4 · 64 · 32 in the first layer, which passes no gradient on, and 6 · 32 · 2 in the second. Pooling 4 numbers to 8
    takes 2 · 4 · 8, and its gradient as many."""
    both = flops("standalone", WIDE) + flops("standalone", small)
    gate = 4 * 64 * 32 + 6 * 32 * 2
    assert flops("pfedmoe", WIDE, small=small) == both - 6 * width * 4 + gate + pooling


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
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    gates = [reference.leaves(part(tensors, "gate")) for tensors in begun]
    data = [reference.samples(parts, client) for client in range(3)]
    total = sum(len(y) for _, y in data)
    shared = part(start.server, "small")
    for t in (1, 2):
        average = {name: torch.zeros_like(weight) for name, weight in shared.items()}
        for client, (x, y) in enumerate(data):
            small, own, gate = reference.leaves(shared), models[client], gates[client]
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                f, g = features(own, x[rows]), features(small, x[rows])
                g = g if g.shape == f.shape else g.repeat_interleave(2, 1)
                shares = shares_of(gate, x[rows])
                ce(shares[:, :1] * g + shares[:, 1:] * f, own, y[rows]).backward()
                for weights in (small, own, gate):
                    reference.step(list(weights.values()), lr)
            for name, weight in small.items():
                average[name] += weight.detach() * len(y) / total
        shared = average

    reference.assert_equal(part(end.server, "small"), shared)
    for tensors, own, gate in zip(end.clients, models, gates, strict=True):
        reference.assert_equal(part(tensors, "model"), own)
        reference.assert_equal(part(tensors, "gate"), gate)
