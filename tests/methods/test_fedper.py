"""FedPer: bodies are averaged within a group, and every client keeps its head."""

import torch

from simulator.base.tensors import floating
from tests import federations
from tests.methods import sharing


def test_the_body_is_the_mean_weighted_by_training_samples_and_heads_stay() -> None:
    """n = 1 and 3: (4 + 3·8)/4 = 7. Each client keeps the head that it trained."""
    method = sharing.method("fedper", ["tiny_cnn", "tiny_cnn"], [1, 3])
    server = method.init_server()
    ends = [
        sharing.trained_to(method, client, server, sharing.start(method, client), value)
        for client, value in enumerate((4.0, 8.0))
    ]
    after, _ = method.aggregate(1, server, [uplink for _, uplink in ends])
    assert after.keys() == server.keys()
    assert all((tensor == 7.0).all() for tensor in after.values())
    local = sharing.at_work(method, 0, ends[0][0], round=2)
    method.receive(local, method.downlink(2, after, local.info))
    assert (local.nets.model.head.weight == 4.0).all()
    assert (local.nets.model.head.bias == 4.0).all()
    body = [value for name, value in local.nets.model.named_parameters() if not name.startswith("head.")]
    assert all((value == 7.0).all() for value in body)


def test_neither_the_server_nor_a_payload_has_a_head() -> None:
    """The traffic of a client and direction: 4 bytes for every number of its model but the head's."""
    parts = federations.built(federations.config("fedper"))
    state = parts.engine.initial_state()
    assert not [name for name in state.server if "/head." in name]
    for client in parts.federation.clients:
        local = federations.local(parts, client.id, state.clients[client.id])
        numbers = sum(value.numel() for value in floating(local.nets.model.state_dict()).values())
        head = local.nets.model.head.weight.numel() + local.nets.model.head.bias.numel()
        for payload in (parts.method.downlink(1, state.server, client), parts.method.uplink(local)):
            assert sum(4 * tensor.numel() for tensor in payload.values()) == 4 * (numbers - head)


def test_a_switch_takes_over_the_body_of_fedavg() -> None:
    parts = federations.built(federations.config("fedper"))
    fedavg = federations.built(federations.config("fedavg")).engine.initial_state().server
    shifted = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in fedavg.items()}
    adopted = parts.method.adopt(shifted)
    assert adopted.keys() == parts.method.init_server().keys()
    assert all(torch.equal(adopted[name], shifted[name]) for name in adopted)
