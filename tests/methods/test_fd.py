"""FD: the mean over the others, and the pull towards it; by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from simulator.base.tensors import Tensors
from simulator.methods import Uplink
from simulator.methods.fd import FD
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

CLASSES = [(0, 1), (1, 2), (1,), (0,)]


def method(**options: Any) -> FD:
    """Four clients of three classes; class 0 is held by clients 0 and 3, class 1 by 0, 1 and 2, class 2 by 1."""
    return sharing.of(
        "fd", federations.federation(["tiny_cnn"] * 4, [1, 2, 3, 4], CLASSES, num_classes=3), **options
    )


def uplink(method: FD, client: int, *values: float) -> Uplink:
    """Mean logits in which every number is the same."""
    info = method.federation.clients[client]
    logits = torch.tensor(values)[:, None].repeat(1, 3)
    return Uplink(info, {"logits": logits, "labels": torch.tensor(info.classes, dtype=torch.int32)})


def guides(method: FD, server: Tensors, client: int) -> dict[int, float]:
    """What the client receives: each guide by its one number."""
    payload = method.downlink(2, server, method.federation.clients[client])
    assert payload["labels"].dtype == torch.int32
    assert (payload["logits"] == payload["logits"][:, :1]).all()
    return dict(zip(payload["labels"].tolist(), payload["logits"][:, 0].tolist(), strict=True))


def everybody(method: FD) -> Tensors:
    """The server after all four have sent."""
    sent = [
        uplink(method, 0, 1.0, 2.0),
        uplink(method, 1, 4.0, 8.0),
        uplink(method, 2, 6.0),
        uplink(method, 3, 5.0),
    ]
    return method.aggregate(1, method.init_server(), sent).server


def test_a_client_is_guided_by_the_mean_over_the_others() -> None:
    """Class 1 was sent by 0, 1 and 2 as 2, 4 and 6: client 0 gets (4 + 6)/2, client 1 (2 + 6)/2, client 2
    (2 + 4)/2. Class 0: client 0 gets 5 from client 3, and that 1 from client 0. Class 2 has nobody but client 1."""
    fd = method()
    server = everybody(fd)
    assert [guides(fd, server, client) for client in range(4)] == [
        {0: 5.0, 1: 5.0},
        {1: 4.0},
        {1: 3.0},
        {0: 1.0},
    ]


def test_the_mean_can_include_the_client_itself() -> None:
    """Class 0: (1 + 5)/2 = 3; class 1: (2 + 4 + 6)/3 = 4; class 2: 8."""
    fd = method(include_self=True)
    server = everybody(fd)
    assert [guides(fd, server, client) for client in range(4)] == [
        {0: 3.0, 1: 4.0},
        {1: 4.0, 2: 8.0},
        {1: 4.0},
        {0: 3.0},
    ]


def test_a_stale_uplink_moves_the_clients_own_rows_and_no_others() -> None:
    """Client 1 sends 10 and 20 with half the weight: its 4 becomes 4 + 6/2 = 7, and its 8 becomes 8 + 12/2 = 14."""
    fd = method(include_self=True)
    stale = replace(uplink(fd, 1, 10.0, 20.0), weight=0.5)
    server = fd.aggregate(2, everybody(fd), [stale]).server
    assert guides(fd, server, 1) == {1: 7.0, 2: 14.0}
    assert guides(fd, server, 0) == {0: 3.0, 1: 7.0}


def test_a_stale_uplink_of_a_client_that_never_sent_is_taken_whole() -> None:
    fd = method(include_self=True)
    server = fd.aggregate(1, fd.init_server(), [replace(uplink(fd, 1, 10.0, 20.0), weight=0.5)]).server
    assert guides(fd, server, 1) == {1: 10.0, 2: 20.0}


def test_the_mean_is_over_the_participants_of_the_round() -> None:
    """Only clients 1 and 2 come, with 10 and 20 for class 1: client 0's old 2 no longer counts."""
    fd = method()
    server = fd.aggregate(2, everybody(fd), [uplink(fd, 1, 10.0, 0.0), uplink(fd, 2, 20.0)]).server
    assert guides(fd, server, 0)[1] == 15.0
    assert guides(fd, server, 1) == {1: 20.0}
    assert guides(fd, server, 2) == {1: 10.0}
    assert server["sent/counts"].tolist() == [
        1,
        0,
        1,
        1,
        1,
        1,
    ]  # client 0's classes 0 and 1, client 1's 1 and 2, …


