"""A client at work: its batches and how long it trains, its class counts, and a second network."""

import functools
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator import models
from simulator.base.errors import ConfigError
from simulator.base.nested import merged, with_overrides
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, of_module
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.methods.base import cross_entropy
from simulator.sessions.history import changed_settings
from simulator.studies.search import Request
from simulator.studies.study import StudySpec
from simulator.training.client import LocalClient, batch_sizes, shown_in, steps_in
from simulator.training.phase import Phase
from tests import federations

PHASE = Phase("model", cross_entropy)


def parts_with(**training: Any) -> Built:
    return federations.built(federations.config(training={"batch_size": 8, **training}))


def local(of: Built, client: int = 0, round: int = 1) -> LocalClient:
    return federations.local(of, client, of.engine.initial_state().clients[client], round)


def weights(architecture: str) -> Tensors:
    """Weights of their own for a network of that architecture, for the generated images."""
    return of_module(models.build(architecture, federations.DIGIT, 4, torch.Generator()))


def test_class_counts_follow_the_clients_classes_and_add_up_to_its_samples() -> None:
    found = local(parts_with())
    y = found.batch(found.train).y
    assert found.class_counts().tolist() == [int((y == label).sum()) for label in found.info.classes]
    assert found.class_counts().sum() == found.info.samples


def test_a_second_network_is_a_private_copy_also_of_an_architecture_no_client_holds() -> None:
    """Counters that did not travel start at zero."""
    parts = federations.built(federations.config(federation={"group": "tiny_cnn"}))
    found, sent = local(parts), weights("tiny_mlp")
    del sent["norm.num_batches_tracked"]
    before = federations.bits(sent)
    found.add_network("other", found.federation.architecture("tiny_mlp"), sent)
    other = found.nets.network("other")
    assert federations.bits({name: of_module(other)[name] for name in sent}) == before
    assert other.get_buffer("norm.num_batches_tracked").item() == 0
    assert other(found.batch(found.train).x).shape == (found.info.samples, 4)
    with torch.no_grad():
        other.head.weight.zero_()
    assert federations.bits(sent) == before
    assert found.nets.model.head.weight.any()
    with pytest.raises(ConfigError, match="unknown model 'tiny'"):
        parts.federation.architecture("tiny")


# Batches


@given(st.integers(1, 500), st.integers(1, 70))
def test_batches_cover_all_samples_and_none_is_a_lone_one(samples: int, batch_size: int) -> None:
    sizes = batch_sizes(samples, batch_size)
    assert sum(sizes) == samples
    assert all(size <= batch_size + 1 for size in sizes)
    if samples > 1 and batch_size > 1:
        assert min(sizes) > 1


def test_a_rest_of_one_joins_the_batch_before_it() -> None:
    """Batches of four."""
    for samples, expected in [(3, [3]), (4, [4]), (5, [5]), (6, [4, 2]), (8, [4, 4]), (9, [4, 5]), (1, [1])]:
        assert batch_sizes(samples, 4) == expected


@functools.cache
def parts() -> Built:
    return parts_with()


def order(client: int = 0, round: int = 1, phase: Phase = PHASE) -> list[list[float]]:
    """The images of every batch, each told apart by its sum."""
    batches = local(parts(), client, round).batches(phase)
    return [batch.x.sum((1, 2, 3)).tolist() for batch in batches]


def test_an_epoch_shows_every_training_image_once_with_its_label() -> None:
    data, client = parts().data, parts().data.clients[0]
    x, _ = data.batch(client.train)
    assert sorted(chain(*order())) == sorted(x.sum((1, 2, 3)).tolist())
    label_of = {x.numpy().tobytes(): y for x, y in zip(*data.batch(client.train), strict=True)}
    for batch in local(parts()).batches(PHASE):
        for x, y in zip(*batch, strict=True):
            assert label_of[x.numpy().tobytes()] == y


def test_the_order_is_a_function_of_seed_phase_round_and_client() -> None:
    assert order() == order()
    assert order(round=2) != order(round=1)
    assert order(phase=Phase("adapter", cross_entropy)) != order()


def test_epochs_differ_in_order_and_not_in_content() -> None:
    both = order(phase=Phase("model", cross_entropy, epochs=2))
    first, second = both[: len(both) // 2], both[len(both) // 2 :]
    assert first == order()
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))


