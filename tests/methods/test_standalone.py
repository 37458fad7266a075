"""Standalone sends nothing, and its local training is plain SGD on the cross-entropy."""

import torch
from torch.nn import functional as F

from simulator import models
from simulator.base.tensors import part
from simulator.engine.progress import unobserved
from tests import federations


def test_nothing_travels() -> None:
    record = federations.run(federations.built(federations.config("standalone")).engine, 1).record
    assert record["bytes"]["up"] == record["bytes"]["down"] == 0
    assert record["bytes"]["by_tensor"] == {}


def test_a_round_is_one_epoch_of_sgd() -> None:
    """One batch holds all of a client's data, so a round is w − η ∇ℓ(w), computed here without the runner."""
    config = federations.config("standalone", training={"batch_size": 1000, "lr": 0.5})
    parts = federations.built(config)
    start = parts.engine.initial_state()
    end = parts.engine.round(start, unobserved)
    client = end.record["participants"][0]
    info = parts.federation.clients[client]
    assert info.architecture == "tiny_cnn"  # which has no dropout

    model = models.build("tiny_cnn", parts.federation.spec, parts.data.num_classes, torch.Generator())
    model.load_state_dict(part(start.clients[client], "model"))
    x, y = parts.data.batch(parts.data.clients[client].train)
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.5 * parameter.grad
    for name, tensor in part(end.clients[client], "model").items():
        torch.testing.assert_close(tensor, model.state_dict()[name])
