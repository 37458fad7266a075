"""FedProto, FedTGP, FD, and what public samples teach, by hand; two whole rounds of FedTGP against a reference."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, floating, of_module, part
from simulator.engine.builder import Built
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.fd import FD
from simulator.methods.fedavg import FedAvg
from simulator.methods.feddf import FedDF
from simulator.methods.fedmd import FedMD
from simulator.methods.fedproto import FedProto
from simulator.methods.fedtgp import FedTGP
from simulator.methods.hooks import Hooks
from simulator.runners.local import server_update
from simulator.training.client import LocalClient
from simulator.training.loop import steps
from simulator.training.phase import Batch, Nets, WeightedBatch
from simulator.training.trainer import CentralServer
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, features, logits, of_head
from tests.networks import Plain, batch

# FedProto


def fedproto_with(**options: Any) -> FedProto:
    """Three clients of three classes, K = 8: client 0 holds 0 and 1, client 1 holds 1 and 2, client 2 holds 1."""
    models, held = ["tiny_cnn", "tiny_mlp", "tiny_cnn"], [(0, 1), (1, 2), (1,)]
    federation = federations.federation(models, [4, 4, 4], held, num_classes=3)
    found: FedProto = sharing.of("fedproto", federation, **options)
    return found


def prototypes(method: FedProto, client: int, values: list[float], counts: list[int] | None = None) -> Uplink:
    """Those in which every number is the same."""
    told = {} if counts is None else {"counts": counts}
    labels, rows = method.federation.clients[client].classes, [[value] * 8 for value in values]
    return sharing.sent(method, client, prototypes=rows, labels=labels, **told)


def known(server: Tensors) -> list[float | None]:
    """Every class's prototype by its one number; None where there is none."""
    mean, there = server["prototypes/mean"], server["prototypes/known"].tolist()
    assert (mean == mean[:, :1]).all()
    return [value if is_there else None for value, is_there in zip(mean[:, 0].tolist(), there, strict=True)]


def test_a_class_nobody_sent_keeps_its_prototype_and_only_known_ones_of_the_clients_classes_travel() -> None:
    """Client 1 gets class 1, which is known. Class 2 is not, and class 0 is not its own."""
    fedproto = fedproto_with()
    start = fedproto.init_server()
    first, metrics = fedproto.aggregate(1, start, [prototypes(fedproto, 0, [5.0, 2.0], [1, 1])])
    assert known(first) == [5.0, 2.0, None]
    assert metrics["classes_known"] == 2
    second = fedproto.aggregate(2, first, [prototypes(fedproto, 2, [6.0], [4])]).server
    assert known(second) == [5.0, 6.0, None]
    assert known(start) == [None, None, None]
    receiver = fedproto.federation.clients[1]
    payload = fedproto.downlink(2, first, receiver)
    assert payload["labels"].tolist() == [1]
    assert payload["labels"].dtype == torch.int32
    assert payload["prototypes"].tolist() == [[2.0] * 8]
    assert fedproto.downlink(1, start, receiver)["prototypes"].shape == (0, 8)


def test_clients_answer_with_the_prototypes_of_this_round() -> None:
    """What was evaluated after round 1 is what would be received in round 2, so there are prototypes already."""
    parts = federations.built(federations.config("fedproto"))
    local = federations.settings(parts, evaluation={"model": "local"})
    first, stale = (each.engine.round(each.engine.initial_state(), unobserved) for each in (parts, local))
    assert federations.state_bits(stale) == federations.state_bits(first)
    accuracies = [state.record["accuracy"]["per_client"] for state in (first, stale) if state.record]
    assert accuracies[0] != accuracies[1]


