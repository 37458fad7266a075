"""FedL2G: π against double backward and by hand, the quiz that is never trained on, the warm-up, the server's step."""

import copy
import math
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.tensors import part
from simulator.engine.builder import Built
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.fedl2g import FedL2G, FedL2GL
from simulator.models import Network
from simulator.sessions.history import changed_settings
from simulator.training.client import LocalClient
from simulator.training.forward_mode import plain_attention
from simulator.training.phase import Batch
from tests import federations
from tests.methods import reference, sharing

TWINS = pytest.mark.parametrize("name", ["fedl2g_l", "fedl2g_f"])


def built(name: str = "fedl2g_l", **sections: Any) -> Built:
    return federations.built(federations.config(name, **sections))


def server_side(name: str = "fedl2g_l", num_classes: int = 2, rounds: int = 3, **method: Any) -> FedL2G:
    """Two clients, two classes, no data."""
    federation = federations.federation(
        ["tiny_cnn", "tiny_mlp"], [8, 8], num_classes=num_classes, rounds=rounds
    )
    found: FedL2G = sharing.of(name, federation, **method)
    return found


def received(parts: Built, client: int = 0, round: int = 1) -> LocalClient:
    """A client that has the vectors of the start, in some round."""
    state = parts.engine.initial_state()
    local = federations.local(parts, client, state.clients[client], round)
    parts.method.receive(local, parts.method.downlink(round, state.server, local.info))
    return local


def in_double(local: LocalClient) -> tuple[Batch, Batch]:
    """Turn the client to float64 and give it a study batch of 7 and a quiz of 5 of its samples."""
    local.nets.double()
    x, y = local.batch(local.train[:12])
    return Batch(x[:7].double(), y[:7]), Batch(x[7:].double(), y[7:])


class Shown(nn.Module):
    """What is guided, and the logits."""

    def __init__(self, model: Network, logits: bool) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.model.features(x)
        answer = self.model.head(features)
        return (answer if self.logits else features), answer


def by_double_backward(local: LocalClient, study: Batch, quiz: Batch, logits: bool, eta_c: float) -> Tensor:
    """∂ℓ_ce(θ − η_c ∇_θ[ℓ_ce + ℓ_g]; quiz)/∂𝒢 with the second-order graph, as eq. 6 is printed."""
    network = Shown(copy.deepcopy(local.nets.model).train(), logits)
    theta = {name: weight.detach().requires_grad_() for name, weight in network.named_parameters()}
    plain = plain_attention()  # torch's fused attention has no second derivative either
    vectors = local.nets["guide"].weight.detach().clone().requires_grad_()
    with plain, drawing_from(local.stream("draws/study")):
        guided, answer = functional_call(network, theta, (study.x,))
    objective = F.cross_entropy(answer, study.y) + ((guided - vectors[study.y]) ** 2).mean()
    gradient = torch.autograd.grad(objective, list(theta.values()), create_graph=True)
    stepped = {name: theta[name] - eta_c * g for name, g in zip(theta, gradient, strict=True)}
    with plain, drawing_from(local.stream("draws/quiz")):
        _, answer = functional_call(network, stepped, (quiz.x,))
    return torch.autograd.grad(F.cross_entropy(answer, quiz.y), vectors)[0]


@pytest.mark.parametrize(
    ("name", "model", "eta_c"),
    [
        ("fedl2g_l", "tiny_cnn", 0.01),
        ("fedl2g_f", "tiny_mlp", 0.5),
        ("fedl2g_l", "tiny_resnet6", 0.5),
        ("fedl2g_f", "tiny_vit1", 0.01),
    ],
)
def test_pi_is_the_gradient_of_double_backward(name: str, model: str, eta_c: float) -> None:
    """Through convolutions, BatchNorm with dropout, BatchNorm with shortcuts, and attention."""
    parts = built(name, training={"lr": eta_c}, federation={"group": model})
    local = received(parts)
    study, quiz = in_double(local)
    pi = parts.method.guiding_gradient(local, study, quiz)
    expected = by_double_backward(local, study, quiz, name == "fedl2g_l", eta_c)
    assert pi.abs().max() > 1e-6
    torch.testing.assert_close(pi, expected, rtol=1e-8, atol=1e-14)


