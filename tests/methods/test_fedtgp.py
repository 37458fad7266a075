"""FedTGP: the margin, the server's step and the clients' distance by hand; two whole rounds against a reference."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, part
from simulator.methods import Uplink
from simulator.methods.fedtgp import FedTGP
from simulator.models.federation import ClientInfo
from simulator.sessions import history
from simulator.training.phase import Batch, Nets, WeightedBatch
from tests import federations
from tests.methods import reference
from tests.networks import Plain, batch


def method(**options: Any) -> FedTGP:
    """Two clients of three classes, K = 8."""
    federation = federations.federation(["tiny_cnn", "tiny_mlp"], num_classes=3)
    return FedTGP(federations.config("fedtgp", method=options).method, federation)


def means(*points: tuple[float, float]) -> Tensor:
    """Vectors [8] of which the first two numbers are not zero."""
    wide = torch.zeros(len(points), 8)
    wide[:, :2] = torch.tensor(points)
    return wide


def sent(client: ClientInfo, labels: list[int], *points: tuple[float, float]) -> Uplink:
    return Uplink(client, {"means": means(*points), "labels": torch.tensor(labels, dtype=torch.int32)})


TRIANGLE = means((0.0, 0.0), (3.0, 0.0), (3.0, 4.0))
CLASSES = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(("rule", "delta"), [("largest", 5.0), ("nearest", 4.0)])
def test_the_margin_is_the_largest_distance_or_the_largest_of_the_nearest(rule: str, delta: float) -> None:
    """(0,0), (3,0), (3,4): distances 3, 4, 5; to the nearest 3, 3, 4."""
    assert method(margin=rule).margin(TRIANGLE, CLASSES).item() == delta


def test_the_margin_is_at_most_tau() -> None:
    assert method(tau=2.5).margin(TRIANGLE, CLASSES).item() == 2.5


def test_the_margin_is_of_means_averaged_by_class() -> None:
    """Class 0 was sent as (0,0) and (2,0), whose mean is 2 from the (3,0) of class 1, whatever the sample counts."""
    assert method().margin(means((0, 0), (2, 0), (3, 0)), torch.tensor([0, 0, 1])).item() == 2.0


@pytest.mark.parametrize("rule", ["largest", "nearest"])
def test_one_class_alone_has_no_margin(rule: str) -> None:
    assert method(margin=rule).margin(means((1, 2)), torch.tensor([1])).item() == 0.0


class _Fixed(torch.nn.Module):
    """Prototypes (0,0) and (3,0), as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.made = torch.nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))

    def forward(self) -> Tensor:
        return self.made


def test_the_servers_loss_and_its_gradient() -> None:
    """The mean (1,0) of class 0, prototypes (0,0) and (3,0), δ = 2: logits −(1 + 2) and −2, so the loss is
    log(1 + e) = 1.3132617, and softmax gives class 0 p = 1/(1 + e). Towards the prototypes: (1 − p)·∂d_0 = −0.7310586
    in the first coordinate, and −(1 − p)·∂d_1 = −0.7310586·(3 − 1)/2 as well."""
    fedtgp = FedTGP(federations.config("fedtgp").method, federations.federation(["tiny_cnn"], num_classes=2))
    nets = Nets(prototypes=_Fixed())
    sample = batch((1.0, 0.0, 0))
    received = type(sample)(sample.x.flatten(1).float(), sample.y)
    loss = fedtgp.server_loss(nets, {"margin": torch.tensor(2.0)}, received, {})
    loss.backward()
    gradient = nets["prototypes"].get_parameter("made").grad
    assert loss.item() == pytest.approx(1.3132617)
    assert gradient is not None
    torch.testing.assert_close(gradient, torch.tensor([[-0.7310586, 0.0], [-0.7310586, 0.0]]))


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


def test_a_mean_that_is_its_prototype_does_not_spoil_the_gradient() -> None:
    """The distance has no derivative there; 0 is taken."""
    fedtgp = FedTGP(federations.config("fedtgp").method, federations.federation(["tiny_cnn"], num_classes=2))
    nets = Nets(prototypes=_Fixed())
    sample = batch((0.0, 0.0, 0))
    received = type(sample)(sample.x.flatten(1).float(), sample.y)
    fedtgp.server_loss(nets, {"margin": torch.tensor(1.0)}, received, {}).backward()
    gradient = nets["prototypes"].get_parameter("made").grad
    assert gradient is not None and gradient.isfinite().all()


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