def test_a_class_without_a_prototype_adds_nothing_to_the_mean() -> None:
    """Features (1, 2) of class 0 are 1² + 2² = 5 from its (0, 0), and class 1 has none: MSE 5/4 over four numbers."""
    state = {
        "prototypes/mean": torch.zeros(2, 2).double(),
        "prototypes/known": torch.tensor([1.0, 0.0]).double(),
    }
    samples, plain = batch((1, 2, 0), (1, 1, 1)), Plain()
    own = ce(plain(samples.x), samples.y).item()
    loss = fedproto_with(lam=2.0).loss(Nets(plain), state, samples, {}).loss
    assert loss.item() == pytest.approx(own + 2 * 5 / 4, rel=1e-14)


def test_prototypes_that_lie_close_and_far_from_zero_are_told_apart() -> None:
    """From 10⁸ + 0.04 it is 0.04 to class 0 at 10⁸ and 0.06 to class 1 at 10⁸ + 0.1. A distance by squares of 10¹⁶,
    as torch takes it for more than 25 rows, knows them to about 2.
    """
    x = batch(*[(1e8 + 0.04, 0, 0)] * 30).x
    mean = torch.tensor([[1e8, 0.0], [1e8 + 0.1, 0.0]], dtype=torch.float64)
    state = {"prototypes/mean": mean, "prototypes/known": torch.ones(2)}
    scores = fedproto_with().predict(Nets(Plain()), state, x)
    torch.testing.assert_close(scores, -torch.tensor([[0.04, 0.06]] * 30).double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("collect", "weighting"), [("last_epoch", "counts"), ("all_epochs", "plain"), ("after", "counts")]
)
def test_two_whole_rounds_of_fedproto_equal_the_reference(collect: str, weighting: str) -> None:
    """Three clients of two classes each, for two epochs. In the first round there are no prototypes yet."""
    lam, lr = 2.0, 0.05
    options = {"lam": lam, "collect": collect, "weighting": weighting}
    ran = reference.Rounds.of("fedproto", 2, lr, method=options)
    models, mean = ran.of_clients("model"), torch.zeros(4, 8).double()
    for t in (1, 2):
        sums, weights = torch.zeros(4, 8).double(), torch.zeros(4, 1).double()
        for client, (w, (x_k, y_k)) in enumerate(zip(models, ran.data, strict=True)):
            shown = []
            for x, y in ran.batches("model", t, client):
                h = features(w, x)
                shown.append((h.detach(), y))
                loss = ce(of_head(w, h), y)
                reference.descend(loss + lam * ((h - mean[y]) ** 2).mean() if t == 2 else loss, lr, w)
            if collect == "after":
                shown = [(features(w, x_k).detach(), y_k)]
            elif collect == "last_epoch":
                shown = shown[len(shown) // 2 :]
            h, labels = (torch.cat(each) for each in zip(*shown, strict=True))
            for label in y_k.unique():
                n = (y_k == label).sum() if weighting == "counts" else 1
                sums[label] += n * h[labels == label].mean(0)
                weights[label] += n
        mean = sums / weights
    known = torch.ones(4, dtype=torch.float64)
    ran.assert_ended({"prototypes": {"mean": mean, "known": known}}, {"model": models})


# FedTGP


def fedtgp_with(classes: int = 3, **options: Any) -> FedTGP:
    """Two clients of three classes, K = 8."""
    federation = federations.federation(["tiny_cnn", "tiny_mlp"], num_classes=classes)
    found: FedTGP = sharing.of("fedtgp", federation, **options)
    return found


def test_in_the_margin_a_stale_mean_counts_less() -> None:
    """Class 0 as (0,0) with weight 1 and (4,0) with weight 1/3: its mean is (1,0), which is 2 from class 1's (3,0)."""
    stale, labels = sharing.wide((0.0, 0.0), (4.0, 0.0), (3.0, 0.0)), torch.tensor([0, 0, 1])
    found = fedtgp_with().margin(stale, labels, torch.tensor([1.0, 1 / 3, 1.0]))
    assert found.item() == pytest.approx(2.0)


class Fixed(nn.Module):
    """Prototypes (0,0) and (3,0), as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.made = nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))

    def forward(self) -> Tensor:
        return self.made


def test_a_stale_mean_counts_less_and_one_far_away_draws_like_any_other() -> None:
    """(1,0) of class 0 with δ = 2 is 1 and 2 away: log(1 + e), and 1.3132617 with weights 1 and ½ counts (1 + ½)/2. Of
    (1e30, 0), whose square no float32 holds, both distances are 1e30 and p = ½, so that the directions from it give P_0
    −½ and P_1 ½ in the first coordinate.
    """
    method, margin = fedtgp_with(2), {"margin": torch.tensor(2.0)}
    x, y = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([0, 0])
    stale = WeightedBatch(x, y, torch.tensor([1.0, 0.5]))
    loss = method.server_loss(Nets(prototypes=Fixed()), margin, stale, {})
    assert loss.item() == pytest.approx(0.75 * 1.3132617)
    nets, far = Nets(prototypes=Fixed()), Batch(torch.tensor([[1e30, 0.0]]), torch.tensor([0]))
    loss = method.server_loss(nets, margin, far, {})
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    gradient = nets["prototypes"].get_parameter("made").grad
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.0], [0.5, 0.0]]))


def test_the_server_trains_on_stale_means_by_their_weight() -> None:
    """A weight next to nothing leaves the prototypes where they were, also with the shuffled batches of the server."""
    fedtgp = fedtgp_with(server_epochs=2, server_batch=1)
    server, means = fedtgp.init_server(), sharing.wide((1.0, 2.0), (3.0, 4.0))
    moved = []
    for weight in (1.0, 1e-12):
        sent = sharing.sent(fedtgp, 0, weight, means=means, labels=[0, 1])
        after = federations.served(fedtgp, server, [sent]).server
        moved.append(max(float((after[k] - w).abs().max()) for k, w in server.items() if k != "trained"))
    assert moved[0] > 1e-4 and moved[1] < 1e-7


def test_until_somebody_has_sent_something_there_are_no_prototypes_to_send() -> None:
    """Not in round 2 either, when all uplinks of round 1 were lost; after a switch no round is the first by number."""
    fedtgp = fedtgp_with()
    first, _ = fedtgp.federation.clients
    assert fedtgp.downlink(2, fedtgp.init_server(), first) == {}
    sent = sharing.sent(fedtgp, 0, means=sharing.wide((0.0, 0.0), (3.0, 0.0)), labels=[0, 1])
    server = fedtgp.aggregate(31, fedtgp.init_server(), [sent]).server
    assert fedtgp.downlink(32, server, first)["prototypes"].shape == (3, 8)


def test_a_client_answers_with_the_nearest_prototype_of_all_classes() -> None:
    """Features (1.5, 1) are 1.8 from (0, 0) and 2.5 from (3, 3); the head, which is the identity, says class 0."""
    mean, x = torch.tensor([[3.0, 3.0], [0.0, 0.0]], dtype=torch.float64), batch((1.5, 1.0, 0)).x
    for inference, there, answer in (("nearest", 1.0, 1), ("nearest", 0.0, 0), ("head", 1.0, 0)):
        state = {"guide/mean": mean, "guide/known": torch.tensor([there])}
        scores = fedtgp_with(inference=inference).predict(Nets(Plain()), state, x)
        assert scores.argmax(1).tolist() == [answer]


def made(p: Tensors) -> Tensor:
    """The prototypes of all classes."""
    h = p["embedding.weight"] @ p["layers.0.weight"].T + p["layers.0.bias"]
    return h.relu() @ p["layers.2.weight"].T + p["layers.2.bias"]


RELEASED = {"distance": "samples", "collect": "before", "margin": "nearest"}
"""What the authors' code computes otherwise, and the other margin."""


@pytest.mark.parametrize("others", [{}, RELEASED], ids=["paper", "released"])
def test_two_whole_rounds_equal_the_reference(others: dict[str, Any]) -> None:
    """Three clients, two epochs of batches of 16; the server takes 5 passes over six means, four at a time."""
    lam, lr, server_lr = 2.0, 0.05, 0.02
    options = {"lam": lam, "server_epochs": 5, "server_batch": 4, "server_lr": server_lr}
    ran = reference.Rounds.of("fedtgp", 2, lr, method=options | others)
    models, p = ran.of_clients("model"), reference.leaves(part(ran.server, "prototypes"))
    for t in (1, 2):
        guide, pairs = made(p).detach(), []
        for client, (w, (every_x, every_y)) in enumerate(zip(models, ran.data, strict=True)):
            before = features(w, every_x).detach()
            for x, y in ran.batches("model", t, client):
                h = features(w, x)
                loss = ce(of_head(w, h), y)
                if t == 2 and others:
                    loss = loss + lam * ((h - guide[y]) ** 2).mean()
                elif t == 2:
                    apart = [h[y == c].mean(0) - guide[c] for c in y.unique()]
                    loss = loss + lam * torch.stack([(each**2).sum().sqrt() for each in apart]).mean()
                reference.descend(loss, lr, w)
            h = before if others else features(w, every_x).detach()
            pairs += [(h[every_y == label].mean(0), label) for label in sorted(set(every_y.tolist()))]
        by_class = {label: [mean for mean, other in pairs if other == label] for _, label in pairs}
        q = [torch.stack(group).mean(0).tolist() for group in by_class.values()]
        apart_from = [[math.dist(one, two) for two in q if two is not one] for one in q]
        delta = max(min(each) if others else max(each) for each in apart_from)
        draws = reference.stream("order", t)
        for _ in range(5):
            for rows in torch.randperm(len(pairs), generator=draws).split(4):
                losses = []
                for mean, label in (pairs[row] for row in rows.tolist()):
                    d = ((mean - made(p)) ** 2).sum(1).sqrt()
                    d = d + delta * torch.eye(4, dtype=torch.float64)[label]
                    losses.append(d[label] + torch.logsumexp(-d, 0))
                reference.descend(torch.stack(losses).mean(), server_lr, p)
    ran.assert_ended({"prototypes": p}, {"model": models})
    assert ran.end.record is not None
    assert ran.end.record["method_metrics"]["margin"] == pytest.approx(delta, rel=1e-9)


# FD


def fd_with(**options: Any) -> FD:
    """Four clients of three classes; class 0 is held by clients 0 and 3, class 1 by 0, 1 and 2, class 2 by 1."""
    held = [(0, 1), (1, 2), (1,), (0,)]
    federation = federations.federation(["tiny_cnn"] * 4, [1, 2, 3, 4], held, num_classes=3)
    found: FD = sharing.of("fd", federation, **options)
    return found


def outputs(method: FD, client: int, *values: float, weight: float = 1.0) -> Uplink:
    """Mean logits in which every number is the same."""
    rows, labels = [[value] * 3 for value in values], method.federation.clients[client].classes
    return sharing.sent(method, client, weight, logits=rows, labels=labels)


def guides(method: FD, server: Tensors) -> list[dict[int, float]]:
    """What each client receives: each guide by its one number."""
    found = []
    for client in method.federation.clients:
        payload = method.downlink(2, server, client)
        labels, logits = payload["labels"], payload["logits"]
        assert labels.dtype == torch.int32
        assert (logits == logits[:, :1]).all()
        found.append(dict(zip(labels.tolist(), logits[:, 0].tolist(), strict=True)))
    return found


EVERYBODY = ((1.0, 2.0), (4.0, 8.0), (6.0,), (5.0,))
"""What the four send first, of each of their classes."""


def test_a_client_is_guided_by_the_mean_over_the_others_or_over_all() -> None:
    """Class 1 was sent by 0, 1 and 2 as 2, 4 and 6: client 0 gets (4 + 6)/2, client 1 (2 + 6)/2, client 2
    (2 + 4)/2. Class 0: client 0 gets 5 from client 3, and that 1 from client 0. Class 2 has nobody but client 1. Over
    all, class 0 is (1 + 5)/2 = 3, class 1 (2 + 4 + 6)/3 = 4, and class 2 is 8. Then only clients 1 and 2 come, with 10
    and 20 for class 1: client 0's old 2 no longer counts.
    """
    fd, every = fd_with(), fd_with(include_self=True)
    sent = [outputs(fd, k, *values) for k, values in enumerate(EVERYBODY)]
    server = fd.aggregate(1, fd.init_server(), sent).server
    assert guides(fd, server) == [{0: 5.0, 1: 5.0}, {1: 4.0}, {1: 3.0}, {0: 1.0}]
    assert guides(every, server) == [{0: 3.0, 1: 4.0}, {1: 4.0, 2: 8.0}, {1: 4.0}, {0: 3.0}]
    later = fd.aggregate(2, server, [outputs(fd, 1, 10.0, 0.0), outputs(fd, 2, 20.0)]).server
    assert guides(fd, later) == [{0: 5.0, 1: 15.0}, {1: 20.0}, {1: 10.0}, {0: 1.0}]
    assert later["sent/counts"].tolist() == [1, 0, 1, 1, 1, 1]  # client 0's classes 0 and 1, 1's 1 and 2, …


def test_a_stale_uplink_moves_the_clients_own_rows_and_no_others() -> None:
    """Client 1 sends 10 and 20 with half the weight: its 4 becomes 4 + 6/2 = 7, and its 8 becomes 8 + 12/2 = 14. If it
    never sent before, they are taken whole.
    """
    fd = fd_with(include_self=True)
    stale = outputs(fd, 1, 10.0, 20.0, weight=0.5)
    sent = [outputs(fd, k, *values) for k, values in enumerate(EVERYBODY)]
    server = fd.aggregate(2, fd.aggregate(1, fd.init_server(), sent).server, [stale]).server
    assert guides(fd, server)[:2] == [{0: 3.0, 1: 7.0}, {1: 7.0, 2: 14.0}]
    assert guides(fd, fd.aggregate(1, fd.init_server(), [stale]).server)[1] == {1: 10.0, 2: 20.0}


@pytest.mark.parametrize(
    ("distance", "collect", "include_self"),
    [("cross_entropy", "all_epochs", False), ("mse", "after", False), ("mse", "all_epochs", True)],
)
def test_two_whole_rounds_of_fd_equal_the_reference(distance: str, collect: str, include_self: bool) -> None:
    """Three clients of two classes each. In the first round there are no guides yet."""
    gamma, lr = 2.0, 0.05
    options = {"gamma": gamma, "distance": distance, "collect": collect, "include_self": include_self}
    ran = reference.Rounds.of("fd", 2, lr, method=options)
    models, sent = ran.of_clients("model"), dict[tuple[int, int], Tensor]()

    def output(z: Tensor) -> Tensor:
        return z.detach() if distance == "mse" else z.detach().softmax(1)

    for t in (1, 2):
        received, sent = sent, {}
        for client, (w, (x_k, y_k)) in enumerate(zip(models, ran.data, strict=True)):
            guide, known, shown = torch.zeros(4, 4).double(), torch.zeros(4, 1).double(), []
            for label in range(4):
                others = [k for k, c in received if c == label and (include_self or k != client)]
                if others:
                    guide[label], known[label] = sum(received[k, label] for k in others) / len(others), 1
            for x, y in ran.batches("model", t, client):
                z = logits(w, x)
                shown.append((output(z), y))
                if distance == "mse":
                    apart = (known[y] * (z - guide[y]) ** 2).mean()
                else:
                    apart = -(guide[y] * z.log_softmax(1)).sum(1).mean()
                reference.descend(ce(z, y) + gamma * apart, lr, w)
            shown = [(output(logits(w, x_k)), y_k)] if collect == "after" else shown
            z, labels = (torch.cat(each) for each in zip(*shown, strict=True))
            sent |= {(client, label): z[labels == label].mean(0) for label in y_k.unique().tolist()}
    assert len({label for _, label in sent}) < len(sent) == 6
    rows, counts = torch.stack([*sent.values()]), torch.ones(6, dtype=torch.float64)
    ran.assert_ended({"sent": {"logits": rows, "counts": counts}}, {"model": models})


# FedDF and FedMD: what is learned from public samples, by hand


PUBLIC = 32
"""A fifth of the 160 generated images."""


# FedDF: averages within a group, then steps towards the mean logits of all received models


def feddf(**options: Any) -> tuple[Built, FedDF, list[Uplink]]:
    """A federation, and uplinks of its first three clients: models of their architectures with drawn weights."""
    group = {"group": federations.TINY}
    parts = federations.built(federations.config("feddf", method=options, federation=group))
    assert isinstance(parts.method, FedDF)
    uplinks = []
    for info in parts.federation.clients[:3]:
        network = parts.federation.build(info.architecture, torch.Generator().manual_seed(info.id + 1))
        model = {f"model/{name}": each for name, each in floating(of_module(network)).items()}
        uplinks.append(Uplink(info, model))
    return parts, parts.method, uplinks


def after(parts: Built, uplinks: list[Uplink]) -> tuple[Tensors, dict[str, Any]]:
    """The server's state and metrics after round 1."""
    state, hooks = parts.engine.initial_state().server, Hooks(parts.method, parts.federation)
    return server_update(hooks, federations.context(parts), 1, state, uplinks)[0]


def at_work(parts: Built, round: int = 1) -> CentralServer:
    networks = Hooks(parts.method, parts.federation).server_networks()
    return CentralServer(federations.context(parts), round, parts.engine.initial_state().server, networks)


def test_the_teacher_is_the_plain_mean_of_the_logits_of_all_models_of_any_architecture() -> None:
    """Clients 0 and 1 have different architectures and numbers of samples."""
    parts, method, uplinks = feddf()
    samples, logits = torch.tensor([3, 5, 8]), []
    for uplink in uplinks[:2]:
        local = federations.local(parts, uplink.client.id, uplink.payload)
        logits.append(local.nets.eval().model(local.public.batch(samples)).detach())
    teacher = method.ensemble(at_work(parts), uplinks[:2], samples)
    torch.testing.assert_close(teacher, sum(logits) / 2)


def test_the_loss_is_the_divergence_from_the_teachers_softmax_of_each_sample() -> None:
    """Teacher (log 3, 0) has probabilities ¾ and ¼, and the student's (0, 0) has ½ and ½."""
    teacher = {"teacher": torch.tensor([[9.0, 9.0], [math.log(3), 0.0]])}
    found = feddf()[1].loss("model", Nets(Plain()), teacher, batch((0, 0, 1)), {})
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_a_group_starts_at_its_average_and_one_without_a_participant_stays() -> None:
    """Steps of 10⁻³⁰ change no weight. The student's running statistics are those of public samples. Adam's first step
    is η in the direction of the gradient's sign, and the cosine begins at 1.
    """
    parts, method, uplinks = feddf(server_lr=1e-30, server_steps=1)
    first = parts.engine.initial_state().server
    averaged = FedAvg.aggregate(method, 1, first, uplinks).server
    server, _ = after(parts, uplinks)
    for name, network in parts.federation.architectures.items():
        for key, _ in network.named_parameters():
            torch.testing.assert_close(server[f"{name}/{key}"], averaged[f"{name}/{key}"])
    parts, _, uplinks = feddf(server_lr=0.01, server_steps=1)
    moved = after(parts, uplinks[:2])[0]["tiny_cnn/head.bias"] - uplinks[0].payload["model/head.bias"]
    torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.01), rtol=1e-3, atol=0)
    server, metrics = after(parts, uplinks[:1])
    assert federations.bits(part(server, "tiny_mlp")) == federations.bits(part(first, "tiny_mlp"))
    assert metrics.keys() == {"distill/tiny_cnn_loss"}


