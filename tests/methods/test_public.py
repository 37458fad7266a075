"""FedDF and FedMD: what is learned from public samples, by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, floating, of_module, part
from simulator.engine.builder import Built
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.fedavg import FedAvg
from simulator.methods.feddf import FedDF
from simulator.methods.fedmd import FedMD
from simulator.methods.hooks import Hooks
from simulator.runners.local import server_update
from simulator.training.client import LocalClient
from simulator.training.loop import steps
from simulator.training.phase import Batch, Nets
from simulator.training.trainer import CentralServer
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

PUBLIC = 32
"""A fifth of the 160 generated images."""


# FedDF: averages within a group, then steps towards the mean logits of all received models


def feddf(**options: Any) -> tuple[Built, FedDF, list[Uplink]]:
    """A federation, and uplinks of its first three clients: models of their architectures with drawn weights."""
    parts = federations.built(
        federations.config("feddf", method=options, federation={"group": federations.TINY})
    )
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
    sent = [
        sharing.sent(fedmd, k, scores=each) for k, each in enumerate(([[1, 2], [0, 0]], [[3, 8], [4, -4]]))
    ]
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
