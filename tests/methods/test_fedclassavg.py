"""FedClassAvg: the pull towards the received head, the contrast of two views; by hand, and against a double loop."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.base import rng
from simulator.methods import fedclassavg
from simulator.methods.fedclassavg import FedClassAvg, supervised_contrast
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(samples: list[int] | None = None, **options: Any) -> FedClassAvg:
    return sharing.of(
        "fedclassavg", federations.federation(["tiny_cnn", "tiny_mlp", "tiny_cnn"], samples), **options
    )


RECEIVED = {
    "weight": torch.tensor([[0.0, 0.0], [0.0, 3.0]], dtype=torch.float64),
    "bias": torch.tensor([0.0, 1.0], dtype=torch.float64),
}
"""From the identity with a bias of zero it is 1² + 2² + 1² = 6 away."""


def test_the_loss_adds_the_squared_distance_to_the_received_head() -> None:
    """CE of logits (1, 2) and class 0 is log(1 + e); ρ · 6 with ρ = 0.5."""
    loss = method(rho=0.5).loss(Nets(Plain()), RECEIVED, batch((1, 2, 0)), {})
    assert loss.item() == pytest.approx(math.log1p(math.e) + 3, rel=1e-14)


def test_the_pull_is_towards_the_head_as_received_not_as_it_moves() -> None:
    parts, _, state, local = sharing.working("fedclassavg")
    (phase,) = parts.method.phases(local)
    with torch.no_grad():
        local.nets.model.head.bias += 1
    assert federations.bits(phase.state) == federations.bits(
        {name.removeprefix("head/"): tensor for name, tensor in state.server.items()}
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.sampled_from([0.07, 0.5, 2.0]))
def test_contrast_is_khoslas_equation_2(seed: int, size: int, tau: float) -> None:
    stream = rng.torch_stream(seed, "tests/contrast")
    features = torch.randn(2 * size, 3, dtype=torch.float64, generator=stream)
    labels = torch.randint(3, (size,), generator=stream).repeat(2)
    z = features / features.norm(dim=1, keepdim=True)
    terms = []
    for i in range(2 * size):
        others = [a for a in range(2 * size) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        total = sum(math.exp(float(z[i] @ z[a]) / tau) for a in others)
        terms.append(-sum(float(z[i] @ z[p]) / tau - math.log(total) for p in positives) / len(positives))
    expected = sum(terms) / len(terms)
    assert supervised_contrast(features, labels, tau).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_contrastive_loss_classifies_the_first_view_and_contrasts_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where both views are the image: features (1, 0) and (0, 1), each twice, as in the contrast above."""
    monkeypatch.setattr(fedclassavg, "VIEW", lambda x, drawn: x)
    loss = method(rho=0.5, contrast=3.0, tau=0.5).contrastive_loss(
        Nets(Plain()),
        RECEIVED,
        batch((1, 0, 0), (0, 1, 0)),
        {"first": torch.empty(0), "second": torch.empty(0)},
    )
    classified = (math.log1p(math.exp(-1)) + math.log1p(math.e)) / 2
    # Both are of class 0: of the three others all are positive, one at similarity 2 and two at 0.
    contrast = math.log(math.exp(2) + 2) - 2 / 3
    assert loss.item() == pytest.approx(classified + 3 * contrast + 3, rel=1e-14)


def test_contrastive_training_draws_its_views_from_the_clients_own_stream() -> None:
    """The same bits with one worker and with two, and not those of training without the term."""
    before = torch.get_rng_state()

    def after(workers: int, contrast: float) -> Any:
        config = federations.config(
            "fedclassavg", method={"contrast": contrast}, runtime={"workers": workers}
        )
        return federations.state_bits(federations.run(federations.built(config).engine, 2))

    assert after(1, 1.0) == after(2, 1.0)
    assert after(1, 1.0) != after(1, 0.0)
    assert torch.equal(torch.get_rng_state(), before)
