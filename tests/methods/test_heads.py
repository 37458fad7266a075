"""Heads and generators on the server, by hand: FedGH, FedRE, FedSSA, FedGen, and FedKTL, with whole rounds."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, of_module, part
from simulator.data.specs import TableSpec
from simulator.engine.progress import unobserved
from simulator.methods import Method, Uplink
from simulator.methods.fedgen import FedGen, classes_from
from simulator.methods.fedgh import FedGH
from simulator.methods.fedktl import FedKTL, etf, sine
from simulator.methods.fedssa import FedSSA
from simulator.models import ImageShape, generators
from simulator.models.generators import Design, Generator
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets
from simulator.training.trainer import CentralServer, TrainingContext
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, features, kl, logits, of_head
from tests.networks import Plain, batch


def two(name: str, training: TrainingConfig | None = None, **options: Any) -> Any:
    """That method over two clients and two classes. Heads are 2×8, of which the tests use the first feature."""
    return sharing.of(name, federations.federation(["tiny_cnn", "tiny_mlp"], training=training), **options)


def column(method: Method, uplinks: Sequence[Uplink]) -> list[float]:
    """The head's first column after a round of the server's that starts from zeros."""
    zeros = {name: torch.zeros_like(each) for name, each in method.init_server().items()}
    weight = federations.served(method, zeros, uplinks).server["head/weight"]
    assert not weight[:, 1:].any()
    return weight[:, 0].tolist()


# FedGH


def lars(method: Method, client: int, *pairs: tuple[float, int], weight: float = 1.0) -> Uplink:
    """An uplink of class means (value, 0, 0, …) with their labels."""
    features = sharing.wide(*[(value,) for value, _ in pairs])
    return sharing.sent(method, client, weight, features=features, labels=[label for _, label in pairs])


def twice(row: float = 0.0) -> float:
    """The first row after f = 1 of class 0 and f = 1 of class 1, twice over. Where it is a and the other −a, the logits
    differ by 2a: it becomes a + 1/(1 + e^(2a)) for class 0, and a − 1/(1 + e^(−2a)) for class 1.
    """
    for _ in range(2):
        row += 1 / (1 + math.exp(2 * row))
        row -= 1 / (1 + math.exp(-2 * row))
    return row


@pytest.mark.parametrize(
    ("options", "first", "second", "row"),
    [
        # From θ = 0 the softmax is (½, ½). The gradient of CE for f = 1 of class 0 is −½ and ½ in the first column.
        ({}, [(1.0, 0)], [], 0.5),
        # Then f = 1 of class 1, whose logits are (½, −½): p = (0.7311, 0.2689), and ½ − 0.7311.
        ({}, [(1.0, 0), (1.0, 1)], [], -0.2310586),
        # f = 1 of class 0 and f = 3 of class 1 in one step: the mean gradient of the first row is (−½·1 + ½·3)/2 = ½.
        ({"server_step": "client"}, [(1.0, 0), (3.0, 1)], [], -0.5),
        # From there the logits of another client's f = 1 are (−½, ½), and class 0 adds 1 − 1/(1 + e).
        ({"server_step": "client"}, [(1.0, 0), (3.0, 1)], [(1.0, 0)], 0.5 - 1 / (1 + math.e)),
        # Epochs repeat the whole pass and not each step.
        ({"server_epochs": 2}, [(1.0, 0)], [(1.0, 1)], twice()),
    ],
)
def test_fedghs_server_steps_along_the_softmax_gradient(
    options: Any, first: list[tuple[float, int]], second: list[tuple[float, int]], row: float
) -> None:
    """Eq. 4 by class, with η = 1. The second row is minus the first."""
    method = two("fedgh", eta_theta=1.0, **options)
    uplinks = [lars(method, k, *pairs) for k, pairs in enumerate((first, second)) if pairs]
    assert column(method, uplinks) == pytest.approx([row, -row], rel=1e-5)


def test_a_stale_representation_makes_a_smaller_step() -> None:
    """Half the weight halves the gradient of ½ and −½, beside one of client 1 whose features are zero."""
    for server_step, share in (("pair", 1.0), ("client", 1.0), ("batch", 0.5)):  # the mean over both pairs
        method = two("fedgh", eta_theta=1.0, server_step=server_step)
        found = column(method, [lars(method, 0, (1.0, 0), weight=0.5), lars(method, 1, (0.0, 0))])
        assert found == pytest.approx([0.25 * share, -0.25 * share])


def test_batches_of_pairs_are_shuffled_by_the_rounds_stream() -> None:
    """Batches of 3 of four pairs: one step on the mean of three, then one on the other, in the order drawn."""
    method = two("fedgh", TrainingConfig(batch_size=3), server_step="batch", eta_theta=1.0)
    pairs = [(1.0, 0), (2.0, 1), (3.0, 0), (4.0, 1)]
    row = 0.0
    for rows in torch.randperm(4, generator=reference.stream("order", 1)).split(3):
        moves = []
        for value, label in (pairs[number] for number in rows.tolist()):
            p_0 = 1 / (1 + math.exp(-2 * row * value))
            moves.append(((label == 0) - p_0) * value)
        row += sum(moves) / len(moves)
    found = column(method, [lars(method, 0, *pairs[:2]), lars(method, 1, *pairs[2:])])
    assert found[0] == pytest.approx(row, rel=1e-5)


def test_a_header_with_a_bias_travels_and_trains_with_it() -> None:
    """From θ = 0 and f = (1, 0, …) of class 0 a step with η = 1 leaves ½ and −½ in the bias as in the weights."""
    method = two("fedgh", eta_theta=1.0, bias=True)
    start = {"head/weight": torch.zeros(2, 8), "head/bias": torch.zeros(2)}
    served = federations.served(method, start, [lars(method, 0, (1.0, 0))]).server
    assert served["head/bias"].tolist() == [0.5, -0.5]
    _, _, state, local = sharing.working("fedgh", options={"bias": True})
    replaced = {f"model/head.{key}": state.server[f"head/{key}"] for key in ("weight", "bias")}
    assert federations.bits(local.tensors()) == federations.bits(state.clients[0] | replaced)


def test_local_averaged_representations_are_class_means_in_class_order() -> None:
    """A network that shows the brightness of its 3×3 image as its first feature. Class 2 has images of brightness
    2 and 4, class 0 has 10, 20 and 30: means 20 and 3, labels 0 and 2.
    """
    brightness, labels = torch.tensor([2, 10, 4, 20, 30]), torch.tensor([2, 0, 2, 0, 0])
    images = brightness[:, None, None, None].expand(-1, 3, 3, 1)
    data = federations.pixels(images, labels, [torch.arange(5)], num_classes=3)
    federation = federations.federation(["tiny_cnn"], [5], [(0, 2)], num_classes=3, shape=ImageShape(1, 3, 3))
    tensors = sharing.filled(federation.architectures["tiny_cnn"].state_dict(), 0.0)
    tensors["conv1.weight"][0, 0, 1, 1] = tensors["fc1.weight"][0, 0] = tensors["fc2.weight"][0, 0] = 1.0
    weights = {f"model/{name}": tensor for name, tensor in tensors.items()}
    context = TrainingContext(federation, data, FlopCache())
    local = LocalClient(context, federation.clients[0], 1, weights)
    uplink = FedGH(federations.config("fedgh").method, federation).uplink(local)
    assert torch.equal(uplink["features"], sharing.wide((20.0,), (3.0,)))
    assert uplink["labels"].tolist() == [0, 2]
    assert uplink["labels"].dtype == torch.int32


# FedRE


@pytest.mark.parametrize(
    ("options", "mixtures", "row"),
    [
        # From zeros the softmax is (½, ½). With shares (¾, ¼) of f = 2, the gradient is 2 · (½ − ¾, ½ − ¼) = (−½, ½).
        ({}, [(2.0, [0.75, 0.25], 1.0)], 0.5),
        # A sum over the clients of a batch: f = 1 of class 0 from both is twice the step of one, ½ each.
        ({}, [(1.0, [1.0, 0.0], 1.0)] * 2, 1.0),
        # In batches of one: after ½ and −½ in weight and bias, the logits of f = 1 are (1, −1): 1 − 1/(1 + e⁻²) more.
        ({"server_batch": 1}, [(1.0, [1.0, 0.0], 1.0)] * 2, 0.5 + 1 - 1 / (1 + math.exp(-2))),
        # A stale mixture makes a smaller step.
        ({}, [(1.0, [1.0, 0.0], 0.5)], 0.25),
    ],
)
def test_fedres_server_steps_towards_the_shares_of_the_labels(
    options: Any, mixtures: list[tuple[float, list[float], float]], row: float
) -> None:
    method = two("fedre", server_lr=1.0, **options)
    uplinks = [
        sharing.sent(method, k, weight, feature=sharing.wide((value,))[0], shares=shares, labels=[0, 1])
        for k, (value, shares, weight) in enumerate(mixtures)
    ]
    assert column(method, uplinks) == pytest.approx([row, -row])


def test_a_client_sends_a_mixture_of_its_class_means_with_shares_that_sum_to_one() -> None:
    parts, _, _, local = sharing.working("fedre", 1, receives=False)
    means, labels = local.class_means()
    sent = parts.method.uplink(local)
    assert sent["labels"].tolist() == labels.tolist()
    assert sent["shares"].sum().item() == pytest.approx(1.0)
    assert (sent["shares"] > 0).all()
    torch.testing.assert_close(sent["feature"], sent["shares"] @ means)


# FedSSA


def fedssa_with(**options: Any) -> FedSSA:
    """Three clients that see classes 0 and 1, 1 and 2, 0 and 3, of five."""
    seen = [(0, 1), (1, 2), (0, 3)]
    federation = federations.federation(["tiny_cnn"] * 3, [1, 10, 100], seen, num_classes=5)
    found: FedSSA = sharing.of("fedssa", federation, **options)
    return found


def head(*rows: float) -> Tensors:
    """A head, or some rows of one, each filled with one number."""
    bias = torch.tensor(rows)
    return {"head/weight": bias[:, None].repeat(1, 8), "head/bias": bias}


def rows_of(method: FedSSA, client: int, *rows: float) -> Uplink:
    return Uplink(method.federation.clients[client], head(*rows))


def test_a_row_is_the_plain_mean_over_the_clients_that_see_the_class_and_only_seen_rows_travel() -> None:
    """Samples (1, 10, 100) do not weigh. Class 0: (2 + 6)/2 = 4; class 1: (4 + 10)/2 = 7; class 2 and 3: one holder."""
    fedssa = fedssa_with()
    uplinks = [rows_of(fedssa, 0, 2.0, 4.0), rows_of(fedssa, 1, 10.0, 20.0), rows_of(fedssa, 2, 6.0, 8.0)]
    server, _ = fedssa.aggregate(1, head(0.0, 0.0, 0.0, 0.0, 9.0), uplinks)
    assert federations.bits(server) == federations.bits(head(4.0, 7.0, 20.0, 8.0, 9.0))
    payload = fedssa.downlink(1, head(1.0, 2.0, 3.0, 4.0, 5.0), fedssa.federation.clients[2])
    assert federations.bits(payload) == federations.bits(head(1.0, 4.0))


def test_mu_falls_as_a_quarter_cosine_from_the_methods_first_round_and_stays_at_zero() -> None:
    """μ_0 = 0.8, T_stable = 4: μ^t = 0.8 cos(π t / 8) up to t = 4, and t counts from 0 (Algorithm 1). Later, the cosine
    would be −0.31 and −0.8. Switched to after round 30, round 31 is t = 0. Older sessions count t from 1.
    """
    expected = [0.8, 0.8 * math.cos(math.pi / 8), 0.8 * math.sqrt(0.5), 0.0, 0.0, 0.0]
    fedssa = fedssa_with(mu_0=0.8, t_stable=4)
    later = FedSSA(fedssa.config, replace(fedssa.federation, begun=30))
    for begun, method in ((0, fedssa), (30, later)):
        assert [method.mu(begun + t) for t in (1, 2, 3, 5, 6, 9)] == pytest.approx(expected, abs=1e-12)
    assert fedssa.aggregate(2, head(*[0.0] * 5), [rows_of(fedssa, 0, 1.0, 1.0)]).metrics["mu"] == fedssa.mu(2)
    older = fedssa_with(t_stable=10, t_from=1)
    assert [older.mu(round) for round in (1, 2, 10)] == pytest.approx([0.4938442, 0.4755283, 0], abs=1e-7)


def test_seen_rows_are_fused_and_unseen_rows_stay_local() -> None:
    """A client that sees two classes of four, with 8 in its head; μ in round 3 is 0.5 · cos(π/3) = ¼."""
    theta = torch.tensor([100.0, 101.0, 102.0, 103.0])
    for fusion, expected in [
        ("sum", theta + 0.25 * 8.0),  # eq. 4 as printed
        ("convex", 0.75 * theta + 0.25 * 8.0),
        ("replace_seen", theta),  # ablation B of Table 3
    ]:
        options = {"mu_0": 0.5, "t_stable": 3, "fusion": fusion}
        _, method, _, local = sharing.working("fedssa", round=3, receives=False, options=options)
        own = local.nets.model.head
        with torch.no_grad():
            for weight in own.parameters():
                weight.fill_(8.0)
        method.receive(local, method.downlink(3, head(*theta.tolist()), local.info))
        seen = torch.zeros(4).index_fill(0, torch.tensor(local.info.classes), 1.0) > 0
        assert 0 < seen.sum() < 4
        assert (own.weight == own.bias[:, None]).all()
        torch.testing.assert_close(own.bias.detach(), torch.where(seen, expected, torch.tensor(8.0)))


def test_in_ablation_a_seen_rows_go_up_and_the_whole_header_comes_down() -> None:
    """§6.4, A: aggregation by class stays, and the latest global header takes the place of the fusion."""
    fedssa = fedssa_with(fusion="replace_all")
    uplinks = [rows_of(fedssa, 0, 2.0, 4.0), rows_of(fedssa, 2, 6.0, 8.0)]  # of classes 0, 1 and 0, 3
    server, _ = fedssa.aggregate(1, head(*[0.0] * 5), uplinks)
    assert federations.bits(server) == federations.bits(head(4.0, 4.0, 0.0, 8.0, 0.0))
    down = fedssa.downlink(2, server, fedssa.federation.clients[1])
    assert federations.bits(down) == federations.bits(server)
    parts, _, _, local = sharing.working("fedssa", receives=False, options={"fusion": "replace_all"})
    assert len(parts.method.uplink(local)["head/bias"]) == len(local.info.classes)


def test_over_all_holders_the_absent_count_with_what_they_last_sent() -> None:
    """Class 1 is held by clients 0 and 1 and begins at ½. Client 0 sends 1: (1 + ½)/2; then 1 sends 3: (1 + 3)/2."""
    fedssa = fedssa_with(holders="all")
    begun = head(*[0.5] * 5)
    start = begun | {k.replace("head", "sent"): rows.expand(3, *rows.shape) for k, rows in begun.items()}
    first, _ = fedssa.aggregate(1, start, [rows_of(fedssa, 0, 9.0, 1.0)])
    second, _ = fedssa.aggregate(2, first, [rows_of(fedssa, 1, 3.0, 9.0)])
    assert [server["head/bias"][1].item() for server in (first, second)] == [0.75, 2.0]
    assert (second["head/weight"][1] == 2.0).all()
    assert second["head/bias"][4] == 0.5  # nobody holds class 4


def test_an_aggregated_evaluation_fuses_as_the_next_round_will(monkeypatch: pytest.MonkeyPatch) -> None:
    """T_stable = 2: after round 1 (μ = ½) clients answer with ½ cos(π/4), that of the payload they received. Weight and
    bias of three participants are fused, then those of all four.
    """
    asked: list[int] = []
    mu = FedSSA.mu
    monkeypatch.setattr(FedSSA, "mu", lambda self, round: (asked.append(round), mu(self, round))[1])
    settings = federations.config("fedssa", method={"t_stable": 2}, evaluation={"model": "aggregated"})
    federations.run(federations.built(settings).engine, 1)
    assert asked == [1] * 6 + [1] + [2] * 8  # the server records μ in between


# FedGen


def fedgen_with(
    classes: list[tuple[int, ...]] | None = None, samples: list[int] | None = None, **options: Any
) -> FedGen:
    """Clients of three classes, K = 8; two, unless said otherwise."""
    models = ["tiny_cnn"] * len(classes or samples or [0, 0])
    federation = federations.federation(models, samples, classes, num_classes=3)
    found: FedGen = sharing.of("fedgen", federation, **options)
    return found


def told(method: FedGen, client: int, counts: list[int], weight: float = 0.0) -> Uplink:
    full = {"head__weight": torch.full((3, 8), weight), "head__bias": torch.full((3,), weight)}
    return sharing.sent(method, client, counts=counts, **full)


def test_a_class_that_nobody_holds_is_never_drawn() -> None:
    """And the others as often as their shares say: 3,000 of 12,000, give or take four standard deviations (48)."""
    drawn = classes_from(torch.tensor([0.25, 0.0, 0.75]), 12_000, reference.stream("test", 1))
    counts = drawn.bincount(minlength=3).tolist()
    assert counts[1] == 0
    assert abs(counts[0] - 3000) < 4 * 48


def test_classes_are_made_as_the_participants_hold_them() -> None:
    """Clients 0 and 2 take part: 2 and 1 of classes 0 and 1, 4 and 3 of 1 and 2. Client 1, with class 0, does not."""
    for labels, shares in [("counts", [2 / 10, 5 / 10, 3 / 10]), ("uniform", [1 / 3, 1 / 3, 1 / 3])]:
        fedgen = fedgen_with([(0, 1), (0,), (1, 2)], labels=labels)
        start = fedgen.init_server()
        before = fedgen.aggregate(1, start, [told(fedgen, 1, [90])]).server
        assert start["counts"].eq(0).all()  # a state that a round started from stays as it was
        server = fedgen.aggregate(2, before, [told(fedgen, 0, [2, 1]), told(fedgen, 2, [4, 3])]).server
        assert server["labels"].tolist() == pytest.approx(shares)
        assert server["counts"].tolist() == [[2, 1, 0], [90, 0, 0], [0, 4, 3]]


def test_the_weights_of_what_is_made_decay_from_where_the_method_began() -> None:
    """α = 10, β = 4, halved every round: in round 3 a quarter."""
    parts = federations.built(federations.config("fedgen", method={"alpha": 10, "beta": 4, "decay": 0.5}))
    state = federations.run(parts.engine, 2)
    local = federations.local(parts, 0, state.clients[0], 3)
    parts.method.receive(local, parts.method.downlink(3, state.server, local.info))
    (phase,) = parts.method.phases(local)
    assert phase.state["weights"].tolist() == [2.5, 1.0]
    assert phase.name == "guided"
    later = FedGen(parts.method.config, replace(parts.federation, begun=1))
    assert later.phases(local)[0].state["weights"].tolist() == [5.0, 2.0]


def test_noise_for_the_images_own_classes_is_drawn_where_it_is_used() -> None:
    """A draw more in every step would change all that are made after it."""
    shares = torch.tensor([0.5, 0.5, 0.0])
    images = Batch(torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64))
    for beta, names in [(0.0, {"labels", "noise"}), (1.0, {"labels", "noise", "noise_own"})]:
        assert fedgen_with(beta=beta).draws(shares, reference.stream("tests", 0), images).keys() == names


def test_a_client_with_the_only_image_of_a_class_teaches_it_alone() -> None:
    """Class 0: client 0 has 2 of 2; class 1: 1 of 4 and 3 of 4; class 2: client 1 has the one there is."""
    fedgen = fedgen_with([(0, 1), (1, 2)])
    uplinks = [told(fedgen, 0, [2, 1]), told(fedgen, 1, [3, 1])]
    place = TrainingContext(fedgen.federation, None, FlopCache())
    server = fedgen.aggregate(1, fedgen.init_server(), uplinks).server
    (phase,) = fedgen.server_phases(CentralServer(place, 1, server, fedgen.server_networks()), uplinks)
    assert phase.state["shares"].tolist() == [[1, 0.25, 0], [0, 0.75, 1]]


def made(g: Tensors, noise: Tensor, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """What the generator makes, normalized with these statistics."""
    h = hidden(g, noise, y)
    h = (h - mean) / (variance + 1e-5).sqrt() * g["layers.1.weight"] + g["layers.1.bias"]
    return h.relu() @ g["layers.3.weight"].T + g["layers.3.bias"]


def hidden(g: Tensors, noise: Tensor, y: Tensor) -> Tensor:
    one_hot = torch.eye(4, dtype=torch.float64)[y]
    return torch.cat([noise, one_hot], 1) @ g["layers.0.weight"].T


def drawn(p: Tensor, count: int, draws: torch.Generator) -> Tensor:
    times = -torch.rand(count, 4, generator=draws, dtype=torch.float64).log()
    return torch.stack([(p / row).argmax() for row in times])


@pytest.mark.parametrize(
    ("teacher", "others"),
    [
        ("mean_logits", {}),
        ("losses", {"noise": "uniform", "labels": "uniform"}),
        ("logits", {"weighting": "samples"}),
    ],
)
def test_three_whole_rounds_equal_the_reference(teacher: str, others: dict[str, str]) -> None:
    """Three clients of two classes each; in the first round there is no generator yet."""
    lr, server_lr, alpha, beta, decay, eta = 0.1, 0.01, 2.0, 0.5, 0.5, 0.3
    options = {"alpha": alpha, "beta": beta, "decay": decay, "diversity": eta, "noise_width": 3, "hidden": 5}
    options |= {"server_steps": 4, "server_batch": 6, "server_lr": server_lr, "teacher": teacher}
    ran = reference.Rounds.of("fedgen", 3, lr, method=options | others)
    models, head, initial = ran.of_clients("model"), part(ran.server, "head"), part(ran.server, "generator")
    counts = torch.stack([torch.bincount(y, minlength=4).double() for _, y in ran.data])
    of_class, samples = counts / counts.sum(0), counts.sum(1) / counts.sum()
    p = counts.sum(0) / counts.sum()
    p = torch.full_like(p, 1 / 4) if "labels" in others else p
    g = reference.leaves({name: each for name, each in initial.items() if name.endswith(("weight", "bias"))})
    mean, variance = initial["layers.1.running_mean"].clone(), initial["layers.1.running_var"].clone()
    adam = reference.Adam(g, server_lr)

    def noise_of(count: int, draws: torch.Generator) -> Tensor:
        draw = torch.rand if "noise" in others else torch.randn
        return draw(count, 3, generator=draws, dtype=torch.float64)

    def taught(z: Tensor, y: Tensor) -> Tensor:
        scores = torch.stack([of_head(w, z) for w in models])
        if teacher == "losses":
            losses = torch.logsumexp(scores, 2) - scores[:, range(len(y)), y]
            return (of_class[:, y] * losses).sum(0).mean()
        return ce(scores.mean(0) if teacher == "mean_logits" else torch.einsum("k,kbc", samples, scores), y)

    for t in (1, 2, 3):
        name = "model" if t == 1 else "guided"
        for client, w in enumerate(models):
            w |= reference.leaves({f"head.{key}": each for key, each in head.items()})
            draws = reference.stream(f"draws/{name}", t, client)
            for x, y in ran.batches(name, t, client):
                z = logits(w, x)
                loss = ce(z, y)
                if t > 1:
                    labels = drawn(p, len(y), draws)
                    of_drawn = made(g, noise_of(len(y), draws), labels, mean, variance).detach()
                    of_own = made(g, noise_of(len(y), draws), y, mean, variance).detach()
                    loss = loss + alpha * decay ** (t - 1) * ce(of_head(w, of_drawn), labels)
                    loss = loss + beta * decay ** (t - 1) * kl(of_head(w, of_own), z)
                reference.descend(loss, lr, w)

        draws = reference.stream("draws/generator", t)
        for y in drawn(p, 24, reference.stream("labels", t)).split(6):
            noise = noise_of(6, draws)
            h = hidden(g, noise, y)
            z = made(g, noise, y, h.mean(0), h.var(0, unbiased=False))
            mean = 0.9 * mean + 0.1 * h.mean(0).detach()
            variance = 0.9 * variance + 0.1 * h.var(0).detach()
            pairs = [
                (noise[i] - noise[j]).square().mean() * (z[i] - z[j]).abs().mean()
                for i in range(6)
                for j in range(6)
            ]
            adam.descend(taught(z, y) + eta * torch.exp(-torch.stack(pairs).mean()))
        heads = [{k: w[f"head.{k}"].detach() for k in ("weight", "bias")} for w in models]
        plain = {k: torch.stack([each[k] for each in heads]).mean(0) for k in heads[0]}
        head = ran.mean(heads) if "weighting" in others else plain

    found = part(ran.end.server, "generator")
    assert found.pop("layers.1.num_batches_tracked") == 12
    reference.assert_equal(found, g | {"layers.1.running_mean": mean, "layers.1.running_var": variance})
    ran.assert_ended({"head": head}, {"model": models})


# The server's own training


def test_kept_moments_go_on_from_round_to_round_and_change_what_the_next_one_computes() -> None:
    """Ten steps a round: Adam has counted twenty after two. With its moments put back to zero, round 2 gives another
    generator.
    """
    engine = federations.built(federations.config("fedgen", method={"server_steps": 10})).engine
    first = federations.run(engine, 1)
    forgot = {k: torch.zeros_like(x) if k.startswith("adam/") else x for k, x in first.server.items()}
    states = (federations.replaced(first, server=each) for each in (first.server, forgot))
    on, afresh = (engine.round(state, unobserved).server for state in states)
    adam = part(on, "adam")
    assert adam["step"] == 20
    assert all(value.any() for name, value in adam.items() if name.endswith("weight.exp_avg"))
    assert federations.bits(part(on, "generator")) != federations.bits(part(afresh, "generator"))


# FedKTL: the classes' fixed vectors, both losses, and the server's steps by hand; what travels; needs


DESIGN = Design(noise=3, latent=2, layers=1, width=1, size=4, channels=1)


def method(classes: int = 3, shape: Any = federations.DIGIT, clients: int = 2, **options: Any) -> FedKTL:
    federation = federations.federation(["tiny_cnn"] * clients, num_classes=classes, shape=shape)
    return sharing.of("fedktl", federation, **options)


def file(folder: Path, **sizes: int) -> str:
    design = Design(**(vars(DESIGN) | sizes))
    path = folder / "generator.safetensors"
    generators.save(generators.drawn(design, reference.stream("generator", 0)), design, path)
    return str(path)


def at_work(fedktl: FedKTL) -> CentralServer:
    with torch.device("meta"):
        networks = fedktl.server_networks()
    context = TrainingContext(fedktl.federation, None, FlopCache())
    return CentralServer(context, 1, fedktl.init_server(), networks)


def test_any_two_class_vectors_have_the_same_widest_angle() -> None:
    """Length 1, and cosine −1/(C − 1) = −1/2 for three classes."""
    vectors = etf(3, reference.stream("test", 1))
    expected = torch.tensor([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]])
    assert torch.allclose(vectors @ vectors.T, expected, atol=1e-6)
    assert not torch.allclose(vectors, vectors.T, atol=0.1)  # turned by the draw


def test_the_margin_keeps_a_finite_gradient_at_the_class_itself() -> None:
    cosines = torch.tensor([1.0, 0.6, 0.0], requires_grad=True)
    found = sine(cosines)
    found.sum().backward()
    assert found.tolist() == pytest.approx([1e-3, 0.8, 1.0])
    assert cosines.grad is not None
    assert cosines.grad.tolist() == pytest.approx([0.0, -0.75, 0.0])


def test_a_step_has_different_images_no_more_than_a_batch() -> None:
    for classes, drawn in [(20, 16), (3, 3)]:
        training = TrainingConfig(batch_size=16)
        federation = federations.federation(["tiny_cnn"], num_classes=classes, training=training)
        fedktl = FedKTL(federations.config("fedktl").method, federation)
        stream = reference.stream("test", 1)
        pairs = fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"]
        assert len(pairs.unique()) == len(pairs) == drawn
        assert not torch.equal(pairs, fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"])


def test_a_centroid_is_the_mean_of_what_clients_sent_and_others_stay() -> None:
    fedktl = method()
    server = at_work(fedktl)
    server.nets["transformer"] = nn.Linear(3, 64, bias=False)
    weight = server.nets["transformer"].get_parameter("weight")
    weight.data = torch.zeros(64, 3)
    weight.data[0] = torch.tensor([1.0, 0.0, 0.0])
    before = server.nets["centroids"].get_parameter("weight").clone()
    first = sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0], [5.0, 0, 0]], labels=[0, 2])
    fedktl.place(server, [first, sharing.sent(fedktl, 1, prototypes=[[2.0, 0, 0]], labels=[0])])
    after = server.nets["centroids"].get_parameter("weight")
    assert after[[0, 2], 0].tolist() == [1.5, 5.0]
    assert after[0, 1:].eq(0).all()
    assert torch.equal(after[1], before[1])


def test_batches_of_the_server_have_no_single_row() -> None:
    """Five prototypes in batches of two: two and three, as BatchNorm cannot train on one. A single one counts twice."""
    fedktl = method(server_epochs=4, server_batch=2, server_lr=0.5)
    rows = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    first = sharing.sent(fedktl, 0, prototypes=rows, labels=[0, 1, 2])
    uplinks = [first, sharing.sent(fedktl, 1, prototypes=rows[:2], labels=[0, 1])]
    [phase] = fedktl.server_phases(at_work(fedktl), uplinks)
    assert (phase.optimizer, phase.lr, phase.keeps) == ("adam", 0.5, None)
    assert [len(batch.y) for batch in phase.batches or ()] == [2, 3] * 4
    one = sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0]], labels=[1])
    [phase] = method(server_epochs=1).server_phases(at_work(fedktl), [one])
    [batch] = phase.batches or ()
    assert (batch.x.tolist(), batch.y.tolist()) == ([[1.0, 0, 0]] * 2, [1, 1])


def test_a_smaller_image_has_the_mean_of_all_pixels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From 32 to 8 pixels, two of four stripes are bright. Without averaging, only the middle ones would count."""
    fedktl = method(generator_file=file(tmp_path, size=32), server_epochs=1)
    stripes = torch.tensor([1.0, 0.0, 0.0, 1.0]).repeat(8).expand(3, 1, 32, 32)
    monkeypatch.setattr(Generator, "forward", lambda self, latents: stripes)
    uplinks = [sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0], [0, 1.0, 0]], labels=[0, 1])]
    images = federations.served(fedktl, fedktl.init_server(), uplinks).server["images"]
    assert images[..., 1:-1].min() > 0.4 and images[..., 1:-1].max() < 0.6


