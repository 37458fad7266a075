"""Scaffold: corrected steps and two rounds of control variates, by hand."""

import torch

from simulator.base.sections import TrainingConfig
from simulator.base.tensors import part
from simulator.methods.scaffold import Scaffold
from tests import federations
from tests.methods import sharing


def method(architecture: str = "tiny_mlp", **options: float) -> Scaffold:
    """Four clients of 4, 8, 4 and 4 samples: with batches of two and η = ½, τη = 1, 2, 1 and 1."""
    training = TrainingConfig(batch_size=2, lr=0.5)
    return sharing.method("scaffold", [architecture] * 4, [4, 8, 4, 4], training, **options)


def at(scaffold: Scaffold, value: float) -> dict[str, torch.Tensor]:
    """The server before round 1: `value` in every weight, zero in the control variates."""
    server = scaffold.init_server()
    return server | sharing.filled({k: server[k] for k in server if not k.startswith("control/")}, value)


def values(tensors: dict[str, torch.Tensor], prefix: str) -> set[float]:
    """The different numbers in all of a part's tensors."""
    return {value for tensor in part(tensors, prefix).values() for value in tensor.flatten().tolist()}


def test_two_rounds_by_hand() -> None:
    """Round 1, clients 0 and 1, from w = 1, c = c_0 = c_1 = 0; trained to 0 and −5:
    c_0 = (1 − 0)/1 = 1, c_1 = (1 + 5)/2 = 3; w = 1 + (−1 − 6)/2 = −2½; c = 2/4 · (1 + 3)/2 = 1.
    Round 2, clients 0 and 2; trained to −3½ and −4½:
    c_0 = 1 − 1 + (−2½ + 3½)/1 = 1, c_2 = 0 − 1 + (−2½ + 4½)/1 = 1; w = −2½ + (−1 − 2)/2 = −4;
    c = 1 + 2/4 · (0 + 1)/2 = 1¼."""
    scaffold = method("tiny_cnn")
    clients = [sharing.start(scaffold, k) for k in range(4)]
    server = at(scaffold, 1.0)

    clients[0], first = sharing.trained_to(scaffold, 0, server, clients[0], 0.0)
    clients[1], second = sharing.trained_to(scaffold, 1, server, clients[1], -5.0)
    server, _ = scaffold.aggregate(1, server, [first, second])
    assert values(clients[0], "control") == {1.0}
    assert values(clients[1], "control") == {3.0}
    assert values(server, "tiny_cnn") == {-2.5}
    assert values(server, "control/tiny_cnn") == {1.0}

    clients[0], first = sharing.trained_to(scaffold, 0, server, clients[0], -3.5)
    clients[2], second = sharing.trained_to(scaffold, 2, server, clients[2], -4.5)
    server, _ = scaffold.aggregate(2, server, [first, second])
    assert values(clients[0], "control") == {1.0}
    assert values(clients[1], "control") == {3.0}
    assert values(clients[2], "control") == {1.0}
    assert values(server, "tiny_cnn") == {-4.0}
    assert values(server, "control/tiny_cnn") == {1.25}


def test_every_step_is_corrected_by_c_minus_c_k() -> None:
    """One step each of FedAvg and of Scaffold from the same weights with c = 3, c_k = 1: they part by η · 2 = 0.2."""
    for optimizer in ["sgd", "adam"]:
        sections = {
            "training": {"batch_size": 1000, "lr": 0.1, "optimizer": optimizer},
            "federation": {"group": "tiny_cnn"},
        }
        ends = []
        for name in ("fedavg", "scaffold"):
            parts = federations.built(federations.config(name, **sections))
            start = parts.engine.initial_state()
            server = start.server | {
                key: torch.full_like(c, 3.0) for key, c in start.server.items() if key.startswith("control/")
            }
            state = start.clients[0] | {
                key: torch.full_like(c, 1.0)
                for key, c in start.clients[0].items()
                if key.startswith("control/")
            }
            info = parts.federation.clients[0]
            payload = parts.method.downlink(1, server, info)
            done = federations.updated(parts, 0, state, payload)
            ends.append((done.losses["model"], part(done.tensors, "model")))
        (plain_loss, plain), (loss, corrected) = ends
        assert loss == plain_loss  # the first batch's, before any step
        for name, w in plain.items():
            torch.testing.assert_close(corrected[name], w - 0.2, rtol=1e-5, atol=1e-6)


def test_the_servers_step_size_scales_the_weights_and_not_the_statistics() -> None:
    """η_g = ½: from 1, with mean Δw = −2, to 0; running statistics take the plain mean, −1."""
    scaffold = method(eta_g=0.5)
    server = at(scaffold, 1.0)
    uplinks = [
        sharing.trained_to(scaffold, k, server, sharing.start(scaffold, k), value)[1]
        for k, value in ((0, 1.0), (1, -3.0))
    ]
    merged, _ = scaffold.aggregate(1, server, uplinks)
    assert (merged["tiny_mlp/fc1.weight"] == 0.0).all()
    assert (merged["tiny_mlp/norm.running_var"] == -1.0).all()
    assert "control/tiny_mlp/norm.running_var" not in merged
