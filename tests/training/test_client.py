"""What a method may ask of a client at work: its class counts, a second network."""

import pytest
import torch

from simulator import models
from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, of_module
from simulator.training.client import LocalClient
from tests import federations


def client(number: int = 0) -> LocalClient:
    parts = federations.built(federations.config())
    return federations.local(parts, number, parts.engine.initial_state().clients[number])


def weights(architecture: str) -> Tensors:
    """Weights of their own for a network of that architecture, for the generated images."""
    return of_module(models.build(architecture, federations.DIGIT, 4, torch.Generator()))


def test_class_counts_follow_the_clients_classes_and_add_up_to_its_samples() -> None:
    local = client()
    y = local.batch(local.train).y
    assert local.class_counts().tolist() == [int((y == label).sum()) for label in local.info.classes]
    assert local.class_counts().sum() == local.info.samples


def test_a_second_network_is_a_private_copy() -> None:
    local, sent = client(), weights("tiny_cnn")
    before = federations.bits(sent)
    local.add_network("other", local.federation.architecture("tiny_cnn"), sent)
    assert federations.bits(of_module(local.nets["other"])) == before
    with torch.no_grad():
        local.nets["other"].head.weight.zero_()
    assert federations.bits(sent) == before
    assert local.nets["model"].head.weight.any()


def test_counters_that_did_not_travel_start_at_zero() -> None:
    local, sent = client(), weights("tiny_mlp")
    del sent["norm.num_batches_tracked"]
    local.add_network("other", local.federation.architecture("tiny_mlp"), sent)
    assert local.nets["other"].norm.num_batches_tracked.item() == 0


def test_a_second_network_may_be_of_an_architecture_no_client_holds() -> None:
    parts = federations.built(federations.config(federation={"group": "tiny_cnn"}))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    local.add_network("other", local.federation.architecture("tiny_mlp"), weights("tiny_mlp"))
    assert local.nets["other"](local.batch(local.train).x).shape == (local.info.samples, 4)
    with pytest.raises(ConfigError, match="unknown model 'tiny'"):
        parts.federation.architecture("tiny")
