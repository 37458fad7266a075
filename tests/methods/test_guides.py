"""FedKWAZ, its stages and mixed patches, and FedL2G, its guiding gradient and server's step; by hand."""

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
from simulator.base.tensors import Tensors, part
from simulator.engine.builder import Built
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods import fedkwaz as module
from simulator.methods.fedkwaz import KNOWLEDGE, ZONES, FedKWAZ, drawn_mix, mixed
from simulator.methods.fedl2g import FedL2G, FedL2GL
from simulator.models import ImageShape, Network
from simulator.models.federation import Federation
from simulator.sessions.history import changed_settings
from simulator.training.client import LocalClient
from simulator.training.forward_mode import plain_attention
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, features, logits, of_head
from tests.networks import Plain, batch

PLAIN: Tensors = {name: torch.zeros(2, 2, dtype=torch.float64) for name in KNOWLEDGE}


def method(federation: Federation | None = None, **options: Any) -> FedKWAZ:
    federation = federation or federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"])
    return sharing.of("fedkwaz", federation, **options)


def pair() -> Nets:
    """Features and logits are the pixels in the model, and minus the pixels in the proxy."""
    return Nets(Plain(1.0), proxy=Plain(-1.0))


def unmixed(size: int = 1) -> Tensors:
    """Draws with which every zone has the images of the batch."""
    order, share = torch.arange(size), torch.ones(1, 2, dtype=torch.float64)
    return {f"order/{zone}": order for zone in ZONES} | {f"share/{zone}": share for zone in ZONES}


# Stage I


def test_a_class_without_anchors_adds_nothing_to_the_means() -> None:
    """The same of two images of which the second is of an unknown class: half of the anchors' part, and both CEs.

    (0, 0) has the logits (0, 0) in both networks, CE log 2.
    """
    proxy = torch.tensor([[3.0, 0.0], [9.0, 9.0]])
    state = PLAIN | {"known": torch.tensor([1.0, 0.0]), "features/proxy": proxy}
    loss = method().global_loss(pair(), state, batch((1, 0, 0), (0, 0, 1)), {})
    yes, no = -math.log(1 / (1 + math.exp(-1))), -math.log(1 - 1 / (1 + math.exp(-1)))
    labels = (yes + no + 2 * math.log(2)) / 2
    anchors = (2 * (yes + no) / 2 + 2 + 0.5) / 2  # P̄^M = (0, 0): MSE ½ for the proxy
    assert loss.item() == pytest.approx(labels + anchors, rel=1e-6)


# Stage II


def test_on_mixed_images_only_the_students_have_losses() -> None:
    """The base's losses are those of both networks, whoever is a student. The logits (a, b) and (−a, −b) have this
    |a − b|: τ² KL is τ² (2σ − 1) · 2·gap/(2τ).
    """

    def divergence(gap: float) -> float:
        return 4 * math.tanh(gap / 4) * gap / 2

    share = {"swaz": (0.5, 1.0), "dwaz_model": (0.0, 1.0), "dwaz_proxy": (1.0, 0.25)}
    draws = {f"order/{zone}": torch.tensor([1, 0]) for zone in ZONES}
    draws |= {f"share/{zone}": torch.tensor([values], dtype=torch.float64) for zone, values in share.items()}
    base = 2 * 5 + divergence(1) + divergence(2)
    for students, dwaz in [("model", divergence(1) / 2), ("proxy", divergence(0.5))]:
        loss = method(tau=2.0, students=students).local_loss
        found = loss(pair(), {}, batch((1, 0, 0), (0, 2, 1)), draws).loss
        assert found.item() == pytest.approx(base + 18 / 4 + dwaz, rel=1e-12)


# HAPM


def test_an_image_keeps_its_share_of_each_pixel_and_takes_the_rest_from_another() -> None:
    x = torch.tensor([[[[1.0, 2.0]]], [[[5.0, 6.0]]], [[[9.0, 10.0]]]])
    found = mixed(x, torch.tensor([2, 0, 1]), torch.tensor([[0.25, 1.0]]))
    assert found.flatten(1).tolist() == [[7, 2], [2, 6], [6, 10]]


