"""What is refused before round 1."""

from typing import Any

import pytest

from simulator.base.errors import ConfigError
from simulator.base.system_section import SystemConfig
from simulator.clock.availability import availability
from simulator.engine.timing import facts
from tests import federations


def test_batchnorm_with_batches_of_one_is_refused_with_what_to_set() -> None:
    """tiny_cnn has no BatchNorm, tiny_mlp has. Of eight images of four clients, one or two are left to train on."""
    one: dict[str, Any] = {"training": {"batch_size": 1}}
    few = {"limit": 8, "partition": "iid", "quantity": "equal", "split": "1:1"}
    beside = r"client 0 \(tiny_cnn\) .* BatchNorm of tiny_mlp, which it trains beside"
    cases: list[tuple[dict[str, Any], str]] = [
        (one, r"client 1 \(tiny_mlp\) would train on a batch of one sample.*batch_size"),
        (
            {"data": few, "federation": {"group": "tiny_mlp"}},
            "would train on a batch of one sample.*Use fewer cl",
        ),
        (
            {"models": {"stem": "imagenet"}},
            r"models\.stem = 'imagenet' changes nothing here: tiny_cnn, tiny_mlp",
        ),
    ]
    for option, methods in (
        ("meme", ("fml", "fedapen", "fedkd")),
        ("small", ("fedmrl", "pfedmoe", "pfedafm")),
    ):
        for name in methods:
            method = {"name": name, option: "tiny_mlp"}
            cases.append(({**one, "federation": {"group": "tiny_cnn"}, "method": method}, beside))
    for sections, words in cases:
        classes = {"classes": 1} if "data" in sections else {}
        with pytest.raises(ConfigError, match=words):
            federations.built(federations.config(**sections), federations.generated(**classes))


def test_models_without_batchnorm_or_with_several_values_per_channel_train_on_one_image_at_a_time() -> None:
    """A convolution's output has a value for every pixel."""
    for group in ("tiny_cnn", "tiny_resnet6"):
        sections = {"training": {"batch_size": 1}, "federation": {"group": group}, "data": {"limit": 40}}
        parts = federations.built(federations.config(**sections))
        assert federations.run(parts.engine, 1).record["diverged"] == []


def test_a_client_has_the_weights_the_samples_and_the_memory_of_its_model() -> None:
    """64·12 + 12, BatchNorm 2·12, 12·8 + 8, and 8·4 + 4 are 944 weights, with four float32 each."""
    federation = federations.federation(["tiny_mlp"] * 2, [3, 5], num_classes=4, shape=federations.DIGIT)
    found = facts(federation, availability(SystemConfig(devices=["phone"]), 2, 0))
    assert [(each.id, each.architecture, each.train_size) for each in found] == [
        (0, "tiny_mlp", 3),
        (1, "tiny_mlp", 5),
    ]
    assert {(each.parameters, each.memory) for each in found} == {(944, 944 * 16)}