def test_a_round_uses_as_many_samples_as_its_steps_can_show() -> None:
    for number, size, used in [(2, 5, 10), (3, 16, PUBLIC), (1, 100, PUBLIC)]:
        parts, method, uplinks = feddf(server_steps=number, server_batch=size)
        server = at_work(parts, 2)
        phases = method.server_phases(server, uplinks)
        assert [phase.trains for phase in phases] == [("tiny_cnn",), ("tiny_mlp",)]
        assert all(phase.anneals for phase in phases)
        samples = server.public.of_round(2, number * size)
        for phase in phases:
            assert len(phase.batches or ()) == number
            assert phase.state["teacher"].shape == (used, 4)
            first = (phase.batches or ())[0]
            assert len(first.y) == min(size, used)
            assert torch.equal(first.x, server.public.batch(samples[first.y]))


def test_public_samples_and_names_without_a_dot_are_needed() -> None:
    dotted = ["tiny_cnn", "timm:resnet18.a1_in1k"]
    with pytest.raises(ConfigError, match=r"needs public samples \(the server distills"):
        sharing.of("feddf", federations.federation(["tiny_cnn"], public=0)).check()
    assert sharing.method("feddf", ["tiny_cnn"]).unmet_need() is None
    need = sharing.method("feddf", dotted).unmet_need()
    assert need is not None and "without a dot" in need and "client 1 (timm:resnet18.a1_in1k)" in need


