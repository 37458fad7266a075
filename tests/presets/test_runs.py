"""Every preset's method, models and samples go together: federations are built, and rounds run, on generated data."""

import math
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import presets
from htfl_sim.choices import QUICKSTARTS
from simulator import models
from simulator.base import rng
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets, inputs
from simulator.data.samples import ArraySet, Images, ImageSet, Labels, SampleSet, joined
from simulator.data.specs import ImageSpec
from simulator.engine.builder import build
from tests.federations import built, run

CLASSES = 4
SAMPLES = 8  # per client, at the least: the largest models need seconds for a batch

LIGHT = {
    "feddf": {"server_steps": 1, "server_batch": 4},
    "fedgh": {"eta_theta": 1e-4},
    "fedmd": {"public_epochs": 1, "private_epochs": 1, "public_batch": 4, "digest_batch": 4},
}
"""Settings of methods for noise: few steps where a round has hundreds, and a low rate where the first features of noise
are too large for the preset's.
"""

Group = str | tuple[str, ...]


def group_of(config: Config) -> Group:
    return config.federation.group


def shape(config: Config) -> tuple[int, ...]:
    """The shape of what the models of this configuration see."""
    spec = datasets.get(config.data.dataset).spec
    if not isinstance(spec, ImageSpec):
        return spec.shape
    side = config.data.size
    return 3 if config.data.rgb else spec.channels, side or spec.height, side or spec.width


def firsts(keys: Iterable[str]) -> list[str]:
    """The first preset with each combination of what `keys` name: the others differ in numbers alone."""
    found: dict[tuple[str, ...], str] = {}
    for preset in presets.all():
        data, method = preset.config["data"], preset.config["method"]
        facts = {
            "method": str({key: value for key, value in method.items() if not isinstance(value, float)}),
            "group": str(preset.config["federation"]["group"]),
            "shape": str([datasets.get(data["dataset"]).spec.shape, data.get("size"), data.get("rgb")]),
        }
        found.setdefault(tuple(facts[key] for key in keys), preset.name)
    return list(found.values())


def small(name: str, group: Group, clients: int) -> Config:
    """The preset on so many clients, all of whom take part in its one round, without weights from elsewhere."""
    config = presets.load(name).config
    config["federation"].pop("pretrained", None)
    if not any(models.registry.get(each).stems for each in models.members(group)):
        config.get("models", {}).pop("stem", None)  # it is for others of the group
    patch = {
        "method": LIGHT.get(config["method"]["name"], {}),
        "rounds": 1,
        "federation": {"clients": clients, "participation": 1.0, "group": group},
        "training": {"epochs": 1, "batch_size": 4, "lr": 1e-4},
        "data": {"classes_per_client": 2, "min_samples": SAMPLES},
        "runtime": {"workers": 1, "device": "cpu"},
    }
    return Config.read(merged(config, patch))


def images_for(config: Config) -> ImageSet:
    """Images in the data set's stored shape, enough of them for every client, and as few as that allows."""
    channels, height, width = datasets.get(config.data.dataset).spec.shape
    per_class = math.ceil(config.federation.clients * SAMPLES / CLASSES) + 3
    form = (height, width, channels)
    names = tuple(f"class {label}" for label in range(CLASSES))
    return joined(noise(per_class * CLASSES, form), noise(2 * CLASSES, form), names)


def noise(count: int, shape: tuple[int, ...]) -> tuple[Images, Labels]:
    """Nothing to learn: images of random bytes with the classes in turn."""
    draw = rng.numpy_stream(0, "tests/images")
    return draw.integers(0, 256, (count, *shape), dtype=np.uint8), np.arange(count) % CLASSES


@pytest.mark.long
@pytest.mark.parametrize("name", firsts(["group", "shape"]))
def test_every_group_is_dealt_out_to_clients_and_fits_the_samples(name: str) -> None:
    group = group_of(Config.read(presets.load(name).config))
    members = models.members(group)
    config = small(name, group, len(members))
    parts = built(config, samples_for(config))
    assert [client.architecture for client in parts.federation.clients] == list(members)
    assert parts.federation.spec.shape == shape(config)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "quickstart_table" else pytest.mark.long)
        for name in QUICKSTARTS.values()
    ],
)
def test_a_quickstart_trains_the_kind_of_samples_that_it_is_for(name: str) -> None:
    raw = presets.load(name).config
    dataset = datasets.get(raw["data"]["dataset"])
    assert QUICKSTARTS[dataset.spec.kind] == name
    small = {"rounds": 1, "training": {"epochs": 1, "batch_size": 4}, "data": {"min_samples": SAMPLES}}
    config = Config.read(merged(raw, small))
    with mock.patch.object(datasets, "load", side_effect=lambda *_, **__: samples_for(config)):
        record = run(build(config, Path()).engine, 1).record
    assert record is not None and record["diverged"] == []
    assert record["participants"] == list(range(config.federation.clients))


def samples_for(config: Config) -> SampleSet:
    """Random samples of the data set's form, from one user per client."""
    dataset = datasets.get(config.data.dataset)
    if dataset.spec.kind == "image":
        return images_for(config)
    count = 2 * SAMPLES * config.federation.clients
    draw = inputs.random(dataset.spec, count, rng.torch_stream(0, "tests/samples")).numpy()
    users = [f"user {number % config.federation.clients}" for number in range(count)]
    labels = np.arange(count) // config.federation.clients % CLASSES
    return ArraySet.of(dataset.spec, (draw, labels)).of_users(users)


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts(["method", "group", "shape"]))
def test_a_round_of_two_clients_leaves_both_sound(name: str) -> None:
    members = models.members(group_of(Config.read(presets.load(name).config)))
    config = small(name, (members[0], members[-1]), 2)  # the smallest and the largest of most groups
    record = run(built(config, samples_for(config)).engine, 1).record
    assert record is not None
    assert record["participants"] == [0, 1]
    assert record["diverged"] == []
    assert all(math.isfinite(loss) for loss in record["loss"]["per_client"])
    assert None not in record["accuracy"]["per_client"]


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts(["method", "group"]))
def test_every_method_takes_the_whole_group(name: str) -> None:
    group = group_of(Config.read(presets.load(name).config))
    config = small(name, group, len(models.members(group)))
    assert built(config, samples_for(config)).method.unmet_need() is None
