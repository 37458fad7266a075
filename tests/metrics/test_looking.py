"""Samples of a client, small enough to look at: as text, rows of numbers, or means."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import htfl_sim as hs
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.data.federated import ClientData, FederatedData
from simulator.data.inputs import inputs_of
from simulator.data.samples import ArraySet, ImageSet, SampleSet
from simulator.data.specs import InputSpec, SignalSpec, TableSpec, TokenSpec
from simulator.data.text_sets import CHARACTERS, as_samples
from simulator.results.inspection.client_samples import (
    ClassSample,
    FeatureMean,
    as_text,
    from_bytes,
    to_bytes,
)
from simulator.results.inspection.partition import samples_of_data
from tests import federations
from tests.metrics.test_representations import session


@given(st.text(alphabet=CHARACTERS, max_size=80))
def test_a_text_of_plays_is_read_as_it_was_written(text: str) -> None:
    tokens = [1 + CHARACTERS.index(each) for each in text]
    assert as_text(tokens, ("", *CHARACTERS)).replace("⏎", "\n") == text


def test_the_words_of_a_text_data_set_are_those_of_its_vocabulary() -> None:
    texts = as_samples((["A good film.", "a bad film"], [1, 0]), (["a great film"], [1]), ("neg", "pos"))
    samples = federations.formed(texts)
    # By frequency, then alphabet: a and film stand twice.
    assert samples.names == ("", "<?>", "a", "film", ".", "bad", "good")
    assert as_text(samples.values[2].tolist(), samples.names) == "a <?> film"


def divided(samples: SampleSet, *train: list[int]) -> FederatedData:
    """Data whose clients train on the samples at these indices."""
    clients = []
    for own in train:
        held, counts = np.unique(samples.labels[own], return_counts=True)
        empty = torch.tensor([], dtype=torch.int64)
        clients.append(
            ClientData(torch.tensor(own), empty, empty, tuple(held.tolist()), tuple(counts.tolist()))
        )
    inputs = inputs_of(samples, DataConfig(), [np.array(own) for own in train])
    labels = torch.from_numpy(samples.labels)
    return FederatedData(inputs, labels, samples.classes, tuple(clients), "", names=samples.names)


def arrays(values: list[object], labels: list[int], spec: InputSpec) -> ArraySet:
    return ArraySet.of(spec, (np.array(values), np.array(labels)), classes=("no", "yes"))


def test_the_largest_class_comes_first_with_the_first_training_sample() -> None:
    samples = arrays([[1, 2, 0], [2, 2, 2], [1, 0, 0], [2, 0, 0]], [0, 1, 1, 0], TokenSpec(3, 3))
    [found] = samples_of_data(divided(samples.named(["", "a", "b"]), [3, 2, 1]), [0])
    assert found.classes == (ClassSample(1, "yes", 2, "a"), ClassSample(0, "no", 1, "b"))


def test_a_long_signal_is_averaged_and_its_channels_keep_their_names() -> None:
    ramp = np.arange(128.0)  # neighbors in pairs: (0 + 1) / 2, (2 + 3) / 2, …
    samples = arrays([[ramp, -ramp]], [1], SignalSpec(2, 128))
    [found] = samples_of_data(divided(samples.named(["x", "y"]), [0]), [0])
    assert found.channels == ("x", "y")
    first, second = found.classes[0].values
    assert first == tuple(2 * step + 0.5 for step in range(64)) and second[:2] == (-0.5, -2.5)
    assert samples_of_data(divided(samples, [0]), [0])[0].channels == ("0", "1")


def test_a_large_image_is_a_small_one_of_brightness() -> None:
    pixels = np.zeros((1, 32, 64, 3), np.uint8)
    pixels[:, :, 32:] = 255
    images = ImageSet(
        pixels, (0.5,) * 3, (1.0,) * 3, labels=np.zeros(1, np.int64), classes=("only",), test_from=1
    )
    [found] = samples_of_data(divided(images, [0]), [0])
    assert found.classes[0].values == ((0.0,) * 8 + (1.0,) * 8,) * 8


def test_features_that_differ_most_from_all_clients_come_first() -> None:
    rows: list[object] = [[0, 1, 5], [0, 1, 5], [0, 3, 5], [4, 3, 5]]
    samples = arrays(rows, [0, 0, 1, 1], TableSpec(3)).named(["age", "dose", "same"])
    [_, found] = samples_of_data(divided(samples, [0, 1], [2, 3]), [0, 1])
    # dose: 3 against 2, deviation 1. age: 2 against 1, deviation √3 = √((1 + 1 + 1 + 9) / 4).
    assert found.features == (
        FeatureMean("dose", 3.0, 2.0, 1.0),
        FeatureMean("age", 2.0, 1.0, pytest.approx(1 / 3**0.5)),
        FeatureMean("same", 5.0, 5.0, 0.0),
    )


def test_samples_pass_from_process_to_process_as_they_are(tmp_path: Path) -> None:
    folder = session(tmp_path / "s", "standalone")
    every = hs.sessions.samples_of_clients(folder, data_dir=tmp_path)
    assert [each.client for each in every] == [0, 1, 2, 3]
    assert from_bytes(to_bytes(every)) == every
    one = hs.sessions.samples(folder, client=3, data_dir=tmp_path)
    assert one == every[3] and one.kind == "image"
    counts = hs.sessions.partition(folder, data_dir=tmp_path).counts["train"][3]
    assert {each.label: each.count for each in one.classes} == {
        label: count for label, count in enumerate(counts) if count
    }
    with pytest.raises(ConfigError, match="has no client 4"):
        hs.sessions.samples(folder, client=4, data_dir=tmp_path)