class Line(Network):
    """Two logits of one pixel: h(x) = w x + b, all zero."""

    layers = ("pixel",)

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"pixel": x.flatten(1)}


@TWINS
def test_the_pseudo_step_leaves_weights_and_statistics_as_they_were(name: str) -> None:
    parts = built(name)
    for client in (0, 1):
        local = received(parts, client)
        before = federations.bits(local.tensors())
        parts.method.uplink(local)
        assert federations.bits(local.tensors()) == before


def test_quiz_and_study_batch_are_drawn_from_streams_of_their_own() -> None:
    """The quiz from one of the client's, the study batch from one of the client's in that round. Of fewer than two
    batches, the quiz is half.
    """
    few = built(training={"batch_size": 1000})
    local = received(few)
    study, quiz = few.method.divided(local)
    assert (len(quiz), len(study)) == (len(local.train) // 2, math.ceil(len(local.train) / 2))
    parts = built(training={"batch_size": 10})
    local = received(parts, client=1, round=2)
    samples = local.train[torch.randperm(len(local.train), generator=reference.stream("quiz", 0, 1))]
    study, quiz = parts.method.divided(local)
    assert torch.equal(quiz, samples[:10]) and torch.equal(study, samples[10:])
    with mock.patch.object(parts.method, "guiding_gradient", return_value=torch.ones(4, 4)) as asked:
        parts.method.uplink(local)
    drawn = torch.randperm(len(study), generator=reference.stream("study batch", 2, 1))[:10]
    (_, used_to_study, used_as_quiz) = asked.call_args.args
    for used, expected in ((used_to_study, study[drawn]), (used_as_quiz, quiz)):
        assert torch.equal(used.x, local.batch(expected).x)


@TWINS
def test_the_quiz_is_never_trained_on(name: str) -> None:
    """Other images in the quiz change what a client sends, and not one bit of its model."""

    def after_a_round(shift: int) -> tuple[Any, Any]:
        parts = built(name, federation={"participation": 1.0}, method={"t_warm": 0})
        for client in range(4):
            parts.data.inputs.images[parts.method.divided(received(parts, client))[1]] += shift
        end = parts.engine.round(parts.engine.initial_state(), unobserved)
        return [federations.bits(part(tensors, "model")) for tensors in end.clients], end.server["vectors"]

    models, vectors = after_a_round(0)
    same_models, other_vectors = after_a_round(77)
    assert models == same_models
    assert not torch.equal(vectors, other_vectors)


def test_the_loss_adds_the_mean_squared_distance_from_the_classes_vectors() -> None:
    """Logits (0, 0) of class 1 with v_1 = (3, 4): log 2 + (9 + 16)/2, and each of them by itself."""
    parts = built()
    local = received(parts)
    local.nets.model = Line()
    local.nets["guide"] = nn.Embedding.from_pretrained(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    loss, terms, _ = parts.method.loss(local.nets, {}, Batch(torch.ones(1, 1, 1, 1), torch.tensor([1])), {})
    assert loss.item() == pytest.approx(math.log(2) + 12.5)
    assert {name: term.item() for name, term in terms.items()} == {
        "cross_entropy": pytest.approx(math.log(2)),
        "guiding": pytest.approx(12.5),
    }


def test_only_the_vectors_learn_in_the_warm_up() -> None:
    """T_warm = 2: after two rounds the models are as they were; the third trains its participants."""
    parts = built(method={"t_warm": 2})
    start = parts.engine.initial_state()
    warm = federations.run(parts.engine, 2)
    models = [federations.bits(tensors) for tensors in start.clients]
    assert [federations.bits(tensors) for tensors in warm.clients] == models
    assert not torch.equal(warm.server["vectors"], start.server["vectors"])
    assert warm.record["loss"] == {"mean": None, "per_client": [None] * 4, "cross_entropy": None}
    third = parts.engine.round(warm, unobserved)
    trained = [
        federations.bits(tensors) != before for tensors, before in zip(third.clients, models, strict=True)
    ]
    assert [client for client in range(4) if trained[client]] == third.record["participants"]
    assert third.record["loss"]["mean"] > 0


def test_the_warm_up_is_fifty_rounds_or_a_twentieth_of_the_run_and_fixed_when_the_method_begins() -> None:
    """A run of 20 rounds warms up for one; extended to 1,000 it does not warm up again. Switched to after round 30 with
    T_warm = 2: no training in rounds 31 and 32, training in 33.
    """
    for rounds, t_warm in [(3, 0), (20, 1), (400, 20), (1000, 50), (5000, 50)]:
        assert server_side(rounds=rounds).t_warm == t_warm
    settings = federations.config("fedl2g_l", rounds=20).begun()
    assert settings.method.t_warm == 1
    assert changed_settings(settings, None, ["rounds=1000"]).method.t_warm == 1
    assert changed_settings(federations.config("standalone", rounds=400), "fedl2g_l", []).method.t_warm == 20
    parts = built(method={"t_warm": 2})
    later = FedL2GL(parts.method.config, replace(parts.federation, begun=30))
    client = parts.engine.initial_state().clients[0]
    found = [len(later.phases(federations.local(parts, 0, client, round))) for round in (31, 32, 33)]
    assert found == [0, 0, 1]


def gradients(method: FedL2G, client: int, labels: list[int], *rows: tuple[float, float]) -> Uplink:
    return sharing.sent(method, client, gradients=torch.tensor(rows), labels=labels)


def test_the_server_steps_against_the_mean_of_a_classes_senders() -> None:
    """η_s = 0.5. Class 0: mean of (2, 4) and (4, 0) is (3, 2), so v_0 = (10, 10) − (1.5, 1). Class 1 has one sender:

    (20, 20) − ½(2, −6). (3, 4) of norm 5 under a clip of 1: v ← v − η_s·(0.6, 0.8); under 10 as it is.
    """
    method = server_side(eta_s=0.5)
    uplinks = [gradients(method, 0, [0], (2.0, 4.0)), gradients(method, 1, [0, 1], (4.0, 0.0), (2.0, -6.0))]
    merged = method.aggregate(1, {"vectors": torch.tensor([[10.0, 10.0], [20.0, 20.0]])}, uplinks)
    assert merged.server["vectors"].tolist() == [[8.5, 9.0], [19.0, 23.0]]
    assert merged.metrics == {"guided_classes": 2, "gradient_norm": pytest.approx(math.sqrt(9 + 4 + 4 + 36))}
    for clip, expected in ((1.0, [-0.6, -0.8]), (10.0, [-3.0, -4.0])):
        method = server_side(eta_s=1.0, clip=clip)
        merged = method.aggregate(1, {"vectors": torch.zeros(2, 2)}, [gradients(method, 0, [0], (3.0, 4.0))])
        assert merged.server["vectors"][0].tolist() == pytest.approx(expected)
        assert merged.metrics == {"guided_classes": 1, "gradient_norm": 5.0}


def test_vectors_start_standard_normal() -> None:
    """100 × 100 values: their mean is within 5/√10000 of 0, their variance within 5·√(2/10000) of 1."""
    vectors = server_side(num_classes=100).init_server()["vectors"]
    assert vectors.shape == (100, 100)
    assert abs(vectors.mean().item()) < 0.05
    assert abs(vectors.var().item() - 1) < 0.071
    assert torch.equal(vectors, server_side(num_classes=100).init_server()["vectors"])


def test_a_client_of_three_samples_is_refused() -> None:
    federation = federations.federation(["tiny_cnn", "tiny_mlp"], [9, 3])
    for name in ("fedl2g_l", "fedl2g_f"):
        with pytest.raises(ConfigError, match=r"needs 4 training samples .*: client 1 \(tiny_mlp\) has 3"):
            sharing.of(name, federation).check()


def test_other_feature_widths_are_refused_for_the_features_only() -> None:
    federation = federations.federation(["cnn5", "tiny_cnn"], [9, 9], shape=federations.ImageShape(1, 28, 28))
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn\) has 'fc2' of width 8"):
        sharing.of("fedl2g_f", federation).check()
    sharing.of("fedl2g_l", federation).check()
