"""Ditto: FedAvg on the shared model, and beside it a model that is held near it and answers."""

import torch

from simulator.base.tensors import part
from simulator.methods.ditto import Ditto
from tests import federations
from tests.methods import sharing


def method(**options: float) -> Ditto:
    return sharing.method("ditto", ["tiny_cnn"], [4], **options)


def test_a_clients_own_model_starts_at_the_first_received_one_and_then_continues() -> None:
    ditto = method()
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    own = part(local.tensors(), "model")
    assert federations.bits(own) == federations.bits(part(server, "tiny_cnn"))
    later = sharing.at_work(
        ditto, 0, local.tensors() | sharing.filled({"model/fc1.bias": own["fc1.bias"]}, 5.0)
    )
    ditto.receive(later, ditto.downlink(2, server, later.info))
    assert (part(later.tensors(), "model")["fc1.bias"] == 5.0).all()


def test_the_shared_model_travels_and_the_own_one_does_not() -> None:
    ditto = method()
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    with torch.no_grad():
        local.nets["shared"].get_parameter("fc1.bias").fill_(2.0)
        local.nets.model.get_parameter("fc1.bias").fill_(3.0)
    assert (ditto.uplink(local)["model/fc1.bias"] == 2.0).all()
    assert (part(local.tensors(), "model")["fc1.bias"] == 3.0).all()
