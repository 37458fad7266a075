"""FedAvg's mean, group by group, with numbers worked out by hand."""

import torch

from simulator.base.tensors import part
from simulator.methods import Uplink
from simulator.methods.fedavg import FedAvg
from tests import federations


def method(architectures: list[str], samples: list[int]) -> FedAvg:
    return FedAvg(federations.config("fedavg").method, federations.federation(architectures, samples))


def filled(method: FedAvg, client: int, value: float) -> Uplink:
    """An uplink in which every number is `value`."""
    info = method.federation.clients[client]
    payload = method.downlink(1, method.init_server(), info)
    return Uplink(info, {name: torch.full_like(tensor, value) for name, tensor in payload.items()})


def test_the_mean_is_weighted_by_training_samples() -> None:
    """n = 1, 3, so n_k/n = 1/4, 3/4, and 4/4 + 3·8/4 = 7."""
    fedavg = method(["tiny_cnn", "tiny_cnn"], samples=[1, 3])
    server, _ = fedavg.aggregate(1, fedavg.init_server(), [filled(fedavg, 0, 4.0), filled(fedavg, 1, 8.0)])
    assert server.keys() == fedavg.init_server().keys()
    assert all((tensor == 7.0).all() for tensor in server.values())


def test_each_architecture_averages_apart() -> None:
    """The CNNs (n = 1, 1) meet at (2 + 4)/2 = 3; the MLP, alone in its group, stays at 10."""
    fedavg = method(["tiny_cnn", "tiny_mlp", "tiny_cnn"], samples=[1, 100, 1])
    uplinks = [filled(fedavg, 0, 2.0), filled(fedavg, 1, 10.0), filled(fedavg, 2, 4.0)]
    server, _ = fedavg.aggregate(1, fedavg.init_server(), uplinks)
    assert all((tensor == 3.0).all() for tensor in part(server, "tiny_cnn").values())
    floating = [tensor for tensor in part(server, "tiny_mlp").values() if tensor.is_floating_point()]
    assert all((tensor == 10.0).all() for tensor in floating)


def test_a_group_nobody_took_part_in_keeps_its_model() -> None:
    fedavg = method(["tiny_cnn", "tiny_mlp"], samples=[1, 1])
    start = fedavg.init_server()
    server, _ = fedavg.aggregate(1, start, [filled(fedavg, 0, 2.0)])
    assert federations.bits(part(server, "tiny_mlp")) == federations.bits(part(start, "tiny_mlp"))


def test_batch_norm_statistics_are_averaged_and_its_counter_is_not() -> None:
    """n = 1, 3: running means 0 and 8 meet at 6; the counter never travels."""
    fedavg = method(["tiny_mlp", "tiny_mlp"], samples=[1, 3])
    uplinks = [filled(fedavg, 0, 0.0), filled(fedavg, 1, 8.0)]
    assert "model/norm.num_batches_tracked" not in uplinks[0].payload
    server, _ = fedavg.aggregate(1, fedavg.init_server(), uplinks)
    assert (server["tiny_mlp/norm.running_mean"] == 6.0).all()
    assert (server["tiny_mlp/norm.running_var"] == 6.0).all()
    assert server["tiny_mlp/norm.num_batches_tracked"] == 0


def test_a_client_receives_all_but_its_own_counter() -> None:
    parts = federations.built(federations.config("fedavg"))
    state = parts.engine.initial_state()
    mlp = 1
    tensors = state.clients[mlp] | {"model/norm.num_batches_tracked": torch.tensor(5)}
    local = federations.local(parts, mlp, tensors)
    parts.method.receive(local, parts.method.downlink(1, state.server, parts.federation.clients[mlp]))
    expected = part(state.server, "tiny_mlp") | {"norm.num_batches_tracked": torch.tensor(5)}
    assert federations.bits(part(local.tensors(), "model")) == federations.bits(expected)