def test_the_margin_of_means_far_away_is_tau() -> None:
    assert method(margin="nearest").margin(means((1e30, 0), (0, 1e30)), CLASSES[:2]).item() == 100.0


@pytest.mark.parametrize(("known", "distance"), [(0.0, 0.0), (1.0, 10 * (4 + 0 + 1 + 1) / 4)])
def test_a_client_draws_near_to_the_prototypes_once_there_are_any(known: float, distance: float) -> None:
    """Features (1, 2) of class 0 and (3, 4) of class 1, prototypes (3, 2) and (2, 3): λ times the mean square, as in
    the released code."""
    state = {
        "guide/mean": torch.tensor([[3.0, 2.0], [2.0, 3.0]]),
        "guide/known": torch.tensor([known]),
    }
    samples = batch((1.0, 2.0, 0), (3.0, 4.0, 1))
    ce = F.cross_entropy(samples.x.flatten(1), samples.y).item()
    loss = method(lam=10, distance="samples").loss(Nets(Plain()), state, samples, {})
    assert loss.item() == pytest.approx(ce + distance)


@pytest.mark.parametrize(("known", "distance"), [(0.0, 0.0), (1.0, 0.1 * (5 + 0) / 2)])
def test_equation_11_is_the_mean_distance_of_class_means_to_their_prototypes(
    known: float, distance: float
) -> None:
    """Class 0 has features (1, 2) and (3, 2), mean (2, 2), 5 from its prototype (5, 6). Class 1 has (3, 4), its own
    prototype. Nobody has class 2."""
    state = {
        "guide/mean": torch.tensor([[5.0, 6.0], [3.0, 4.0], [9.0, 9.0]]),
        "guide/known": torch.tensor([known]),
    }
    samples = batch((1.0, 2.0, 0), (3.0, 2.0, 0), (3.0, 4.0, 1))
    ce = F.cross_entropy(samples.x.flatten(1), samples.y).item()
    loss = method().loss(Nets(Plain()), state, samples, {})
    assert loss.item() == pytest.approx(ce + distance)


def test_the_defaults_are_the_papers() -> None:
    """§Experiments, Implementation Details: λ = 0.1, τ = 100, S = 100; equations 9 and 11; Algorithm 1."""
    assert method().config.model_dump(exclude={"name", "server_lr", "server_batch"}) == {
        "lam": 0.1,
        "distance": "means",
        "tau": 100.0,
        "server_epochs": 100,
        "margin": "largest",
        "collect": "after",
        "inference": "nearest",
    }


def test_a_session_recorded_before_keeps_its_lambda_and_its_distance() -> None:
    recorded = {"name": "fedtgp", "lam": 10.0}
    assert history.completed({"method": recorded})["method"] == recorded | {"distance": "samples"}


def test_in_the_first_round_nothing_travels_down() -> None:
    fedtgp = method()
    assert fedtgp.downlink(1, fedtgp.init_server(), fedtgp.federation.clients[0]) == {}


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


def test_prototypes_that_lie_close_and_far_from_zero_are_told_apart() -> None:
    """From 10⁸ + 0.04 it is 0.04 to class 0 at 10⁸ and 0.06 to class 1 at 10⁸ + 0.1. A distance by squares of 10¹⁶,
    as torch takes it for more than 25 rows, knows them to about 2."""
    x = batch(*[(1e8 + 0.04, 0, 0)] * 30).x
    close = {
        "guide/mean": torch.tensor([[1e8, 0.0], [1e8 + 0.1, 0.0]], dtype=torch.float64),
        "guide/known": torch.ones(1),
    }
    scores = method().predict(Nets(Plain()), close, x)
    torch.testing.assert_close(scores, -torch.tensor([[0.04, 0.06]] * 30).double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("training", [{"optimizer": "adam"}, {"momentum": 0.9}, {"weight_decay": 0.5}])
def test_the_server_takes_plain_steps_whatever_the_clients_optimizer(training: dict[str, Any]) -> None:
    config = federations.config("fedtgp", method={"server_epochs": 3, "server_lr": 0.1})
    ends = []
    for section in (TrainingConfig(), TrainingConfig(**training)):
        federation = federations.federation(["tiny_cnn"], num_classes=3, training=section)
        fedtgp = FedTGP(config.method, federation)
        uplinks = [sent(federation.clients[0], [0, 1], (1, 0), (3, 4))]
        with drawing_from(reference.stream("tests", 0)):
            start = fedtgp.init_server()
        ends.append(federations.served(fedtgp, start, uplinks))
    assert federations.bits(ends[0].server) == federations.bits(ends[1].server)
    assert ends[0].metrics.keys() == {"margin", "server_loss"}


@pytest.mark.parametrize("collect", ["after", "before"])
def test_class_means_are_of_the_model_that_is_said(collect: str) -> None:
    """Before training they are those of the state the client came with."""
    parts = federations.built(federations.config("fedtgp", method={"collect": collect}))
    start = parts.engine.initial_state().clients[0]
    update = federations.updated(parts, 0, start, {})
    local = federations.local(parts, 0, start if collect == "before" else update.tensors)
    torch.testing.assert_close(update.uplink["means"], local.class_means()[0])
    other = federations.local(parts, 0, start if collect == "after" else update.tensors)
    assert not torch.allclose(update.uplink["means"], other.class_means()[0])


def test_models_of_different_feature_widths_are_refused() -> None:
    federation = federations.federation(["tiny_cnn", "tiny_cnn_w2"])
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn_w2\) has 'fc2' of width 4"):
        FedTGP(federations.config("fedtgp").method, federation).check()