# FedMD: transfer learning first, then the mean scores of all on public samples


def fedmd_with(**options: Any) -> FedMD:
    """Two clients with 1 and 3 samples of two classes, and ten public samples."""
    found: FedMD = sharing.method("fedmd", ["tiny_cnn", "tiny_mlp"], [1, 3], **options)
    return found


def working(round: int, consensus: Tensor | None = None, **options: Any) -> tuple[FedMD, LocalClient]:
    """A client of a real federation in that round, which has received this consensus."""
    _, method, _, local = sharing.working("fedmd", round=round, receives=False, options=options)
    method.receive(local, {} if consensus is None else {"consensus": consensus})
    return method, local


def test_the_consensus_is_of_the_last_rounds_senders_alone() -> None:
    """One of an earlier round is not sent: if round 2 brings no scores, the samples in round 3 are not those of the
    consensus.
    """
    fedmd = fedmd_with(subset=2)
    scores = ([[1, 2], [0, 0]], [[3, 8], [4, -4]])
    sent = [sharing.sent(fedmd, k, scores=each) for k, each in enumerate(scores)]
    first = fedmd.aggregate(1, fedmd.init_server(), sent[:1]).server
    second = fedmd.aggregate(3, first, sent[1:]).server
    assert second["consensus"].tolist() == [[3, 8], [4, -4]]
    assert (second["round"], second["begun"].tolist()) == (3, [1, 1])
    assert fedmd.downlink(3, first, fedmd.federation.clients[0])["consensus"].shape == (0, 2)
    fedmd, local = working(3, torch.zeros(0, 4))
    assert [phase.name for phase in fedmd.phases(local)] == ["revisit"]


