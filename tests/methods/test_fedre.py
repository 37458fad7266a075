"""FedRE: one random mixture of class means from each client, and the server's steps on them, by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simulator.methods import Uplink
from simulator.methods.fedre import FedRE
from simulator.models.federation import ClientInfo
from tests import federations
from tests.methods import sharing


def server_side(**method: object) -> FedRE:
    """Two clients, two classes; the head is 2×8, of which the tests use the first feature."""
    config = federations.config("fedre", method=method)
    return FedRE(config.method, federations.federation(["tiny_cnn", "tiny_mlp"]))


def mixed(client: ClientInfo, value: float, shares: dict[int, float]) -> Uplink:
    feature = torch.zeros(8)
    feature[0] = value
    labels = torch.tensor([*shares], dtype=torch.int32)
    return Uplink(client, {"feature": feature, "shares": torch.tensor([*shares.values()]), "labels": labels})


def trained(method: FedRE, *uplinks: Uplink) -> Tensor:
    """The head's first column after a round of the server's that starts from zeros."""
    zeros = {"head/weight": torch.zeros(2, 8), "head/bias": torch.zeros(2)}
    return federations.served(method, zeros, uplinks).server["head/weight"][:, 0]


def test_the_servers_step_pulls_towards_the_shares_of_the_labels() -> None:
    """From zeros the softmax is (½, ½). With shares (¾, ¼) of f = 2, the gradient is 2 · (½ − ¾, ½ − ¼) = (−½, ½)."""
    method = server_side(server_lr=1.0)
    step = trained(method, mixed(method.federation.clients[0], 2.0, {0: 0.75, 1: 0.25}))
    assert step.tolist() == [0.5, -0.5]


def test_the_loss_is_a_sum_over_the_clients_of_a_batch() -> None:
    """f = 1 of class 0 from both: twice the step of one, ½ each."""
    method = server_side(server_lr=1.0)
    step = trained(method, *(mixed(client, 1.0, {0: 1.0}) for client in method.federation.clients))
    assert step.tolist() == [1.0, -1.0]


def test_batches_of_one_are_steps_one_after_the_other() -> None:
    """After ½ and −½ in weight and bias, the logits of f = 1 are (1, −1): 1 − 1/(1 + e⁻²) more."""
    method = server_side(server_lr=1.0, server_batch=1)
    step = trained(method, *(mixed(client, 1.0, {0: 1.0}) for client in method.federation.clients))
    assert step[0].item() == pytest.approx(0.5 + 1 - 1 / (1 + math.exp(-2)))


def test_a_stale_mixture_makes_a_smaller_step() -> None:
    method = server_side(server_lr=1.0)
    stale = replace(mixed(method.federation.clients[0], 1.0, {0: 1.0}), weight=0.5)
    assert trained(method, stale).tolist() == [0.25, -0.25]


def test_a_client_sends_a_mixture_of_its_class_means_with_shares_that_sum_to_one() -> None:
    parts, _, _, local = sharing.working("fedre", 1, receives=False)
    means, labels = local.class_means()
    sent = parts.method.uplink(local)
    assert sent["labels"].tolist() == labels.tolist()
    assert sent["shares"].sum().item() == pytest.approx(1.0)
    assert (sent["shares"] > 0).all()
    torch.testing.assert_close(sent["feature"], sent["shares"] @ means)
