"""FedProto: prototypes weighted by class counts, the pull towards them, the nearest one as the answer; by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, of_module
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.fedproto import FedProto
from simulator.methods.hooks import Hooks
from simulator.models import ImageShape, Network
from simulator.runners import Job, Work
from simulator.runners.local import update
from simulator.training.flops import FlopCache
from simulator.training.phase import Nets
from simulator.training.trainer import TrainingContext
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(**options: Any) -> FedProto:
    """Three clients of three classes, K = 8: client 0 holds 0 and 1, client 1 holds 1 and 2, client 2 holds 1."""
    return sharing.of(
        "fedproto",
        federations.federation(
            ["tiny_cnn", "tiny_mlp", "tiny_cnn"], [4, 4, 4], [(0, 1), (1, 2), (1,)], num_classes=3
        ),
        **options,
    )


def uplink(method: FedProto, client: int, values: list[float], counts: list[int] | None = None) -> Uplink:
    """Prototypes in which every number is the same."""
    info = method.federation.clients[client]
    payload = {
        "prototypes": torch.tensor(values)[:, None].repeat(1, 8),
        "labels": torch.tensor(info.classes, dtype=torch.int32),
    }
    if counts:
        payload["counts"] = torch.tensor(counts, dtype=torch.int32)
    return Uplink(info, payload)


def prototypes(server: Tensors) -> list[float | None]:
    """Every class's prototype by its one number; None where there is none."""
    mean, known = server["prototypes/mean"], server["prototypes/known"]
    assert (mean == mean[:, :1]).all()
    return [
        float(value) if there else None
        for value, there in zip(mean[:, 0].tolist(), known.tolist(), strict=True)
    ]


def test_prototypes_are_weighted_by_the_counts_of_their_class() -> None:
    """Class 1: (1·2 + 3·10)/4 = 8, though both clients hold four samples; class 0: 5; class 2: 7."""
    fedproto = method()
    sent = [uplink(fedproto, 0, [5.0, 2.0], [3, 1]), uplink(fedproto, 1, [10.0, 7.0], [3, 1])]
    assert prototypes(fedproto.aggregate(1, fedproto.init_server(), sent).server) == [5.0, 8.0, 7.0]


def test_plain_weighting_is_the_mean_over_the_holders() -> None:
    """Class 1: (2 + 10 + 6)/3 = 6."""
    fedproto = method(weighting="plain")
    sent = [uplink(fedproto, 0, [5.0, 2.0]), uplink(fedproto, 1, [10.0, 7.0]), uplink(fedproto, 2, [6.0])]
    assert prototypes(fedproto.aggregate(1, fedproto.init_server(), sent).server) == [5.0, 6.0, 7.0]


def test_a_class_nobody_sent_keeps_its_prototype() -> None:
    fedproto = method()
    start = fedproto.init_server()
    first, metrics = fedproto.aggregate(1, start, [uplink(fedproto, 0, [5.0, 2.0], [1, 1])])
    assert prototypes(first) == [5.0, 2.0, None]
    assert metrics["classes_known"] == 2
    second = fedproto.aggregate(2, first, [uplink(fedproto, 2, [6.0], [4])]).server
    assert prototypes(second) == [5.0, 6.0, None]
    assert prototypes(start) == [None, None, None]


def test_only_the_clients_own_classes_travel_down_and_only_known_ones() -> None:
    fedproto = method()
    clients = fedproto.federation.clients
    server = fedproto.aggregate(1, fedproto.init_server(), [uplink(fedproto, 0, [5.0, 2.0], [1, 1])]).server
    payload = fedproto.downlink(
        2, server, clients[1]
    )  # class 1 is known, class 2 is not, class 0 not its own
    assert payload["labels"].tolist() == [1]
    assert payload["labels"].dtype == torch.int32
    assert payload["prototypes"].tolist() == [[2.0] * 8]
    assert fedproto.downlink(1, fedproto.init_server(), clients[1])["prototypes"].shape == (0, 8)


class Line(Network):
    """f(x) = w·x of one pixel, w = 1 to begin with; the head, without any weight, says nothing."""

    layers = ("features",)

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(1, 1, bias=False)
        self.head = nn.Linear(1, 1)
        nn.init.ones_(self.f.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.f(x.flatten(1))}


