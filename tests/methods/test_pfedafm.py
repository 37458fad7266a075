"""pFedAFM: mixtures, both phases, and traffic by hand; two whole rounds against a reference."""

import math
from typing import Any

import pytest
import torch

from simulator.base.tensors import part
from simulator.methods.pfedafm import Mixture, PFedAFM
from simulator.models.network import NoHead
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference
from tests.methods.small_models import Times, ce, features, flops

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)


def method(*architectures: str, **options: Any) -> PFedAFM:
    return PFedAFM(
        federations.config("pfedafm", method=options).method,
        federations.federation(architectures or (WIDE, HALF)),
    )


def nets(alpha: float) -> Nets:
    """G(x) = x and F(x) = 3x; the own head's logits are (mixture, 0)."""
    small = Times(1.0, 1)
    small.head = NoHead(1, 2)  # type: ignore[assignment]
    return Nets(Times(3.0, 0), small=small, alpha=Mixture(1, alpha))


@pytest.mark.parametrize(("alpha", "mixture"), [(0.25, 1.5), (1.0, 3.0), (0.0, 1.0)])
def test_alpha_is_the_weight_of_the_own_features(alpha: float, mixture: float) -> None:
    """x = 1: α · 3 + (1 − α) · 1."""
    assert method().predict(nets(alpha), {}, PIXEL).tolist() == [[mixture, 0.0]]


def test_every_feature_has_a_weight_of_its_own() -> None:
    mixture = Mixture(2, 0.5)
    mixture.weight.data = torch.tensor([1.0, 0.25])
    assert mixture(torch.tensor([[4.0, 4.0]]), torch.tensor([[8.0, 8.0]])).tolist() == [[4.0, 7.0]]


def test_the_model_learns_from_the_mixture() -> None:
    """Logits (1.5, 0), class 0."""
    loss = method().model_loss(nets(0.25), {}, Batch(PIXEL, torch.tensor([0])), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1.5)))


def test_the_extractor_learns_from_its_own_features_alone() -> None:
    """Logits (1, 0) at any α, class 0."""
    loss = method().small_loss(nets(0.25), {}, Batch(PIXEL, torch.tensor([0])), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1)))


def test_the_model_is_trained_before_the_extractor_and_alpha_with_the_model() -> None:
    parts = federations.built(federations.config("pfedafm"))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    found = [(phase.trains, dict(phase.within)) for phase in parts.method.phases(local)]
    assert found == [(("model", "alpha"), {"alpha/weight": (0, 1)}), (("small",), {})]


@pytest.mark.parametrize(("client", "width"), [(0, 8), (1, 4)])
def test_alpha_has_an_entry_for_each_feature_of_the_client(client: int, width: int) -> None:
    for afm, start in ((method(), 1.0), (method(alpha=0.5), 0.5)):
        state = afm.init_client(afm.federation.clients[client])
        assert state["alpha/weight"].tolist() == [start] * width
        assert len(state) == 1 + len(part(state, "small"))


@pytest.mark.parametrize(("own", "small"), [(WIDE, HALF), (HALF, WIDE)])
def test_other_widths_of_the_extractor_are_pooled_to_the_clients_width(own: str, small: str) -> None:
    """Four numbers are each used twice beside eight, and of eight the means of two are used beside four."""
    afm = method(own, small=small)
    f, g = (afm.federation.build(name, afm.federation.stream(name)).eval() for name in (own, small))
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    general = g.features(x)
    pooled = general.repeat_interleave(2, 1) if small == HALF else (general[:, ::2] + general[:, 1::2]) / 2
    found = afm.predict(Nets(f, small=g, alpha=Mixture(f.num_features, 0.0)), {}, x)
    torch.testing.assert_close(found, f.head(pooled))


def test_the_extractor_travels_without_a_head_and_nothing_else_does() -> None:
    """tiny_cnn at half its width for grey images: 20 + 54 + 28 numbers."""
    parameters = (9 + 1) * 2 + (8 + 1) * 6 + (6 + 1) * 4
    config = federations.config("pfedafm", federation={"participation": 1.0, "group": [WIDE, HALF]})
    record = federations.run(federations.built(config).engine, 1).record
    assert record is not None
    assert record["bytes"]["per_client_up"] == record["bytes"]["per_client_down"] == [4 * parameters] * 4
    assert set(record["bytes"]["by_tensor"]) == {"up/small", "down/small"}