def test_the_server_keeps_a_row_of_scores_for_each_sample_of_the_subset() -> None:
    """State: 4 · n · C bytes of scores, 8 of the round, and 4 for each of N clients."""
    for subset, rows in [(4, 4), (None, 10), (10, 10), (11, 10)]:
        server = fedmd_with(subset=subset).init_server()
        assert server["consensus"].shape == (rows, 2)
        assert sum(each.nbytes for each in server.values()) == 4 * rows * 2 + 8 + 4 * 2


def test_a_clients_first_round_is_its_transfer_learning() -> None:
    """32 public images in batches of 10 are four steps in each of 3 epochs; then two epochs on its own samples. Every
    public sample is seen once in an epoch, in another order.
    """
    fedmd, local = working(1, public_epochs=3, public_batch=10, private_epochs=2)
    public, private = fedmd.phases(local)
    assert (public.name, private.name) == ("public", "private")
    epochs = torch.cat([each.y for each in public.batches or ()]).split(PUBLIC)
    assert epochs[0].tolist() != epochs[1].tolist()
    assert all(epoch.sort().values.tolist() == [*range(PUBLIC)] for epoch in epochs)
    assert len([*steps(local, public)]) == 12
    assert len([*steps(local, private)]) == 2 * local.steps_of_epoch(private)


