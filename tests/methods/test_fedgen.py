"""FedGen: the generator's loss, label shares and what travels by hand; three whole rounds against a reference."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.tensors import Tensors, part
from simulator.methods import Uplink
from simulator.methods.fedgen import FedGen, classes_from, diversity_loss
from simulator.models.federation import ClientInfo
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets
from simulator.training.trainer import CentralServer, TrainingContext
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, kl, logits, of_head


def method(
    classes: list[tuple[int, ...]] | None = None, samples: list[int] | None = None, **options: Any
) -> FedGen:
    """Clients of three classes, K = 8; two, unless said otherwise."""
    count = len(classes or samples or [0, 0])
    return sharing.of(
        "fedgen", federations.federation(["tiny_cnn"] * count, samples, classes, num_classes=3), **options
    )


def sent(client: ClientInfo, counts: list[int] | None, weight: float = 0.0) -> Uplink:
    head = {"head/weight": torch.full((3, 8), weight), "head/bias": torch.full((3,), weight)}
    told = {} if counts is None else {"counts": torch.tensor(counts, dtype=torch.int32)}
    return Uplink(client, head | told)


class One(nn.Module):
    """Makes (1, 0) of everything."""

    def forward(self, noise: Tensor, y: Tensor) -> Tensor:
        return torch.tensor([[1.0, 0.0]]).expand(len(y), 2)


TWO_HEADS = {
    "weight": torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]),
    "bias": torch.zeros(2, 2),
    "shares": torch.tensor([[0.75, 0.5], [0.25, 0.5]]),
    "samples": torch.tensor([0.75, 0.25]),
}
"""On (1, 0) the first says (1, 0) and the second (0, 1)."""


def test_the_clients_teach_by_their_losses_or_by_their_mean_logits() -> None:
    """y = 0. Plain mean of the logits (.5, .5): log 2. Losses: .75·log(1 + e⁻¹) + .25·log(1 + e). Weighted mean of
    the logits (.75, .25): log(1 + e^−.5)."""
    for teacher, loss in [("mean_logits", 0.6931472), ("losses", 0.5632617), ("logits", 0.4740770)]:
        batch = Batch(torch.tensor([0]), torch.tensor([0]))
        found = method(teacher=teacher, diversity=0.0).server_loss(
            Nets(generator=One()), TWO_HEADS, batch, {"noise": torch.zeros(1, 1)}
        )
        assert found.item() == pytest.approx(loss)


def test_features_that_differ_little_for_noise_that_differs_much_cost_more() -> None:
    """ε = 0 and 1, z = (0, 0) and (2, 4): of the four ordered pairs two have 1 · (2 + 4)/2 = 3, so exp(−6/4)."""
    noise, made = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0, 0.0], [2.0, 4.0]])
    assert diversity_loss(noise, made).item() == pytest.approx(math.exp(-1.5))
    assert diversity_loss(noise, torch.ones(2, 2)).item() == 1.0


def test_a_class_that_nobody_holds_is_never_drawn() -> None:
    """And the others as often as their shares say: 3,000 of 12,000, give or take four standard deviations (48)."""
    drawn = classes_from(torch.tensor([0.25, 0.0, 0.75]), 12_000, reference.stream("test", 1))
    counts = drawn.bincount(minlength=3).tolist()
    assert counts[1] == 0
    assert abs(counts[0] - 3000) < 4 * 48


def test_noise_is_drawn_from_its_stream_as_the_setting_says() -> None:
    """Four standard deviations of a mean of at least 12,000 draws are below 0.04."""
    for noise, mean, least in [("normal", 0.0, -math.inf), ("uniform", 0.5, 0.0)]:
        fedgen = method(noise=noise, noise_width=32)
        drawn, again = (fedgen.noise(400, reference.stream("test", 1)) for _ in range(2))
        assert torch.equal(drawn, again)
        assert drawn.mean().item() == pytest.approx(mean, abs=0.04)
        assert drawn.min().item() >= least


def test_classes_are_made_as_the_participants_hold_them() -> None:
    """Clients 0 and 2 take part: 2 and 1 of classes 0 and 1, 4 and 3 of 1 and 2. Client 1, with class 0, does not."""
    for labels, shares in [("counts", [2 / 10, 5 / 10, 3 / 10]), ("uniform", [1 / 3, 1 / 3, 1 / 3])]:
        fedgen = method([(0, 1), (0,), (1, 2)], labels=labels)
        first, absent, last = fedgen.federation.clients
        start = fedgen.init_server()
        before = fedgen.aggregate(1, start, [sent(absent, [90])]).server
        assert start["counts"].eq(0).all()  # a state that a round started from stays as it was
        server = fedgen.aggregate(2, before, [sent(first, [2, 1]), sent(last, [4, 3])]).server
        assert server["labels"].tolist() == pytest.approx(shares)
        assert server["counts"].tolist() == [[2, 1, 0], [90, 0, 0], [0, 4, 3]]


def test_heads_are_averaged_plainly_or_by_samples() -> None:
    """Heads of 4 and 8, n = 1 and 3: (4 + 8)/2 = 6, or (1·4 + 3·8)/4 = 7."""
    for weighting, mean in [("plain", 6.0), ("samples", 7.0)]:
        fedgen = method(samples=[1, 3], weighting=weighting)
        uplinks = [
            sent(client, [1, 1, 1], weight)
            for client, weight in zip(fedgen.federation.clients, (4.0, 8.0), strict=True)
        ]
        merged = fedgen.aggregate(1, fedgen.init_server(), uplinks).server
        assert merged["head/weight"].eq(mean).all() and merged["head/bias"].eq(mean).all()


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
    for beta, names in [(0.0, {"labels", "noise"}), (1.0, {"labels", "noise", "noise_own"})]:
        shares, images = (
            torch.tensor([0.5, 0.5, 0.0]),
            Batch(torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64)),
        )
        drawn = method(beta=beta).draws(shares, reference.stream("tests", 0), images)
        assert drawn.keys() == names


def test_a_client_with_the_only_image_of_a_class_teaches_it_alone() -> None:
    """Class 0: client 0 has 2 of 2; class 1: 1 of 4 and 3 of 4; class 2: client 1 has the one there is."""
    fedgen = method([(0, 1), (1, 2)])
    first, second = fedgen.federation.clients
    uplinks = [sent(first, [2, 1]), sent(second, [3, 1])]
    place = TrainingContext(fedgen.federation, None, FlopCache())
    server = fedgen.aggregate(1, fedgen.init_server(), uplinks).server
    at_work = CentralServer(place, 1, server, fedgen.server_networks())
    (phase,) = fedgen.server_phases(at_work, uplinks)
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


def normal(count: int, draws: torch.Generator) -> Tensor:
    return torch.randn(count, 3, generator=draws, dtype=torch.float64)


class Adam:
    """β = (.9, .999), ε = 1e-8, its moments kept as long as it is."""

    def __init__(self, weights: Tensors, lr: float) -> None:
        self.weights, self.lr, self.steps = weights, lr, 0
        self.m = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        self.v = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for name, weight in self.weights.items():
            assert weight.grad is not None
            self.m[name] = 0.9 * self.m[name] + 0.1 * weight.grad
            self.v[name] = 0.999 * self.v[name] + 0.001 * weight.grad**2
            m, v = self.m[name] / (1 - 0.9**self.steps), self.v[name] / (1 - 0.999**self.steps)
            weight -= self.lr * m / (v.sqrt() + 1e-8)
            weight.grad = None


def test_three_whole_rounds_equal_the_reference() -> None:
    """Three clients of two classes each; in the first round there is no generator yet."""
    lr, server_lr, alpha, beta, decay, eta = 0.1, 0.01, 2.0, 0.5, 0.5, 0.3
    options = {"alpha": alpha, "beta": beta, "decay": decay, "diversity": eta, "noise_width": 3, "hidden": 5}
    config = federations.config(
        "fedgen",
        method=options | {"server_steps": 4, "server_batch": 6, "server_lr": server_lr},
        federation={"clients": 3, "participation": 1.0, "group": "tiny_cnn"},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 3)
    models, head, initial = ran.of_clients("model"), part(ran.server, "head"), part(ran.server, "generator")
    counts = torch.stack([torch.bincount(y, minlength=4).double() for _, y in ran.data]).sum(0)
    p = counts / counts.sum()
    g = reference.leaves({name: each for name, each in initial.items() if name.endswith(("weight", "bias"))})
    mean, variance = initial["layers.1.running_mean"].clone(), initial["layers.1.running_var"].clone()
    adam = Adam(g, server_lr)
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
                    of_class = made(g, normal(len(y), draws), labels, mean, variance).detach()
                    of_own = made(g, normal(len(y), draws), y, mean, variance).detach()
                    loss = loss + alpha * decay ** (t - 1) * ce(of_head(w, of_class), labels)
                    loss = loss + beta * decay ** (t - 1) * kl(of_head(w, of_own), z)
                loss.backward()
                reference.step(list(w.values()), lr)

        draws = reference.stream("draws/generator", t)
        for y in drawn(p, 24, reference.stream("labels", t)).split(6):
            noise = normal(6, draws)
            h = hidden(g, noise, y)
            z = made(g, noise, y, h.mean(0), h.var(0, unbiased=False))
            mean = 0.9 * mean + 0.1 * h.mean(0).detach()
            variance = 0.9 * variance + 0.1 * h.var(0).detach()
            loss = ce(torch.stack([of_head(w, z) for w in models]).mean(0), y)
            pairs = [
                ((noise[i] - noise[j]) ** 2).mean() * (z[i] - z[j]).abs().mean()
                for i in range(6)
                for j in range(6)
            ]
            (loss + eta * torch.exp(-torch.stack(pairs).mean())).backward()
            adam.step()
            for w in models:
                reference.step(list(w.values()), 0.0)  # forgets its gradients
        head = {
            key: torch.stack([w[f"head.{key}"].detach() for w in models]).mean(0)
            for key in ("weight", "bias")
        }

    found = part(ran.end.server, "generator")
    assert found.pop("layers.1.num_batches_tracked") == 12
    reference.assert_equal(found, g | {"layers.1.running_mean": mean, "layers.1.running_var": variance})
    ran.assert_ended({"head": head}, {"model": models})