def test_a_client_answers_with_the_extractor_that_its_alpha_was_trained_with() -> None:
    """That is the one it received, here the server's before round 1. With an aggregated evaluation it is the next."""
    parts = federations.built(federations.config("pfedafm", federation={"participation": 1.0}))
    start = parts.engine.initial_state()
    state = parts.engine.round(start, lambda event: None)
    own = federations.local(parts, 0, state.clients[0], 2)
    parts.method.before_answering(own)
    assert torch.equal(own.nets["small"].state_dict()["fc2.bias"], start.server["small/fc2.bias"])
    received = federations.local(parts, 0, state.clients[0], 2)
    parts.method.receive(received, parts.method.downlink(2, state.server, received.info))
    parts.method.before_answering(received)
    assert torch.equal(received.nets["small"].state_dict()["fc2.bias"], state.server["small/fc2.bias"])
    assert not torch.equal(start.server["small/fc2.bias"], state.server["small/fc2.bias"])


@pytest.mark.parametrize(
    ("small", "forward", "width", "pooling"),
    [
        ("tiny_mlp", 2 * (64 * 12 + 12 * 8), 8, 0),
        (HALF, 2 * (9 * 36 * 2 + 8 * 6 + 6 * 4), 4, 3 * 2 * 4 * 8),
    ],
)
def test_operations_are_those_of_both_models_one_pass_of_the_extractor_and_one_of_the_head(
    small: str, forward: int, width: int, pooling: int
) -> None:
    """Of the extractor's training, 6 · K_G · C operations in its head are not done. Phase `small` adds the pass through
    the client's head and back, 4 · K · C, without a gradient of its weights. A 3×3 kernel sees 36 places of 8×8 pixels.
    Pooling is done twice, and its gradient once."""
    both = flops("standalone", WIDE) + flops("standalone", small)
    expected = both - 6 * width * 4 + forward + 4 * 8 * 4 + pooling
    assert flops("pfedafm", WIDE, small=small) == expected


def test_two_whole_rounds_equal_the_reference() -> None:
    """Clients of 8 and 4 features, and an extractor of 4. α leaves [0, 1] in some steps, and is put back."""
    lr = 0.5
    config = federations.config(
        "pfedafm",
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    alphas = [reference.leaves(part(tensors, "alpha")) for tensors in begun]
    data = [reference.samples(parts, client) for client in range(3)]
    total = sum(len(y) for _, y in data)
    shared, moved_back = part(start.server, "small"), 0
    for t in (1, 2):
        average = {name: torch.zeros_like(weight) for name, weight in shared.items()}
        for client, (x, y) in enumerate(data):
            small, own, alpha = reference.leaves(shared), models[client], alphas[client]["weight"]
            wide = client != 1
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                g = features(shared, x[rows])
                g = g.repeat_interleave(2, 1) if wide else g
                ce(alpha * features(own, x[rows]) + (1 - alpha) * g, own, y[rows]).backward()
                reference.step([*own.values(), alpha], lr)
                with torch.no_grad():
                    moved_back += int((alpha > 1).sum() + (alpha < 0).sum())
                    alpha.clamp_(0, 1)
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/small", t, client)):
                g = features(small, x[rows])
                ce(g.repeat_interleave(2, 1) if wide else g, own, y[rows]).backward()
                reference.step(list(small.values()), lr)
                reference.step(list(own.values()), 0.0)  # forgets its gradients
            for name, weight in small.items():
                average[name] += weight.detach() * len(y) / total
        received, shared = shared, average

    assert moved_back > 0
    reference.assert_equal(part(end.server, "small"), shared)
    for tensors, own, alpha in zip(end.clients, models, alphas, strict=True):
        reference.assert_equal(part(tensors, "model"), own)
        reference.assert_equal(part(tensors, "alpha"), alpha)
        reference.assert_equal(part(tensors, "small"), received)
