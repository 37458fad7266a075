"""pFedAFM: mixtures, both phases, and traffic by hand; two whole rounds against a reference."""

from typing import Any

import torch

from simulator.base.tensors import part
from simulator.methods.pfedafm import Mixture, PFedAFM
from simulator.models.network import NoHead
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import Times, ce, features, of_head

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)


def method(*architectures: str, **options: Any) -> PFedAFM:
    return sharing.of("pfedafm", federations.federation(architectures or (WIDE, HALF)), **options)


def nets(alpha: float) -> Nets:
    """G(x) = x and F(x) = 3x; the own head's logits are (mixture, 0)."""
    small = Times(1.0, 1)
    small.head = NoHead(1, 2)  # type: ignore[assignment]
    return Nets(Times(3.0, 0), small=small, alpha=Mixture(1, alpha))


def test_alpha_is_the_weight_of_the_own_features() -> None:
    """x = 1: α · 3 + (1 − α) · 1."""
    for alpha, mixture in [(0.25, 1.5), (1.0, 3.0), (0.0, 1.0)]:
        assert method().predict(nets(alpha), {}, PIXEL).tolist() == [[mixture, 0.0]]


def test_the_model_is_trained_before_the_extractor_and_alpha_with_the_model() -> None:
    parts, _, _, local = sharing.working("pfedafm", receives=False)
    found = [(phase.trains, dict(phase.within)) for phase in parts.method.phases(local)]
    assert found == [(("model", "alpha"), {"alpha/weight": (0, 1)}), (("small",), {})]


def test_alpha_has_an_entry_for_each_feature_of_the_client() -> None:
    for client, width in [(0, 8), (1, 4)]:
        for afm, start in ((method(), 1.0), (method(alpha=0.5), 0.5)):
            state = afm.init_client(afm.federation.clients[client])
            assert state["alpha/weight"].tolist() == [start] * width
            assert len(state) == 1 + len(part(state, "small"))


def test_two_whole_rounds_equal_the_reference() -> None:
    """Clients of 8 and 4 features, and an extractor of 4. α leaves [0, 1] in some steps, and is put back.

    Clients keep the extractor that they received, with which α was trained.
    """
    lr = 0.5
    config = federations.config(
        "pfedafm",
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, alphas = ran.of_clients("model"), ran.of_clients("alpha")
    shared, moved_back = part(ran.server, "small"), 0
    for t in (1, 2):
        received, smalls = shared, [reference.leaves(shared) for _ in models]
        for client, (small, own) in enumerate(zip(smalls, models, strict=True)):
            alpha, spread = alphas[client]["weight"], 1 if client == 1 else 2
            for x, y in ran.batches("model", t, client):
                g = features(received, x).repeat_interleave(spread, 1)
                ce(of_head(own, alpha * features(own, x) + (1 - alpha) * g), y).backward()
                reference.step([*own.values(), alpha], lr)
                with torch.no_grad():
                    moved_back += int((alpha > 1).sum() + (alpha < 0).sum())
                    alpha.clamp_(0, 1)
            for x, y in ran.batches("small", t, client):
                ce(of_head(own, features(small, x).repeat_interleave(spread, 1)), y).backward()
                reference.step(list(small.values()), lr)
                reference.step(list(own.values()), 0.0)  # forgets its gradients
        shared = ran.mean(smalls)
    assert moved_back > 0
    ran.assert_ended({"small": shared}, {"model": models, "alpha": alphas, "small": [received] * 3})