def test_what_travels() -> None:
    """Up 8 numbers and a label for each of two classes; down, from round 2 on, 8 numbers for each of four."""
    config = federations.config("fedtgp", federation={"participation": 1.0}, method={"server_epochs": 1})
    engine = federations.built(config).engine
    for rounds, down in ((1, 0), (2, 4 * 8 * 4)):
        record = federations.run(engine, rounds).record
        assert record is not None
        assert record["bytes"]["per_client_down"] == [down] * 4
        assert record["bytes"]["per_client_up"] == [2 * (8 + 1) * 4] * 4


def cnn(w: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
    """TinyCNN: features and logits."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"]).relu()
    h = F.max_pool2d(h, 3).flatten(1)
    for layer in ("fc1", "fc2"):
        h = (h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]).relu()
    return h, h @ w["head.weight"].T + w["head.bias"]


def made(p: Tensors) -> Tensor:
    """The prototypes of all classes."""
    h = p["embedding.weight"] @ p["layers.0.weight"].T + p["layers.0.bias"]
    return h.relu() @ p["layers.2.weight"].T + p["layers.2.bias"]


@pytest.mark.parametrize(("rule", "distance"), [("largest", "means"), ("nearest", "samples")])
def test_two_whole_rounds_equal_the_reference(rule: str, distance: str) -> None:
    """Three clients, two epochs of batches of 16; the server takes 5 passes over six means, four at a time."""
    lam, lr, server_lr = 2.0, 0.05, 0.02
    options = {"lam": lam, "margin": rule, "distance": distance}
    config = federations.config(
        "fedtgp",
        method=options | {"server_epochs": 5, "server_batch": 4, "server_lr": server_lr},
        federation={"clients": 3, "participation": 1.0, "group": "tiny_cnn"},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    p = reference.leaves(part(start.server, "prototypes"))
    data = [reference.samples(parts, client) for client in range(3)]
    for t in (1, 2):
        guide = made(p).detach()
        pairs = []
        for client, (w, (x, y)) in enumerate(zip(models, data, strict=True)):
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                features, logits = cnn(w, x[rows])
                loss = (torch.logsumexp(logits, 1) - logits[range(len(rows)), y[rows]]).mean()
                if t == 2 and distance == "samples":
                    loss = loss + lam * ((features - guide[y[rows]]) ** 2).sum() / features.numel()
                elif t == 2:
                    apart = [features[y[rows] == c].mean(0) - guide[c] for c in y[rows].unique()]
                    loss = loss + lam * torch.stack([(each**2).sum().sqrt() for each in apart]).mean()
                loss.backward()
                reference.step(list(w.values()), lr)
            features = cnn(w, x)[0].detach()
            pairs += [(features[y == label].mean(0), label) for label in sorted(set(y.tolist()))]

        by_class = {label: [mean for mean, other in pairs if other == label] for _, label in pairs}
        q = [torch.stack(group).mean(0) for group in by_class.values()]
        apart = [[math.dist(one.tolist(), two.tolist()) for two in q if two is not one] for one in q]
        delta = max(max(row) if rule == "largest" else min(row) for row in apart)
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

    reference.assert_equal(part(end.server, "prototypes"), p)
    for tensors, w in zip(end.clients, models, strict=True):
        reference.assert_equal(part(tensors, "model"), w)
    assert end.record is not None
    assert end.record["method_metrics"]["margin"] == pytest.approx(delta, rel=1e-9)
