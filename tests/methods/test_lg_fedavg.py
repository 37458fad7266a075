"""LG-FedAvg: the head is the clients' mean, the features never meet."""

import torch

from simulator.methods import Uplink
from simulator.methods.lg_fedavg import LGFedAvg
from tests import federations


def test_the_head_is_the_mean_weighted_by_training_samples() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8 for the weights, (0 + 4 + 2·2)/4 = 2 for the bias."""
    federation = federations.federation(["tiny_cnn", "tiny_mlp", "tiny_cnn"], samples=[1, 1, 2])
    method = LGFedAvg(federations.config("lg_fedavg").method, federation)
    uplinks = [
        Uplink(client, {"head/weight": torch.full((2, 8), weight), "head/bias": torch.full((2,), bias)})
        for client, weight, bias in zip(federation.clients, (4.0, 8.0, 10.0), (0.0, 4.0, 2.0), strict=True)
    ]
    server, _ = method.aggregate(1, method.init_server(), uplinks)
    assert server.keys() == {"head/weight", "head/bias"}
    assert (server["head/weight"] == 8.0).all()
    assert (server["head/bias"] == 2.0).all()


def test_a_client_replaces_its_head_and_nothing_else() -> None:
    parts = federations.built(federations.config("lg_fedavg"))
    state = parts.engine.initial_state()
    for client in parts.federation.clients:
        before = state.clients[client.id]
        local = federations.local(parts, client.id, before)
        parts.method.receive(local, parts.method.downlink(1, state.server, client))
        head = {f"model/{name.replace('/', '.')}": tensor for name, tensor in state.server.items()}
        assert head.keys() == {"model/head.weight", "model/head.bias"}
        assert federations.bits(local.tensors()) == federations.bits(before | head)


def test_a_head_is_adopted_whole_or_not_at_all() -> None:
    """A weight that fits stays out with a bias that does not; what a head lacks here is left behind."""
    method = LGFedAvg(federations.config("lg_fedavg").method, federations.federation(["tiny_cnn"]))
    fits = {"head/weight": torch.ones(2, 8), "head/bias": torch.ones(2)}
    assert federations.bits(method.adopt(fits | {"head/scale": torch.ones(1)})) == federations.bits(fits)
    assert method.adopt(fits | {"head/bias": torch.ones(3)}) == {}