def test_a_client_answers_by_the_cosines() -> None:
    """The direction of (3, 4) with the rows (0, 1) and (.8, .6)."""
    frame = torch.tensor([[0.0, 1], [0.8, 0.6]], dtype=torch.float64)
    found = method(2).predict(Nets(Plain()), {"etf": frame}, batch((3, 4, 0)).x)
    assert found.tolist() == [pytest.approx([0.8, 0.96])]


def test_an_untrained_generator_has_at_least_the_samples_size_up_to_64() -> None:
    for side, size in [((8, 8), 8), ((3, 3), 4), ((28, 20), 32), ((20, 64), 64), ((224, 224), 64)]:
        design = method(shape=ImageShape(3, *side)).design()
        assert design == Design(noise=64, latent=64, layers=2, width=16, size=size, channels=3)


def test_a_file_gives_the_generator(tmp_path: Path) -> None:
    fedktl = method(generator_file=file(tmp_path))
    assert fedktl.design() == DESIGN
    state, weights = fedktl.init_server(), generators.read(tmp_path / "generator.safetensors")
    assert all(torch.equal(state[f"generator/{name}"], each) for name, each in weights.items())
    assert state["centroids/weight"].shape == (3, 2)
    assert fedktl.unmet_need() is None


def test_a_file_of_images_with_other_channels_is_refused(tmp_path: Path) -> None:
    fedktl = method(generator_file=file(tmp_path, channels=3))
    with pytest.raises(ConfigError, match=r"a generator of images with 1 channels: .*safetensors makes 3\."):
        fedktl.check()


