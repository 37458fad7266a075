"""FedTGP: the margin, the server's step and the clients' distance by hand; two whole rounds against a reference."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.tensors import Tensors, part
from simulator.methods import Uplink
from simulator.methods.fedtgp import FedTGP
from simulator.models.federation import ClientInfo
from simulator.training.phase import Batch, Nets, WeightedBatch
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, features, of_head
from tests.networks import Plain, batch


def method(**options: Any) -> FedTGP:
    """Two clients of three classes, K = 8."""
    return sharing.of("fedtgp", federations.federation(["tiny_cnn", "tiny_mlp"], num_classes=3), **options)


def means(*points: tuple[float, float]) -> Tensor:
    """Vectors [8] of which the first two numbers are not zero."""
    wide = torch.zeros(len(points), 8)
    wide[:, :2] = torch.tensor(points)
    return wide


def sent(client: ClientInfo, labels: list[int], *points: tuple[float, float]) -> Uplink:
    return Uplink(client, {"means": means(*points), "labels": torch.tensor(labels, dtype=torch.int32)})


TRIANGLE = means((0.0, 0.0), (3.0, 0.0), (3.0, 4.0))
CLASSES = torch.tensor([0, 1, 2])


def test_the_margin_is_the_largest_distance_or_the_largest_of_the_nearest() -> None:
    """(0,0), (3,0), (3,4): distances 3, 4, 5; to the nearest 3, 3, 4."""
    for rule, delta in [("largest", 5.0), ("nearest", 4.0)]:
        assert method(margin=rule).margin(TRIANGLE, CLASSES).item() == delta


class _Fixed(torch.nn.Module):
    """Prototypes (0,0) and (3,0), as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.made = torch.nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))

    def forward(self) -> Tensor:
        return self.made


def test_a_stale_mean_counts_less_in_the_loss_and_in_the_margin() -> None:
    """Twice the sample above: with weights 1 and ½, the loss is (1 + ½)/2 of that of one, and so is its gradient."""
    fedtgp = FedTGP(federations.config("fedtgp").method, federations.federation(["tiny_cnn"], num_classes=2))
    nets, x, y = Nets(prototypes=_Fixed()), torch.tensor([[1.0, 0.0]] * 2), torch.tensor([0, 0])
    stale = WeightedBatch(x, y, torch.tensor([1.0, 0.5]))
    loss = fedtgp.server_loss(nets, {"margin": torch.tensor(2.0)}, stale, {})
    assert loss.item() == pytest.approx(0.75 * 1.3132617)
    # Class 0 as (0,0) with weight 1 and (4,0) with weight 1/3: its mean is (1,0), which is 2 from the (3,0) of class 1.
    means_of, labels = means((0, 0), (4, 0), (3, 0)), torch.tensor([0, 0, 1])
    assert method().margin(means_of, labels, torch.tensor([1.0, 1 / 3, 1.0])).item() == pytest.approx(2.0)


def test_the_server_trains_on_stale_means_by_their_weight() -> None:
    """A weight next to nothing leaves the prototypes where they were, also with the shuffled batches of the server."""
    fedtgp = method(server_epochs=2, server_batch=1)
    server = fedtgp.init_server()
    uplink = sent(fedtgp.federation.clients[0], [0, 1], (1.0, 2.0), (3.0, 4.0))
    full, none = (
        federations.served(fedtgp, server, [replace(uplink, weight=weight)]).server for weight in (1.0, 1e-12)
    )
    moved = {
        name: [float((after[name] - before).abs().max()) for after in (full, none)]
        for name, before in server.items()
        if name != "trained"
    }
    assert all(still < 1e-7 for _, still in moved.values())
    assert max(far for far, _ in moved.values()) > 1e-4


def test_a_mean_far_away_draws_like_any_other() -> None:
    """(1e30, 0), whose square no float32 holds, of class 0: both distances are 1e30 and p = ½, so that the directions
    from it give P_0 −½ and P_1 ½ in the first coordinate."""
    fedtgp = FedTGP(federations.config("fedtgp").method, federations.federation(["tiny_cnn"], num_classes=2))
    nets = Nets(prototypes=_Fixed())
    far = Batch(torch.tensor([[1e30, 0.0]]), torch.tensor([0]))
    loss = fedtgp.server_loss(nets, {"margin": torch.tensor(2.0)}, far, {})
    loss.backward()
    gradient = nets["prototypes"].get_parameter("made").grad
    assert loss.item() == pytest.approx(math.log(2))
    assert gradient is not None
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.0], [0.5, 0.0]]))