def test_the_public_labels_are_those_of_the_batchs_samples() -> None:
    """Places 1 and 0 have labels 0 and 1. Logits (9, 0) and (0, 9) are right for them."""
    fedmd, x = fedmd_with(), batch((9, 0, 0), (0, 9, 0)).x
    for places, expected in (([1, 0], 0), ([0, 1], 9)):
        given = {"labels": torch.tensor([1, 0])}, Batch(x, torch.tensor(places)), {}
        assert fedmd.public_loss(Nets(Plain()), *given).item() == pytest.approx(expected, abs=1e-3)


def test_the_digest_is_the_mean_distance_to_the_consensus_of_each_sample() -> None:
    """Logits (1, 2) of the sample in row 1, (5, 5) and (3, 4) of that in row 0, (5, 4): differences 1, −3, −2, 0."""
    for distance, loss in [("absolute", (1 + 3 + 2 + 0) / 4), ("squared", (1 + 9 + 4 + 0) / 4)]:
        consensus = {"consensus": torch.tensor([[5.0, 4.0], [0.0, 5.0]])}
        images = batch((1, 2, 1), (3, 4, 0))
        assert fedmd_with(distance=distance).digest_loss(Nets(Plain()), consensus, images, {}).item() == loss


def test_the_digest_is_on_the_samples_that_were_scored_in_the_round_before() -> None:
    fedmd, local = working(5, torch.zeros(6, 4), subset=6, digest_batch=4, digest_epochs=2)
    digest, revisit = fedmd.phases(local)
    assert (digest.name, revisit.name, revisit.batches) == ("digest", "revisit", None)
    scored = local.public.of_round(4, 6)
    assert [len(each.y) for each in digest.batches or ()] == [4, 2, 4, 2]
    for each in digest.batches or ():
        assert torch.equal(each.x, local.public.batch(scored[each.y]))
    assert local.epochs(revisit) == local.federation.training.epochs