def test_other_samples_and_a_single_class_are_refused() -> None:
    assert "needs images" in str(method(3, TableSpec(6)).unmet_need())
    assert "needs two classes" in str(method(1, federations.DIGIT).unmet_need())


def own_loss(z: Tensor, y: Tensor, etf: Tensor, margin: float, scale: float) -> Tensor:
    """ArcFace on the cosines of the outputs' directions with the classes' vectors."""
    cosines = z / z.norm(dim=1, keepdim=True) @ etf.T
    angles = torch.acos(cosines)
    at_own = torch.cos(angles + margin * torch.eye(len(etf), dtype=torch.float64)[y])
    return ce(scale * at_own, y)


def kernel(a: Tensor, b: Tensor) -> Tensor:
    squares = ((a[:, None] - b) ** 2).sum(2)
    return sum((-squares / (2 * width)).exp() for width in (10, 15, 20, 50)).mean()


def mapped(f: Tensors, p: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """F of prototypes, normalized with these statistics."""
    h = p @ f["layers.0.weight"].T + f["layers.0.bias"]
    h = (h - mean) / (variance + 1e-5).sqrt() * f["layers.1.weight"] + f["layers.1.bias"]
    return h.relu() @ f["layers.3.weight"].T + f["layers.3.bias"]


def test_two_whole_rounds_equal_the_reference() -> None:
    """Three clients of two classes each. In the first round there are no images yet. The server takes three passes over
    six prototypes, in batches of four and two.
    """
    mu, lam, margin, scale, lr, server_lr = 2.0, 0.5, 0.3, 4.0, 0.1, 0.02
    options = {"mu": mu, "lam": lam, "margin": margin, "scale": scale, "server_lr": server_lr}
    ran = reference.Rounds.of("fedktl", 2, lr, method=options | {"server_epochs": 3, "server_batch": 4})
    generator = Generator(ran.parts.method.design()).double()
    generator.load_state_dict(part(ran.server, "generator"))
    models, frame = ran.of_clients("model"), ran.begun[0]["etf"]
    first = part(ran.server, "transformer")
    learned = {key: each for key, each in first.items() if key.endswith(("weight", "bias"))}
    f, q = reference.leaves(learned), reference.leaves(part(ran.server, "centroids"))
    mean, variance = first["layers.1.running_mean"].clone(), first["layers.1.running_var"].clone()
    images = ran.server["images"]

    @torch.no_grad()
    def place() -> None:
        for label in labels.unique():
            q["weight"][label] = mapped(f, prototypes[labels == label], mean, variance).mean(0)

    for t in (1, 2):
        with reference.double_precision(), drawing_from(ran.parts.federation.stream("server/projection")):
            drawn = nn.Linear(8, q["weight"].shape[1])
        name, latents, sent = ("model", "guided")[t - 1], q["weight"].detach().clone(), []
        for client, (w, (every_x, every_y)) in enumerate(zip(models, ran.data, strict=True)):
            h = reference.leaves(of_module(drawn))
            draws = reference.stream(f"draws/{name}", t, client)
            for x, y in ran.batches(name, t, client):
                loss = own_loss(logits(w, x), y, frame, margin, scale)
                if t == 2:
                    pairs = torch.randperm(4, generator=draws)
                    shown = features(w, images[pairs]) @ h["weight"].T + h["bias"]
                    loss = loss + mu * ((shown - latents[pairs]) ** 2).mean()
                reference.descend(loss, lr, w, h)
            z = logits(w, every_x).detach()
            z = z / z.norm(dim=1, keepdim=True)
            for label in sorted(set(every_y.tolist())):
                direction = z[every_y == label].mean(0)
                sent.append((direction / direction.norm(), label))
        prototypes, labels = (torch.stack([p for p, _ in sent]), torch.tensor([label for _, label in sent]))
        place()
        adam, draws = reference.Adam(f | q, server_lr), reference.stream("draws/align", t)
        order = reference.stream("order", t)
        for rows in [rows for _ in range(3) for rows in torch.randperm(6, generator=order).split(4)]:
            p = prototypes[rows]
            h = p @ f["layers.0.weight"].T + f["layers.0.bias"]
            made = mapped(f, p, h.mean(0), h.var(0, unbiased=False))
            mean = 0.9 * mean + 0.1 * h.mean(0).detach()
            variance = 0.9 * variance + 0.1 * h.var(0).detach()
            noise = torch.randn(len(rows), generator.design.noise, generator=draws, dtype=torch.float64)
            usual = generator.latents(noise).detach()
            mmd = kernel(made, made) + kernel(usual, usual) - 2 * kernel(made, usual)
            adam.descend(mmd + lam * ((made - q["weight"][labels[rows]]) ** 2).mean())
        place()
        images = generator(q["weight"]).detach()
    found = part(ran.end.server, "transformer")
    assert found.pop("layers.1.num_batches_tracked") == 12
    reference.assert_equal(found, f | {"layers.1.running_mean": mean, "layers.1.running_var": variance})
    reference.assert_equal({"images": ran.end.server["images"]}, {"images": images})
    ran.assert_ended({"centroids": q}, {"model": models})
    before, after = (federations.bits(part(each, "generator")) for each in (ran.server, ran.end.server))
    assert after == before
