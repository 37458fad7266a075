"""FD: the mean over the others, and the pull towards it; by hand."""

import math
from typing import Any

import pytest
import torch

from simulator.methods import Uplink
from simulator.methods.fd import FD
from simulator.tensors import Tensors
from simulator.training.phase import Nets
from tests import federations
from tests.networks import Plain, batch

CLASSES = [(0, 1), (1, 2), (1,), (0,)]


def method(**options: Any) -> FD:
    """Four clients of three classes; class 0 is held by clients 0 and 3, class 1 by 0, 1 and 2, class 2 by 1."""
    federation = federations.federation(["tiny_cnn"] * 4, [1, 2, 3, 4], CLASSES, num_classes=3)
    return FD(federations.config("fd", method=options).method, federation)


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


def test_the_mean_is_over_the_participants_of_the_round() -> None:
    """Only clients 1 and 2 come, with 10 and 20 for class 1: client 0's old 2 no longer counts."""
    fd = method()
    server = fd.aggregate(2, everybody(fd), [uplink(fd, 1, 10.0, 0.0), uplink(fd, 2, 20.0)]).server
    assert guides(fd, server, 0)[1] == 15.0
    assert guides(fd, server, 1) == {1: 20.0}
    assert guides(fd, server, 2) == {1: 10.0}


def test_a_class_nobody_sent_keeps_its_senders() -> None:
    """Class 0 was last sent by clients 0 and 3."""
    fd = method()
    server = fd.aggregate(2, everybody(fd), [uplink(fd, 1, 10.0, 0.0), uplink(fd, 2, 20.0)]).server
    assert guides(fd, server, 0)[0] == 5.0
    assert guides(fd, server, 3) == {0: 1.0}


def test_nothing_travels_down_before_anybody_has_sent() -> None:
    fd = method()
    assert all(guides(fd, fd.init_server(), client) == {} for client in range(4))


def test_merging_leaves_the_old_state_as_it_was() -> None:
    fd = method()
    server = everybody(fd)
    before = federations.bits(server)
    fd.aggregate(2, server, [uplink(fd, 2, 20.0)])
    assert federations.bits(server) == before


def test_the_loss_adds_the_mean_squared_distance_to_the_classes_guide() -> None:
    """Logits (1, 2) of class 0 are 1² + 2² = 5 from the guide (0, 0); class 1 has none. MSE 5/4 over four numbers,
    with γ = 2; CE log(1 + e) and, for (1, 1), log 2."""
    state = {
        "guide/logits": torch.zeros(2, 2, dtype=torch.float64),
        "guide/known": torch.tensor([1.0, 0.0], dtype=torch.float64),
    }
    loss = method(gamma=2.0).loss(Nets(Plain()), state, batch((1, 2, 0), (1, 1, 1)), {})
    assert loss.item() == pytest.approx((math.log1p(math.e) + math.log(2)) / 2 + 2 * 5 / 4, rel=1e-14)


def test_a_client_receives_guides_by_class_and_sends_mean_logits() -> None:
    parts = federations.built(federations.config("fd"))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    sent = parts.method.uplink(local)
    x, y = local.batch(local.train)
    with torch.no_grad():
        logits = local.nets.model.eval()(x)
    for label, mean in zip(sent["labels"].tolist(), sent["logits"], strict=True):
        torch.testing.assert_close(mean, logits[y == label].mean(0))
    guide = torch.arange(4.0)[None]
    parts.method.receive(local, {"logits": guide, "labels": torch.tensor([2], dtype=torch.int32)})
    assert local.state["guide/known"].tolist() == [0, 0, 1, 0]
    assert torch.equal(local.state["guide/logits"][2], guide[0])
    assert torch.equal(parts.method.phases(local)[0].state["guide/logits"], local.state["guide/logits"])