def test_a_client_scores_the_samples_of_the_round_in_evaluation_mode() -> None:
    fedmd, local = working(5, subset=6)
    local.nets.train()
    scores = fedmd.uplink(local)["scores"]
    assert not local.nets.training
    with torch.no_grad():
        expected = local.nets.model(local.public.batch(local.public.of_round(5, 6)))
    assert torch.equal(scores, expected)


def test_a_round_may_have_beginners_and_others() -> None:
    """Three of four take part. Whoever comes first in a later round has its transfer learning then."""
    parts = federations.built(federations.config("fedmd", method={"public_epochs": 1, "private_epochs": 1}))
    state = parts.engine.initial_state()
    seen: set[int] = set()
    while True:
        state = parts.engine.round(state, unobserved)
        assert state.record is not None
        if seen and set(state.record["participants"]) - seen:
            break
        seen |= set(state.record["participants"])
    assert state.record["method_metrics"].keys() == {"private_loss", "revisit_loss"}


def test_public_labels_beyond_the_clients_classes_are_refused_if_they_are_used() -> None:
    federation = replace(federations.federation(["tiny_cnn"]), public_classes=3)
    for epochs, refused in [(1, True), (0, False)]:
        need = sharing.of("fedmd", federation, public_epochs=epochs).unmet_need()
        assert (need is not None and "at most 2 classes" in need and "they have 3" in need) == refused
