"""pFedES: both losses, the extractor, and traffic by hand; two whole rounds against a reference."""

from typing import Any

import pytest
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, part
from simulator.data.specs import TokenSpec
from simulator.methods.pfedes import PFedES
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, logits


def method(shape: Any = federations.DIGIT, **options: Any) -> PFedES:
    return sharing.of("pfedes", federations.federation(["tiny_cnn"], shape=shape), **options)


def test_other_samples_than_images_are_refused() -> None:
    pfedes = PFedES(
        federations.config("pfedes").method,
        federations.federation(["tiny_fasttext"], shape=TokenSpec(4, 5)),
    )
    with pytest.raises(ConfigError, match=r"needs images \(its extractor makes images of images\).*tokens"):
        pfedes.check()


def test_the_extractor_is_trained_after_the_model_for_epochs_of_its_own() -> None:
    for options, epochs in [({}, None), ({"extractor_epochs": 3}, 3)]:
        parts = federations.built(federations.config("pfedes", method=options))
        local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
        parts.method.receive(local, parts.method.init_server())
        found = [(phase.name, phase.trains, phase.epochs) for phase in parts.method.phases(local)]
        assert found == [("model", ("model",), None), ("extractor", ("extractor",), epochs)]


def made(w: Tensors, x: Tensor) -> Tensor:
    """The extractor's images."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=1).relu()
    return F.conv2d(h, w["conv2.weight"], w["conv2.bias"], padding=1).relu()


def test_two_whole_rounds_equal_the_reference() -> None:
    lr, mu = 0.1, 0.3
    config = federations.config(
        "pfedes",
        method={"mu": mu, "channels": 3, "extractor_epochs": 3},
        federation={"clients": 3, "participation": 1.0, "group": ["tiny_cnn", "tiny_cnn_w2"]},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, shared = ran.of_clients("model"), part(ran.server, "extractor")
    for t in (1, 2):
        extractors = [reference.leaves(shared) for _ in models]
        for client, (own, extractor) in enumerate(zip(models, extractors, strict=True)):
            for x, y in ran.batches("model", t, client):
                ((1 - mu) * ce(logits(own, x), y) + mu * ce(logits(own, made(shared, x)), y)).backward()
                reference.step(list(own.values()), lr)
            for x, y in ran.batches("extractor", t, client, epochs=3):
                ce(logits(own, made(extractor, x)), y).backward()
                reference.step(list(extractor.values()), lr)
                reference.step(list(own.values()), 0.0)  # forgets its gradients
        shared = ran.mean(extractors)
    ran.assert_ended({"extractor": shared}, {"model": models})