def test_the_loss_adds_the_cross_entropy_against_the_classes_guide() -> None:
    """Logits (log 3, 0) of class 0 are probabilities ¾, ¼: CE −log ¾, and −½ log ¾ − ½ log ¼ = log 4 − ½ log 3 against
    the guide (½, ½), halved by the mean over two samples, as class 1 has no guide; γ = 2. CE of (1, 1) is log 2."""
    state = {
        "guide/logits": torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64),
        "guide/known": torch.tensor([1.0, 0.0], dtype=torch.float64),
    }
    samples = batch((math.log(3), 0, 0), (1, 1, 1))
    loss = method(gamma=2.0).loss(Nets(Plain()), state, samples, {}).loss
    ce = (math.log(4 / 3) + math.log(2)) / 2
    assert loss.item() == pytest.approx(ce + 2 * (math.log(4) - math.log(3) / 2) / 2, rel=1e-14)


def test_the_distance_can_be_the_mean_square_of_logits() -> None:
    """Logits (1, 2) of class 0 are 2² + 1² = 5 from the guide (3, 1); class 1 has none. MSE 5/4 over four numbers,
    with γ = 2; CE log(1 + e) and, for (1, 1), log 2."""
    state = {
        "guide/logits": torch.tensor([[3.0, 1.0], [0.0, 0.0]], dtype=torch.float64),
        "guide/known": torch.tensor([1.0, 0.0], dtype=torch.float64),
    }
    fd = method(gamma=2.0, distance="mse")
    loss = fd.loss(Nets(Plain()), state, batch((1, 2, 0), (1, 1, 1)), {}).loss
    assert loss.item() == pytest.approx((math.log1p(math.e) + math.log(2)) / 2 + 2 * 5 / 4, rel=1e-14)


def trained(distance: str, collect: str) -> Tensors:
    """What client 0 sends after a round of two epochs; `now`, its logits by then, and `y`, their labels."""
    config = federations.config(
        "fd", method={"distance": distance, "collect": collect}, training={"epochs": 2, "lr": 0.1}
    )
    parts = federations.built(config)
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    parts.method.receive(local, parts.method.downlink(1, parts.method.init_server(), local.info))
    for phase in parts.method.phases(local):
        for _ in steps(local, phase):
            pass
    sent = parts.method.uplink(local)
    x, y = local.batch(local.train)
    with torch.no_grad():
        logits = local.nets.model.eval()(x)
    return sent | {"y": y, "now": logits}


def test_after_training_a_client_sends_the_mean_output_of_each_class() -> None:
    for distance in ["cross_entropy", "mse"]:
        sent = trained(distance, "after")
        outputs = sent["now"].softmax(1) if distance == "cross_entropy" else sent["now"]
        for label, mean in zip(sent["labels"].tolist(), sent["logits"], strict=True):
            torch.testing.assert_close(mean, outputs[sent["y"] == label].mean(0))


def test_a_step_adds_its_outputs_by_class_as_they_are_before_it() -> None:
    """Twice (log 3, 0) of class 0, probabilities ¾, ¼: their sum is (1½, ½), of two samples."""
    nothing = {"guide/logits": torch.zeros(3, 2), "guide/known": torch.zeros(3)}
    samples = batch((math.log(3), 0, 0), (math.log(3), 0, 0))
    for distance, expected in (("cross_entropy", (1.5, 0.5)), ("mse", (2 * math.log(3), 0.0))):
        sums = method(distance=distance).loss(Nets(Plain()), nothing, samples, {}).sums
        assert sums["samples"].tolist() == [2, 0, 0]
        assert sums["outputs"][0].tolist() == pytest.approx(expected)
        assert not sums["outputs"][1:].any()
        assert not sums["outputs"].requires_grad


def test_a_client_receives_guides_by_class() -> None:
    parts, _, _, local = sharing.working("fd", receives=False)
    guide = torch.arange(4.0)[None]
    parts.method.receive(local, {"logits": guide, "labels": torch.tensor([2], dtype=torch.int32)})
    assert local.state["guide/known"].tolist() == [0, 0, 1, 0]
    assert torch.equal(local.state["guide/logits"][2], guide[0])
    assert torch.equal(parts.method.phases(local)[0].state["guide/logits"], local.state["guide/logits"])