def shares(
    size: tuple[int, int], patches: int, jitter: list[list[float]], gamma: list[list[float]]
) -> Tensor:
    """λ [H, W] for these draws, where there may be four patches at most."""
    x = torch.zeros(2, 1, *size)
    with (
        mock.patch.object(torch, "rand", return_value=torch.tensor(jitter)),
        mock.patch.object(torch, "_standard_gamma", return_value=torch.tensor(gamma)),
    ):
        stream = torch.Generator()
        return drawn_mix(stream, x, torch.tensor(0.5), torch.tensor(patches), 4)[1]


def test_each_patch_of_the_grid_has_its_own_share() -> None:
    """4×8 in four patches of 2×4. ½ is no shift: ⌊½ · (0 − (−1))⌋ − 1 = −1 for rows of 2; of −1, 0 for columns of 4.

    So rows 0 and 1–2, and columns 0–3 and 4–7. The last row is in no patch. λ = γ/(γ + γ').
    """
    found = shares((4, 8), 4, [[0.5] * 4, [0.5] * 4], [[1.0, 1.0, 3.0, 0.0], [1.0, 3.0, 1.0, 1.0]])
    rows = [[0.5] * 4 + [0.25] * 4, *[[0.75] * 4 + [0.0] * 4] * 2, [1.0] * 8]
    assert found.tolist() == rows


