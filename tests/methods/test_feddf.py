"""FedDF: averages within a group, then steps towards the mean logits of all received models; by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, floating, of_module, part
from simulator.engine.builder import Built
from simulator.methods import Uplink
from simulator.methods.fedavg import FedAvg
from simulator.methods.feddf import FedDF
from simulator.methods.hooks import Hooks
from simulator.runners.local import server_update
from simulator.training.phase import Nets
from simulator.training.trainer import CentralServer
from tests import federations
from tests.networks import Plain, batch

PUBLIC = 32
"""A fifth of the 160 generated images."""


def parts_of(group: tuple[str, ...] = federations.TINY, **options: Any) -> tuple[Built, FedDF]:
    parts = federations.built(federations.config("feddf", method=options, federation={"group": group}))
    assert isinstance(parts.method, FedDF)
    return parts, parts.method


def sent(parts: Built, client: int, seed: int) -> Uplink:
    """A model of the client's architecture with drawn weights."""
    info = parts.federation.clients[client]
    network = parts.federation.build(info.architecture, torch.Generator().manual_seed(seed))
    return Uplink(info, {f"model/{name}": each for name, each in floating(of_module(network)).items()})


def after(parts: Built, uplinks: list[Uplink], round: int = 1) -> tuple[Tensors, dict[str, Any], int]:
    """The server's state and metrics after that round, and its operations."""
    state = parts.engine.initial_state().server
    hooks = Hooks(parts.method, parts.federation)
    (server, metrics), flops = server_update(hooks, federations.context(parts), round, state, uplinks)
    return server, metrics, flops


def at_work(parts: Built, round: int = 1) -> CentralServer:
    hooks = Hooks(parts.method, parts.federation)
    state = parts.engine.initial_state().server
    return CentralServer(federations.context(parts), round, state, hooks.server_networks())


def logits(parts: Built, uplink: Uplink, samples: Tensor) -> Tensor:
    local = federations.local(parts, uplink.client.id, uplink.payload)
    local.nets.eval()
    with torch.no_grad():
        found: Tensor = local.nets.model(local.public.batch(samples))
    return found


def test_the_teacher_is_the_plain_mean_of_the_logits_of_all_models_of_any_architecture() -> None:
    """Clients 0 and 1 have different architectures and numbers of samples."""
    parts, feddf = parts_of()
    uplinks, samples = [sent(parts, 0, 1), sent(parts, 1, 2)], torch.tensor([3, 5, 8])
    teacher = feddf.ensemble(at_work(parts), uplinks, samples)
    torch.testing.assert_close(teacher, sum(logits(parts, each, samples) for each in uplinks) / 2)


def test_the_loss_is_the_divergence_from_the_teachers_softmax_of_each_sample() -> None:
    """Teacher (log 3, 0) has probabilities ¾ and ¼, and the student's (0, 0) has ½ and ½."""
    _, feddf = parts_of()
    teacher = {"teacher": torch.tensor([[9.0, 9.0], [math.log(3), 0.0]])}
    found = feddf.loss("model", Nets(Plain()), teacher, batch((0, 0, 1)), {})
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_a_group_starts_at_its_average() -> None:
    """Steps of 10⁻³⁰ change no weight. The student's running statistics are those of public samples."""
    parts, feddf = parts_of(server_lr=1e-30, server_steps=1)
    uplinks = [sent(parts, 0, 1), sent(parts, 1, 2), sent(parts, 2, 3)]
    server, _, _ = after(parts, uplinks)
    averaged = FedAvg.aggregate(feddf, 1, parts.engine.initial_state().server, uplinks).server
    for name, network in parts.federation.architectures.items():
        for key, _ in network.named_parameters():
            torch.testing.assert_close(server[f"{name}/{key}"], averaged[f"{name}/{key}"])


def test_a_step_moves_every_weight_by_the_rate_at_first() -> None:
    """Adam's first step is η in the direction of the gradient's sign, and the cosine begins at 1."""
    parts, _ = parts_of(server_lr=0.01, server_steps=1)
    uplinks = [sent(parts, 0, 1), sent(parts, 1, 2)]
    server, _, _ = after(parts, uplinks)
    moved = server["tiny_cnn/head.bias"] - uplinks[0].payload["model/head.bias"]
    torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.01), rtol=1e-3, atol=0)


def test_a_group_without_a_participant_stays_as_it_is() -> None:
    parts, _ = parts_of(server_steps=1)
    server, metrics, _ = after(parts, [sent(parts, 0, 1)])
    first = parts.engine.initial_state().server
    assert federations.bits(part(server, "tiny_mlp")) == federations.bits(part(first, "tiny_mlp"))
    assert metrics.keys() == {"distill/tiny_cnn_loss"}


def test_a_round_uses_as_many_samples_as_its_steps_can_show() -> None:
    for steps, size, used in [(2, 5, 10), (3, 16, PUBLIC), (1, 100, PUBLIC)]:
        parts, feddf = parts_of(server_steps=steps, server_batch=size)
        server = at_work(parts, 2)
        phases = feddf.server_phases(server, [sent(parts, 0, 1), sent(parts, 1, 2)])
        assert [phase.trains for phase in phases] == [("tiny_cnn",), ("tiny_mlp",)]
        assert all(phase.anneals for phase in phases)
        samples = server.public.of_round(2, steps * size)
        for phase in phases:
            assert len(phase.batches or ()) == steps
            assert phase.state["teacher"].shape == (used, 4)
            first = (phase.batches or ())[0]
            assert len(first.y) == min(size, used)
            assert torch.equal(first.x, server.public.batch(samples[first.y]))


def test_public_samples_and_names_without_a_dot_are_needed() -> None:
    settings = federations.config("feddf").method
    with pytest.raises(ConfigError, match=r"needs public samples \(the server distills"):
        FedDF(settings, federations.federation(["tiny_cnn"], public=0)).check()
    assert FedDF(settings, federations.federation(["tiny_cnn"])).unmet_need() is None
    dotted = federations.federation(["tiny_cnn", "timm:resnet18.a1_in1k"])
    need = FedDF(settings, dotted).unmet_need()
    assert need is not None and "without a dot" in need and "client 1 (timm:resnet18.a1_in1k)" in need
