"""FedMD: transfer learning first, then the mean scores of all on public samples; by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.fedmd import FedMD
from simulator.training.client import LocalClient
from simulator.training.loop import steps
from simulator.training.phase import Nets, Phase
from tests import federations
from tests.networks import Plain, batch

PUBLIC = 32
"""A fifth of the 160 generated images."""


def method(**options: Any) -> FedMD:
    """Two clients with 1 and 3 samples of two classes, and ten public samples."""
    config = federations.config("fedmd", method=options)
    return FedMD(config.method, federations.federation(["tiny_cnn", "tiny_mlp"], [1, 3]))


def sent(method: FedMD, client: int, scores: list[list[float]]) -> Uplink:
    return Uplink(method.federation.clients[client], {"scores": torch.tensor(scores)})


def working(round: int, consensus: Tensor | None = None, **options: Any) -> tuple[FedMD, LocalClient]:
    """A client of a real federation in that round, which has received this consensus."""
    parts = federations.built(federations.config("fedmd", method=options))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0], round)
    parts.method.receive(local, {} if consensus is None else {"consensus": consensus})
    assert isinstance(parts.method, FedMD)
    return parts.method, local


def train(local: LocalClient, phase: Phase) -> int:
    """The number of steps it takes."""
    return len([*steps(local, phase)])


def test_the_consensus_is_of_the_last_rounds_senders_alone() -> None:
    fedmd = method(subset=2)
    first = fedmd.aggregate(1, fedmd.init_server(), [sent(fedmd, 0, [[1, 2], [0, 0]])]).server
    second = fedmd.aggregate(3, first, [sent(fedmd, 1, [[3, 8], [4, -4]])]).server
    assert second["consensus"].tolist() == [[3, 8], [4, -4]]
    assert (second["round"], second["begun"].tolist()) == (3, [1, 1])


def test_a_consensus_of_an_earlier_round_is_not_sent() -> None:
    """Round 2 brought no scores, so in round 3 the samples of the consensus are no longer those of the round before."""
    fedmd = method(subset=2)
    server = fedmd.aggregate(1, fedmd.init_server(), [sent(fedmd, 1, [[3, 8], [4, -4]])]).server
    assert fedmd.downlink(3, server, fedmd.federation.clients[1])["consensus"].shape == (0, 2)
    fedmd, local = working(3, torch.zeros(0, 4))
    assert [phase.name for phase in fedmd.phases(local)] == ["revisit"]


def test_the_server_keeps_a_row_of_scores_for_each_sample_of_the_subset() -> None:
    """State: 4 · n · C bytes of scores, 8 of the round, and 4 for each of N clients."""
    for subset, rows in [(4, 4), (None, 10), (10, 10), (11, 10)]:
        server = method(subset=subset).init_server()
        assert server["consensus"].shape == (rows, 2)
        assert sum(each.nbytes for each in server.values()) == 4 * rows * 2 + 8 + 4 * 2


def test_a_clients_first_round_is_its_transfer_learning() -> None:
    """32 public images in batches of 10 are four steps in each of 3 epochs; then two epochs on its own samples."""
    fedmd, local = working(1, public_epochs=3, public_batch=10, private_epochs=2)
    public, private = fedmd.phases(local)
    assert (public.name, private.name) == ("public", "private")
    assert train(local, public) == 12
    assert train(local, private) == 2 * local.steps_of_epoch(private)


def test_every_public_sample_is_seen_once_in_an_epoch_in_another_order() -> None:
    fedmd, local = working(1, public_epochs=2, public_batch=PUBLIC)
    first, second = fedmd.phases(local)[0].batches or ()
    assert first.y.tolist() != second.y.tolist()
    assert first.y.sort().values.tolist() == second.y.sort().values.tolist() == [*range(PUBLIC)]


def test_the_public_labels_are_those_of_the_batchs_samples() -> None:
    """Places 1 and 0 have labels 0 and 1. Logits (9, 0) and (0, 9) are right for them."""
    fedmd, nets = method(), Nets(Plain())
    x, _ = batch((9, 0, 0), (0, 9, 0))
    labels = {"labels": torch.tensor([1, 0])}
    right = fedmd.public_loss(nets, labels, type(batch((0, 0, 0)))(x, torch.tensor([1, 0])), {})
    wrong = fedmd.public_loss(nets, labels, type(batch((0, 0, 0)))(x, torch.tensor([0, 1])), {})
    assert right.item() == pytest.approx(0, abs=1e-3)
    assert wrong.item() == pytest.approx(9, abs=1e-3)


def test_the_digest_is_the_mean_distance_to_the_consensus_of_each_sample() -> None:
    """Logits (1, 2) of the sample in row 1, (5, 5) and (3, 4) of that in row 0, (5, 4): differences 1, −3, −2, 0."""
    for distance, loss in [("absolute", (1 + 3 + 2 + 0) / 4), ("squared", (1 + 9 + 4 + 0) / 4)]:
        consensus = torch.tensor([[5.0, 4.0], [0.0, 5.0]])
        images = batch((1, 2, 1), (3, 4, 0))
        found = method(distance=distance).digest_loss(Nets(Plain()), {"consensus": consensus}, images, {})
        assert found.item() == loss


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
    for epochs, refused in [(1, True), (0, False)]:
        from dataclasses import replace

        federation = replace(federations.federation(["tiny_cnn"]), public_classes=3)
        fedmd = FedMD(federations.config("fedmd", method={"public_epochs": epochs}).method, federation)
        need = fedmd.unmet_need()
        assert (need is not None and "at most 2 classes" in need and "they have 3" in need) == refused