def test_patches_shift_by_up_to_a_quarter_and_the_first_counts_where_they_overlap() -> None:
    """16×16 in four patches of 8×8, which shift by −2, −1, 0, or 1. Rows: all by 0. Columns: the left ones by 1 and
    the right ones by −2, so 1–8 and 6–13; columns 0 and 14–15 are in none.
    """
    found = shares((16, 16), 4, [[0.5] * 4, [0.75, 0.0] * 2], [[1.0, 3.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    row = [1.0] + [0.5] * 8 + [0.75] * 5 + [1.0] * 2
    assert found.tolist() == [row] * 16


def test_shares_have_the_variance_of_a_symmetric_beta_distribution() -> None:
    """Var Beta(α, α) = 1/(4(2α + 1)): ⅛ for α = ½. 64 patches of one pixel, drawn 200 times."""
    stream = torch.Generator().manual_seed(0)
    x, patches = torch.zeros(2, 1, 8, 8), torch.tensor(64)
    drawn = torch.stack([drawn_mix(stream, x, torch.tensor(0.5), patches, 64)[1] for _ in range(200)])
    inside = drawn[
        :, :7, :7
    ]  # the jitter of patches of one pixel is −1, so the last row and column are in none
    assert inside.mean().item() == pytest.approx(0.5, abs=0.02)
    assert inside.var().item() == pytest.approx(1 / 8, abs=0.01)


def test_every_zone_is_mixed_with_its_own_strength_and_patches() -> None:
    zones = {"zones/strength": torch.tensor([0.1, 0.5, 1.0]), "zones/patches": torch.tensor([64, 16, 4])}
    with mock.patch.object(module, "drawn_mix", side_effect=lambda *given: given[2:4]) as drawn:
        found = method().drawn(zones, torch.Generator(), batch((1, 0, 0)))
    assert [tuple(float(each) for each in call.args[2:]) for call in drawn.call_args_list] == [
        (pytest.approx(0.1), 64, 64),
        (0.5, 16, 64),
        (1.0, 4, 64),
    ]
    assert [float(found[f"share/{zone}"]) for zone in ("swaz", "dwaz_model", "dwaz_proxy")] == [64, 16, 4]
    assert set(found) == {f"{kind}/{zone}" for kind in ("order", "share") for zone in ZONES}


# KDP


def at_work(round: int = 1, training: Any = None, **options: Any) -> Any:
    """The parts of a run, and client 1 in a round, with what it has received."""
    found = sharing.working("fedkwaz", 1, round, options=options, training=training or {})
    return found.parts, found.local


def test_the_gaps_of_a_mixed_batch_are_those_of_features_and_of_answers_both_ways() -> None:
    """M = x, Q = 0, x = (1, 0), τ = 1: MSE ½. With p = (σ, 1−σ) and q = (½, ½), KL(p ‖ q) for M, KL(q ‖ p) for Q."""
    nets = Nets(Plain(1.0), proxy=Plain(0.0))
    sigma = 1 / (1 + math.exp(-1))
    of_model = sigma * math.log(2 * sigma) + (1 - sigma) * math.log(2 * (1 - sigma))
    of_proxy = -math.log(4 * sigma * (1 - sigma)) / 2
    found = method(tau=1.0)._gaps(nets, batch((1, 0, 0)).x)
    assert found.tolist() == pytest.approx([0.5, of_model, of_proxy], rel=1e-12)


def test_each_zone_takes_the_pair_with_its_largest_gap() -> None:
    """Four pairs in the order (0.1, 16), (0.1, 4), (1, 16), (1, 4), with a gap for each zone."""
    gaps = [(1.0, 5.0, 2.0), (3.0, 1.0, 2.0), (2.0, 9.0, 0.0), (0.0, 0.0, 7.0)]
    parts, local = at_work(strengths=[0.1, 1.0], patches=[16, 4])
    with mock.patch.object(FedKWAZ, "_gaps", side_effect=[torch.tensor(each) for each in gaps]):
        found = parts.method.search(local)
    assert found["zones/strength"].tolist() == pytest.approx([0.1, 1.0, 1.0])
    assert found["zones/patches"].tolist() == [4, 16, 4]


def test_portions_of_the_samples_count_by_their_size() -> None:
    """Two pairs, portions of 22 and 11 samples, by zone: 22 + 44 > 44 + 0; 22 + 22 < 44 + 5.5; 44 + 0 > 22 + 16.5."""
    parts, local = at_work(strengths=[0.1, 1.0], patches=[16])
    local.train = local.train[:33]
    gaps = [(1.0, 1.0, 2.0), (2.0, 2.0, 1.0), (4.0, 2.0, 0.0), (0.0, 0.5, 1.5)]
    with (
        mock.patch.object(module, "REPRESENTATION_BATCH", 22),
        mock.patch.object(FedKWAZ, "_gaps", side_effect=[torch.tensor(each) for each in gaps]),
    ):
        found = parts.method.search(local)
    assert found["zones/strength"].tolist() == pytest.approx([0.1, 1.0, 0.1])


def test_zones_are_searched_for_every_k_rounds_of_the_method() -> None:
    for round, begun, searches in [(1, 0, 0), (2, 0, 1), (3, 0, 0), (4, 0, 1), (4, 1, 0)]:
        parts, local = at_work(round, every=2)
        parts.method.federation = replace(parts.method.federation, begun=begun)
        found = {"zones/strength": torch.full((3,), 7.0), "zones/patches": torch.full((3,), 49)}
        with mock.patch.object(FedKWAZ, "search", return_value=found) as search:
            parts.method.phases(local)
        assert search.call_count == searches
        assert (local.state["zones/strength"] == 7).all() == bool(searches)


# Messages


def sent(fedkwaz: FedKWAZ, client: int, labels: list[int], value: float, weight: float = 1.0) -> Uplink:
    widths = zip(KNOWLEDGE, fedkwaz._widths(), strict=True)
    rows = {name.replace("/", "__"): torch.full((len(labels), width), value) for name, width in widths}
    return sharing.sent(fedkwaz, client, weight, labels=labels, **rows)


def rows(server: Tensors) -> list[list[float]]:
    """The value of every class, which is the same in a row, for each kind of knowledge; and which are known."""
    assert all((server[name] == server[name][:, :1]).all() for name in KNOWLEDGE)
    return [*(server[name][:, 0].tolist() for name in KNOWLEDGE), server["known/classes"].tolist()]


def test_the_server_takes_plain_means_over_the_clients_with_a_class_and_keeps_other_classes() -> None:
    """Class 0: (1 + 4)/2, and then it alone is sent. Class 1: 4, and a stale 8 moves it by a quarter to 5."""
    fedkwaz = method()
    uplinks = [sent(fedkwaz, 0, [0], 1.0), sent(fedkwaz, 1, [0, 1], 4.0)]
    first, metrics = fedkwaz.aggregate(1, fedkwaz.init_server(), uplinks)
    assert rows(first) == [[2.5, 4.0]] * 4 + [[1.0, 1.0]]
    assert metrics == {"classes_known": 2}
    second, _ = fedkwaz.aggregate(2, first, [sent(fedkwaz, 2, [0], 7.0)])
    assert rows(second) == [[7.0, 4.0]] * 4 + [[1.0, 1.0]]
    third, _ = fedkwaz.aggregate(3, second, [sent(fedkwaz, 1, [1], 8.0, weight=0.25)])
    assert rows(third) == [[7.0, 5.0]] * 4 + [[1.0, 1.0]]


def test_a_class_of_which_a_short_stage_had_no_sample_has_the_mean_of_the_trained_networks() -> None:
    """With all rows of the collected sums equal to twice the samples, means of stage II are 2."""
    first, *others = at_work()[1].info.classes
    for epochs, seen in ((1, [first, *others]), (0.5, [first])):
        parts, local = at_work(collect="training", training={"epochs": epochs})
        counts = torch.zeros(4).index_fill(0, torch.tensor(seen), 3.0)
        local.collected = {"outputs": counts[:, None].expand(4, 24) * 2, "samples": counts}
        means = parts.method.uplink(local)["features/model"]
        assert (means[: len(seen)] == 2).all()
        torch.testing.assert_close(means[len(seen) :], local.class_means()[0][len(seen) :])


RELEASED = {"divergence": "teacher_first", "base": "both", "labels": "both", "collect": "training"}
"""What the authors' code computes otherwise than Algorithm 1."""


@pytest.mark.parametrize("options", [{}, RELEASED], ids=["paper", "released"])
def test_two_whole_rounds_equal_the_reference(options: dict[str, Any]) -> None:
    """Three clients of two classes each, before the first search for zones. What is drawn is mixed as above."""
    tau, lr = 2.0, 0.05
    ran = reference.Rounds.of("fedkwaz", 2, lr, method={"tau": tau, **options})
    networks = [ran.of_clients("model"), ran.of_clients("proxy")]
    features_of = {name: part(ran.server, "features")[name] for name in ("model", "proxy")}
    logits_of = {name: part(ran.server, "logits")[name] for name in ("model", "proxy")}
    teacher_of = torch.clone if options else torch.detach

    def gap(student: Tensor, teacher: Tensor) -> Tensor:
        p, q = (student / tau).log_softmax(1), (teacher / tau).log_softmax(1)
        p, q = (q, p) if options else (p, q)
        return tau**2 * (p.exp() * (p - q)).sum(1).mean()

    def far(z: Tensor, other: Tensor) -> Tensor:
        return ((z - other) ** 2).mean()

    for t in (1, 2):
        sums = {name: (torch.zeros(4, 8).double(), torch.zeros(4, 4).double()) for name in features_of}
        holders = torch.zeros(4).double()
        for client, (own, proxy, (x_k, y_k)) in enumerate(zip(*networks, ran.data, strict=True)):
            for x, y in ran.batches("align", t, client):
                for w, teacher in ((own, "proxy"), (proxy, "model")):
                    z = features(w, x)
                    loss = ce(of_head(w, z), y)
                    if t == 2:
                        target = logits_of[teacher][y].softmax(1)
                        loss = loss - (target * of_head(w, z).log_softmax(1)).sum(1).mean()
                        loss = loss + far(z, features_of[teacher][y])
                    reference.descend(loss, lr, w)
            draws, shown = reference.stream("draws/refine", t, client), list[tuple[Tensor, ...]]()
            for x, y in ran.batches("refine", t, client):
                (z, z_q), images = (features(w, x) for w in (own, proxy)), []
                s, s_q = of_head(own, z), of_head(proxy, z_q)
                shown.append((y, z, s, z_q, s_q))
                loss = gap(s, teacher_of(s_q)) + far(z, teacher_of(z_q))
                loss = loss + gap(s_q, teacher_of(s)) + far(z_q, teacher_of(z))
                if options:
                    loss = loss + ce(s, y) + ce(s_q, y)
                with reference.double_precision():
                    for _ in ZONES:
                        drawn = drawn_mix(draws, x, torch.tensor(0.1), torch.tensor(16), 64)
                        images.append(mixed(x, *drawn))
                swaz, for_own, for_proxy = images
                z, z_q = (features(w, swaz) for w in (own, proxy))
                loss = loss + far(z, z_q.detach()) + far(z_q, z.detach())
                loss = loss + gap(logits(own, for_own), logits(proxy, for_own).detach())
                loss = loss + gap(logits(proxy, for_proxy), logits(own, for_proxy).detach())
                reference.descend(loss, lr, own, proxy)
            if not options:  # of the trained networks, not of the steps
                z, z_q = (features(w, x_k) for w in (own, proxy))
                shown = [(y_k, z, of_head(own, z), z_q, of_head(proxy, z_q))]
            labels, z, s, z_q, s_q = (torch.cat(each).detach() for each in zip(*shown, strict=True))
            for label in y_k.unique():
                holders[label] += 1
                for name, *both in (("model", z, s), ("proxy", z_q, s_q)):
                    for total, values in zip(sums[name], both, strict=True):
                        total[label] += values[labels == label].mean(0)
        assert holders.all()
        features_of = {name: both[0] / holders[:, None] for name, both in sums.items()}
        logits_of = {name: both[1] / holders[:, None] for name, both in sums.items()}
    clients = dict(zip(("model", "proxy"), networks, strict=True))
    ran.assert_ended({"features": features_of, "logits": logits_of}, clients)


# Without stage I


def test_without_stage_i_clients_keep_their_networks_and_exchange_nothing() -> None:
    options = {"align": False, "labels": "both"}
    everybody = {"participation": 1.0}
    parts = federations.built(federations.config("fedkwaz", method=options, federation=everybody))
    before = parts.engine.initial_state()
    after = federations.run(parts.engine, 1)
    assert after.record is not None
    assert after.record["bytes"]["per_client_up"] == after.record["bytes"]["per_client_down"] == [0] * 4
    assert federations.bits(after.server) == federations.bits(before.server)
    start, end = (part(state.clients[1], "proxy") for state in (before, after))
    assert all(not torch.equal(start[name], end[name]) for name in start)


def test_some_stage_must_learn_from_the_labels() -> None:
    with pytest.raises(ConfigError, match=r"align = false leaves no stage .* set method\.labels=both"):
        method(align=False)
    assert method(align=False, labels="both").config.labels == "both"


def test_every_client_draws_its_own_proxy_of_the_smallest_architecture_unless_another_is_named() -> None:
    shape = ImageShape(3, 32, 32)
    htm5 = federations.federation(["cnn1", "cnn5", "cnn2"], num_classes=10, shape=shape)
    assert (method(htm5).proxy, method(htm5, proxy="cnn1").proxy) == ("cnn5", "cnn1")
    fedkwaz = method()
    one, other = (fedkwaz.init_client(k)["proxy/head.weight"] for k in fedkwaz.federation.clients[:2])
    assert not torch.equal(one, other)


# Needs


def test_features_of_another_width_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"one feature width: clients have 8, the proxy tiny_mlp_w2 has 4"):
        method(proxy="tiny_mlp_w2").check()
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_mlp_w2\)"):
        method(federations.federation(["tiny_mlp", "tiny_mlp_w2"])).check()


def test_more_patches_than_pixels_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs images of 9×9 for 81 patches; lower method.patches"):
        method(patches=[4, 81]).check()
    method(patches=[4, 64]).check()


def test_strengths_and_patches_that_cannot_be_tried_are_refused() -> None:
    for options, reason in [
        ({"patches": [4, 8]}, "patches are squares"),
        ({"patches": [0]}, "patches are squares"),
        ({"patches": []}, "patches are squares"),
        ({"strengths": [0.0]}, "strengths are numbers above 0"),
        ({"strengths": []}, "strengths are numbers above 0"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            method(**options)


# FedL2G: π against double backward and by hand, the quiz that is never trained on, the warm-up, the server's step


TWINS = pytest.mark.parametrize("name", ["fedl2g_l", "fedl2g_f"])


def built(name: str = "fedl2g_l", **sections: Any) -> Built:
    return federations.built(federations.config(name, **sections))


def server_side(name: str = "fedl2g_l", num_classes: int = 2, rounds: int = 3, **method: Any) -> FedL2G:
    """Two clients, two classes, no data."""
    two = ["tiny_cnn", "tiny_mlp"]
    federation = federations.federation(two, [8, 8], num_classes=num_classes, rounds=rounds)
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
    found = {name: term.item() for name, term in terms.items()}
    assert found == {"cross_entropy": pytest.approx(math.log(2)), "guiding": pytest.approx(12.5)}


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
    trained = [federations.bits(now) != was for now, was in zip(third.clients, models, strict=True)]
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