def test_prototypes_are_collected_when_it_is_said() -> None:
    """x = 1, prototype 0, λ = 1, η = ¼, two epochs of one batch: w goes 1 → ½ → ¼. The last epoch has seen ½ before
    its step, both epochs 1 and ½, and afterwards there is ¼."""
    for collect, prototype in [("last_epoch", 0.5), ("all_epochs", 0.75), ("after", 0.25)]:
        training = TrainingConfig(epochs=2, lr=0.25, batch_size=4)
        one = ImageShape(1, 1, 1)
        federation = federations.federation(
            ["line"], [4], [(0,)], num_classes=1, shape=one, training=training
        )
        federation.__dict__["architectures"] = {"line": Line().to("meta")}
        data = federations.pixels(
            torch.ones(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64), [torch.arange(4)], 1
        )
        fedproto = FedProto(federations.config("fedproto", method={"collect": collect}).method, federation)
        known = {"prototypes/mean": torch.zeros(1, 1), "prototypes/known": torch.ones(1)}
        start = {f"model/{name}": weight for name, weight in of_module(Line()).items()} | known
        payload = {"prototypes": torch.zeros(1, 1), "labels": torch.zeros(1, dtype=torch.int32)}
        place = TrainingContext(federation, data, FlopCache())
        work = Work(Hooks(fedproto, federation), 1, {0: Job(start, payload)})
        done = update(place, federation.clients[0], work)
        assert done.uplink["prototypes"].item() == pytest.approx(prototype)
        assert done.tensors["model/f.weight"].item() == pytest.approx(0.25)


def test_clients_answer_with_the_prototypes_of_this_round() -> None:
    """Feature 1, between the old prototypes 0 of class 0 and 10 of class 1, and the new ones, which are exchanged."""
    parts = federations.built(federations.config("fedproto"))
    assert parts.method.answers == "aggregated"
    first = parts.engine.round(parts.engine.initial_state(), unobserved)
    assert first.record is not None
    # What was evaluated after round 1 is what would be received in round 2, so there are prototypes already.
    local = federations.settings(parts, evaluation={"model": "local"})
    stale = local.engine.round(local.engine.initial_state(), unobserved)
    assert stale.record is not None
    assert federations.state_bits(stale) == federations.state_bits(first)
    assert stale.record["accuracy"]["per_client"] != first.record["accuracy"]["per_client"]


def state(known: tuple[float, float]) -> dict[str, Tensor]:
    """Prototypes (0, 0) of class 0 and (4, 0) of class 1."""
    mean = torch.tensor([[0.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    return {"prototypes/mean": mean, "prototypes/known": torch.tensor(known, dtype=torch.float64)}


def test_the_loss_adds_the_mean_squared_distance_to_the_classes_prototype() -> None:
    """Features (1, 2) of class 0 are 1² + 2² = 5 away, (1, 1) of class 1 are 3² + 1² = 10 away: MSE 15/4. With
    λ = 2, and CE log(1 + e) for logits (1, 2) of class 0, log 2 for (1, 1)."""
    loss = method(lam=2.0).loss(Nets(Plain()), state((1, 1)), batch((1, 2, 0), (1, 1, 1)), {}).loss
    assert loss.item() == pytest.approx((math.log1p(math.e) + math.log(2)) / 2 + 2 * 15 / 4, rel=1e-14)


def answers(known: tuple[float, float], **options: Any) -> list[int]:
    """For features (1, 2) and (3, 9): the head says class 1 both times, the nearest prototypes are 0 and 1."""
    x = batch((1, 2, 0), (3, 9, 0)).x
    return method(**options).predict(Nets(Plain()), state(known), x).argmax(1).tolist()


def test_prototypes_that_lie_close_and_far_from_zero_are_told_apart() -> None:
    """From 10⁸ + 0.04 it is 0.04 to class 0 at 10⁸ and 0.06 to class 1 at 10⁸ + 0.1. A distance by squares of 10¹⁶,
    as torch takes it for more than 25 rows, knows them to about 2."""
    x = batch(*[(1e8 + 0.04, 0, 0)] * 30).x
    close = {
        "prototypes/mean": torch.tensor([[1e8, 0.0], [1e8 + 0.1, 0.0]], dtype=torch.float64),
        "prototypes/known": torch.ones(2),
    }
    scores = method().predict(Nets(Plain()), close, x)
    torch.testing.assert_close(scores, -torch.tensor([[0.04, 0.06]] * 30).double(), atol=1e-6, rtol=0)