def test_a_client_draws_near_to_the_prototypes_once_there_are_any() -> None:
    """Features (1, 2) of class 0 and (3, 4) of class 1, prototypes (3, 2) and (2, 3): λ times the mean square, as in
    the released code."""
    for known, distance in [(0.0, 0.0), (1.0, 10 * (4 + 0 + 1 + 1) / 4)]:
        state = {
            "guide/mean": torch.tensor([[3.0, 2.0], [2.0, 3.0]]),
            "guide/known": torch.tensor([known]),
        }
        samples = batch((1.0, 2.0, 0), (3.0, 4.0, 1))
        ce = F.cross_entropy(samples.x.flatten(1), samples.y).item()
        loss = method(lam=10, distance="samples").loss(Nets(Plain()), state, samples, {})
        assert loss.item() == pytest.approx(ce + distance)


def test_until_somebody_has_sent_something_there_are_no_prototypes_to_send() -> None:
    """Not in round 2 either, when all uplinks of round 1 were lost; after a switch no round is the first by number."""
    fedtgp = method()
    first, _ = fedtgp.federation.clients
    assert fedtgp.downlink(2, fedtgp.init_server(), first) == {}
    server = fedtgp.aggregate(31, fedtgp.init_server(), [sent(first, [0, 1], (0, 0), (3, 0))]).server
    assert fedtgp.downlink(32, server, first)["prototypes"].shape == (3, 8)


def test_a_client_answers_with_the_nearest_prototype_of_all_classes() -> None:
    """Features (1.5, 1) are 1.8 from (0, 0) and 2.5 from (3, 3); the head, which is the identity, says class 0."""
    nets = Nets(Plain())
    state = {"guide/mean": torch.tensor([[3.0, 3.0], [0.0, 0.0]], dtype=torch.float64)}
    x = batch((1.5, 1.0, 0)).x
    for known, answer in ((1.0, 1), (0.0, 0)):
        scores = method().predict(nets, state | {"guide/known": torch.tensor([known])}, x)
        assert scores.argmax(1).tolist() == [answer]
    by_head = method(inference="head").predict(nets, state | {"guide/known": torch.ones(1)}, x)
    assert by_head.argmax(1).tolist() == [0]


def test_class_means_are_of_the_model_that_is_said() -> None:
    """Before training they are those of the state the client came with."""
    for collect in ["after", "before"]:
        parts = federations.built(federations.config("fedtgp", method={"collect": collect}))
        start = parts.engine.initial_state().clients[0]
        update = federations.updated(parts, 0, start, {})
        local = federations.local(parts, 0, start if collect == "before" else update.tensors)
        torch.testing.assert_close(update.uplink["means"], local.class_means()[0])
        other = federations.local(parts, 0, start if collect == "after" else update.tensors)
        assert not torch.allclose(update.uplink["means"], other.class_means()[0])


def made(p: Tensors) -> Tensor:
    """The prototypes of all classes."""
    h = p["embedding.weight"] @ p["layers.0.weight"].T + p["layers.0.bias"]
    return h.relu() @ p["layers.2.weight"].T + p["layers.2.bias"]


def test_two_whole_rounds_equal_the_reference() -> None:
    """Three clients, two epochs of batches of 16; the server takes 5 passes over six means, four at a time."""
    lam, lr, server_lr = 2.0, 0.05, 0.02
    config = federations.config(
        "fedtgp",
        method={"lam": lam, "server_epochs": 5, "server_batch": 4, "server_lr": server_lr},
        federation={"clients": 3, "participation": 1.0, "group": "tiny_cnn"},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, p = ran.of_clients("model"), reference.leaves(part(ran.server, "prototypes"))
    for t in (1, 2):
        guide, pairs = made(p).detach(), []
        for client, (w, (every_x, every_y)) in enumerate(zip(models, ran.data, strict=True)):
            for x, y in ran.batches("model", t, client):
                h = features(w, x)
                loss = ce(of_head(w, h), y)
                if t == 2:
                    apart = [h[y == c].mean(0) - guide[c] for c in y.unique()]
                    loss = loss + lam * torch.stack([(each**2).sum().sqrt() for each in apart]).mean()
                loss.backward()
                reference.step(list(w.values()), lr)
            h = features(w, every_x).detach()
            pairs += [(h[every_y == label].mean(0), label) for label in sorted(set(every_y.tolist()))]
        by_class = {label: [mean for mean, other in pairs if other == label] for _, label in pairs}
        q = [torch.stack(group).mean(0) for group in by_class.values()]
        delta = max(math.dist(one.tolist(), two.tolist()) for one in q for two in q)
        draws = reference.stream("order", t)
        for _ in range(5):
            for rows in torch.randperm(len(pairs), generator=draws).split(4):
                losses = []
                for mean, label in (pairs[row] for row in rows.tolist()):
                    d = ((mean - made(p)) ** 2).sum(1).sqrt()
                    d = d + delta * torch.eye(4, dtype=torch.float64)[label]
                    losses.append(d[label] + torch.logsumexp(-d, 0))
                torch.stack(losses).mean().backward()
                reference.step(list(p.values()), server_lr)
    ran.assert_ended({"prototypes": p}, {"model": models})
    assert ran.end.record is not None
    assert ran.end.record["method_metrics"]["margin"] == pytest.approx(delta, rel=1e-9)