def test_images_are_normalized_on_the_clients_training_images() -> None:
    x, _ = parts().data.batch(torch.cat([client.train for client in parts().data.clients]))
    assert x.mean().item() == pytest.approx(0, abs=1e-5)
    assert x.std(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_a_phase_may_train_on_some_of_the_samples() -> None:
    some = parts().data.clients[0].train[:5]
    found, phase = local(parts()), Phase("model", cross_entropy, samples=some, epochs=2)
    assert [len(batch.y) for batch in found.batches(phase)] == [5, 5]
    assert found.steps(phase) == 2


def test_a_length_is_a_number_of_steps() -> None:
    """Of an epoch with ten batches. A fraction has at least one step."""
    for length, steps in [
        ({}, 10),
        ({"epochs": 3}, 30),
        ({"epochs": 0.5}, 5),
        ({"epochs": 0.25}, 3),  # 2.5
        ({"epochs": 0.24}, 2),
        ({"epochs": 0.7}, 7),  # 7.000000000000001 with floating-point numbers
        ({"epochs": 1.5}, 15),
        ({"epochs": 0.01}, 1),
        ({"steps": 4}, 4),
        ({"steps": 25}, 25),
    ]:
        assert steps_in(10, TrainingConfig(**length)) == steps


def test_the_length_of_a_phase_takes_precedence() -> None:
    for training in (TrainingConfig(steps=4), TrainingConfig(epochs=7)):
        assert steps_in(10, training, epochs=2) == 20
        assert steps_in(10, training, steps=3) == 3


@given(st.integers(1, 200), st.integers(1, 40), st.floats(0.01, 4) | st.integers(1, 4))
def test_a_fraction_is_within_half_a_step_of_the_share(samples: int, batch_size: int, epochs: float) -> None:
    batches = len(batch_sizes(samples, batch_size))
    steps = steps_in(batches, TrainingConfig(epochs=epochs, batch_size=batch_size))
    assert steps == 1 or abs(steps - epochs * batches) <= 0.5 + 1e-9
    if isinstance(epochs, int):
        assert steps == epochs * batches


@given(st.integers(1, 100), st.integers(1, 20), st.integers(1, 30))
def test_steps_show_the_samples_of_their_batches(samples: int, batch_size: int, steps: int) -> None:
    sizes = batch_sizes(samples, batch_size)
    expected = sum(sizes[number % len(sizes)] for number in range(steps))
    assert shown_in(samples, TrainingConfig(steps=steps, batch_size=batch_size)) == expected


def test_steps_go_through_the_batches_of_as_many_epochs_as_they_need() -> None:
    """The order is that of whole epochs, which end early."""
    whole, cut = local(parts_with(epochs=3)), local(parts_with(steps=4))
    of_epoch = whole.steps_of_epoch(PHASE)
    assert whole.steps(PHASE) == 3 * of_epoch > 4
    shown = [batch.y.tolist() for batch in whole.batches(PHASE)]
    assert [batch.y.tolist() for batch in cut.batches(PHASE)] == shown[:4]
    assert cut.sizes(PHASE) == [len(batch) for batch in shown[:4]]
    assert (whole.epochs(PHASE), cut.epochs(PHASE)) == (3, 4 / of_epoch)


def test_both_lengths_at_once_are_an_error() -> None:
    for section in ("training", "unseen"):
        raw = {"method": {"name": "standalone"}, section: {"epochs": 2, "steps": 5}}
        with pytest.raises(
            ConfigError, match=r"epochs = 2 and steps = 5 are two lengths of one training; remove"
        ):
            Config.read({**raw, "federation": {"unseen": 0.2}})


def test_epochs_are_a_number_above_zero() -> None:
    for epochs in [0, -1, "many", float("inf")]:
        with pytest.raises(ConfigError, match=r"training\.epochs"):
            Config.read({"method": {"name": "standalone"}, "training": {"epochs": epochs}})


def test_a_later_length_replaces_an_earlier_one() -> None:
    config = federations.config(training={"epochs": 10})
    steps = Config.read(with_overrides(config.to_json(), ["training.steps=5"]))
    assert (steps.training.epochs, steps.training.steps) == (None, 5)
    assert changed_settings(config, None, ["training.steps=5"]) == steps
    for epochs in (
        steps.with_(training__epochs=2),
        Config.read(merged(steps.to_json(), {"training": {"epochs": 2}})),
    ):
        assert (epochs.training.epochs, epochs.training.steps) == (2, None)
    with pytest.raises(ConfigError, match="two lengths"):
        Config.read(with_overrides(config.to_json(), ["training.steps=5", "training.epochs=2"]))


def test_a_run_without_steps_has_the_plain_values_of_before() -> None:
    training = federations.config(training={"epochs": 2.0}).to_json()["training"]
    assert "steps" not in training
    assert repr(training["epochs"]) == "2"


def test_a_class_that_no_step_showed_has_its_mean_after_training() -> None:
    """One step of two images shows at most two classes."""
    for name in ["fedproto", "fd"]:
        built = federations.built(federations.config(name, training={"steps": 1, "batch_size": 2}))
        hooks_state = built.engine.initial_state()
        for client in built.federation.clients:
            payload = built.method.downlink(1, hooks_state.server, client)
            update = federations.updated(built, client.id, hooks_state.clients[client.id], payload)
            assert update.diverged is None
            assert update.uplink["labels"].tolist() == list(client.classes)


def test_a_study_can_have_steps_as_an_axis_over_epochs() -> None:
    study = StudySpec(config={"method": {"name": "fedavg"}, "training": {"epochs": 10}})
    assert study.settings_of({"training.steps": 5})["training"] == {"steps": 5}
    study = StudySpec(config={"method": {"name": "fedavg"}, "training": {"steps": 10}})
    assert study.settings_of({"training.epochs": 0.5})["training"] == {"epochs": 0.5}


def test_tuning_searches_one_length() -> None:
    for base, ranges, searched in [
        ({}, (), ["training.epochs"]),
        ({"training": {"steps": 5}}, (), []),
        ({}, ("training.steps=5,10",), ["training.steps"]),
        ({"training": {"steps": 5}}, ("training.epochs=0.5,1",), ["training.epochs"]),
    ]:
        space = Request(base, ("fedavg",), 10, ranges=ranges).space("fedavg")
        assert [key for key in space if key in ("training.epochs", "training.steps")] == searched
