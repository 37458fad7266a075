"""What kept checkpoints and data show: representations, confusion matrices, and samples to look at."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import htfl_sim as hs
import simulator
from checkpoints import SessionReader, SessionUnreadable
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.config import Config
from simulator.data.array_sets import CHARACTERS, as_samples
from simulator.data.federated import ClientData, FederatedData
from simulator.data.inputs import inputs_of
from simulator.data.samples import ArraySet, ImageSet, SampleSet
from simulator.data.specs import InputSpec, SignalSpec, TableSpec, TokenSpec
from simulator.results.analysis.classes import ClassCounts, Confusion, class_counts
from simulator.results.inspection import checkpoint
from simulator.results.inspection.checkpoint import ClientModel, _guides_logits, representations
from simulator.results.inspection.client_samples import (
    ClassSample,
    ClientSamples,
    Embedding,
    FeatureMean,
    as_text,
    from_bytes,
    to_bytes,
)
from simulator.results.inspection.partition import samples_of_data
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.test_timeline import LEAVES, PERMUTED
from tests.test_timeline import config as with_timeline

# Representations of a kept checkpoint: what the clients' own heads read, and what the server holds of each class.


def session(
    folder: Path,
    method: str,
    group: str | list[str] = "tiny",
    *,
    participation: float = 1.0,
    seed: int = 0,
    cka_every: int = 0,
    **more: object,
) -> Path:
    raw = {
        "rounds": 2,
        "method": {"name": method, **more},
        "data": {"dataset": "digits", "limit": 200, "partition": "iid"},
        "federation": {"clients": 4, "group": group, "participation": participation},
        "seed": seed,
        "cka": {"every": cka_every},
        "runtime": {"device": "cpu", "workers": 1},
    }
    with simulator.Session.create(Config.read(raw), folder, folder.parent / "data") as made:
        made.run()
    return folder


@pytest.fixture(scope="module")
def fedproto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session(tmp_path_factory.mktemp("proto") / "s", "fedproto")


def test_what_the_head_makes_of_the_features_is_the_recorded_accuracy(tmp_path: Path) -> None:
    folder = session(tmp_path / "s", "standalone")
    found = representations(folder, tmp_path / "data", images=1000)
    reader = CheckedReader(folder)
    recorded = reader.records()[-1]["accuracy"]["per_client"]
    assert found.round == 2
    for client, accuracy in enumerate(recorded):
        model = part(reader.load(2, f"client/{client}"), "model")
        own = found.clients == client
        scores = found.points[own] @ model["head.weight"].numpy().T + model["head.bias"].numpy()
        assert np.mean(scores.argmax(1) == found.labels[own]) == pytest.approx(accuracy)


def test_prototypes_come_with_the_classes_somebody_has_sent(fedproto: Path) -> None:
    found = representations(fedproto, fedproto.parent / "data", images=3)
    server = CheckedReader(fedproto).load(2, "server")
    known = server["prototypes/known"] > 0
    assert found.anchor_kind == "prototype"
    assert found.anchor_labels.tolist() == torch.arange(10)[known].tolist()
    assert np.array_equal(found.anchors, server["prototypes/mean"][known].numpy())
    assert np.bincount(found.clients).tolist() == [3, 3, 3, 3]


@pytest.mark.long
def test_guiding_vectors_are_drawn_among_what_they_guide(tmp_path: Path) -> None:
    """FedL2G-f's are features. FedL2G-l's are logits, and its Figure 4a has "feature vectors" of both."""
    features = representations(session(tmp_path / "f", "fedl2g_f"), tmp_path / "data", images=2)
    assert (features.anchor_kind, len(features.anchors)) == ("guiding vector", 10)
    folder = session(tmp_path / "l", "fedl2g_l")
    logits = representations(folder, tmp_path / "data", images=1000)
    reader = CheckedReader(folder)
    assert logits.anchor_kind == "guiding vector (points are logits)"
    assert np.array_equal(logits.anchors, reader.load(2, "server")["vectors"].numpy())
    for client, accuracy in enumerate(reader.records()[-1]["accuracy"]["per_client"]):
        own = logits.clients == client
        assert np.mean(logits.points[own].argmax(1) == logits.labels[own]) == pytest.approx(accuracy)


def test_in_features_as_wide_as_logits_the_method_says_what_is_guided() -> None:
    for method, width, logits in [
        ("fedl2g_l", 10, True),
        ("fedl2g_f", 10, False),
        ("mine", 10, False),
        ("mine", 32, True),
    ]:
        server = {"vectors": torch.zeros(10, 10)}
        assert _guides_logits(server, method, {width}, 10) is logits


def test_features_of_different_width_have_no_common_plane(tmp_path: Path) -> None:
    folder = session(tmp_path / "s", "standalone", ["tiny_mlp", "cnn5"])
    with pytest.raises(ConfigError, match="differ in width"):
        representations(folder, tmp_path / "data")


def test_of_very_many_clients_some_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four clients have been trained, and two are as many as are drawn."""
    folder = session(tmp_path / "s", "standalone", participation=0.5)
    trained = {client for record in CheckedReader(folder).records() for client in record["participants"]}
    assert len(trained) == 3
    monkeypatch.setattr(checkpoint, "MANY", 3)
    monkeypatch.setattr(checkpoint, "SAMPLED", 2)
    found = representations(folder, tmp_path / "data", images=3)
    assert len(set(found.clients.tolist())) == 2 and set(found.clients.tolist()) <= trained


def test_an_embedding_passes_from_process_to_process_as_it_is(fedproto: Path) -> None:
    sent = representations(fedproto, fedproto.parent / "data", 2, images=3).in_the_plane()
    received = Embedding.from_bytes(sent.to_bytes())
    assert received.points.shape == (12, 2) and np.array_equal(received.points, sent.points)
    assert np.array_equal(received.anchors, sent.anchors) and len(sent.anchors) == len(sent.anchor_labels)
    assert (received.round, received.anchor_kind) == (2, "prototype")
    assert received.classes == sent.classes == tuple(str(label) for label in range(10))
    assert received.clients.tolist() == [client for client in range(4) for _ in range(3)]


# Confusion matrices of kept checkpoints: which classes a client's model answers for which.


class Known:
    """A method whose answer to a sample is the sample's first value."""

    def predict(self, local: Any, x: torch.Tensor) -> torch.Tensor:
        return F.one_hot(x[:, 0].long(), 3).float()


def answering(labels: list[int], answers: list[int], batch_size: int) -> ClientModel:
    """A client with these test samples, whose model gives these answers."""
    values = np.array([[each] for each in answers], np.float32)
    data = divided(ArraySet.of(TableSpec(1), (values, np.array(labels)), classes=("a", "b", "c")), [0])
    held = replace(data.clients[0], test=torch.arange(len(labels)))
    training = SimpleNamespace(precision="float32")
    cpu: Any = SimpleNamespace(num_classes=3, device=torch.device("cpu"), training=training)
    info: Any = SimpleNamespace(id=0)
    some: Any = None
    data = replace(data, clients=(held,))
    return ClientModel(1, info, some, {}, None, data, cpu, some, Known(), batch_size)  # type: ignore[arg-type]


def test_a_row_is_a_true_class_and_a_column_an_answer() -> None:
    for batch_size in (1, 2, 1024):
        model = answering(labels=[0, 0, 1, 2, 2], answers=[0, 1, 1, 0, 0], batch_size=batch_size)
        assert model.confusion().tolist() == [[1, 1, 0], [0, 1, 0], [2, 0, 0]]


def test_sums_of_rows_columns_and_the_diagonal_are_the_counts_by_class() -> None:
    """Plain values give the same matrix back."""
    found = Confusion(0, 1, tuple("abcd"), ((1, 1, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0), (0, 0, 0, 0)), True)
    assert found.by_class() == {
        0: ClassCounts(samples=2, correct=1, answered=3),
        1: ClassCounts(samples=1, correct=1, answered=2),
        2: ClassCounts(samples=2, correct=0, answered=0),
    }
    assert (found.samples, found.correct) == (5, 2)
    assert Confusion.from_json(found.to_json()) == found


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that evaluates aggregated models."""
    return session(tmp_path_factory.mktemp("avg") / "s", "fedavg", ["tiny_cnn"])


def assert_as_recorded(folder: Path, round: int) -> None:
    records = SessionReader(folder).records()[:round]
    for client in range(len(records[-1]["accuracy"]["per_client"])):
        found = hs.sessions.confusion(folder, client, round, data_dir=folder.parent / "data")
        assert found.by_class() == class_counts(records, client)
        assert found.as_recorded is True
        assert found.correct / found.samples == records[-1]["accuracy"]["per_client"][client]


@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_the_sums_are_the_counts_of_the_ledger(method: str, request: pytest.FixtureRequest) -> None:
    for round in (1, 2):
        assert_as_recorded(request.getfixturevalue(method), round)


def test_only_the_model_of_the_client_is_loaded(fedproto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = CheckedReader.load

    def note(self: Any, round: int, name: str, *more: Any) -> Any:
        loaded.append(name)
        return load(self, round, name, *more)

    monkeypatch.setattr(CheckedReader, "load", note)
    hs.sessions.confusion(fedproto, 3, data_dir=fedproto.parent / "data")
    assert [name for name in loaded if name.startswith("client/")] == ["client/3"]


@pytest.mark.long
def test_the_samples_are_those_that_the_timeline_has_made(tmp_path: Path) -> None:
    """In round 3, labels of clients 0 and 2 are permuted, and client 1 is away."""
    with federations.on_images(federations.generated()):
        given = with_timeline(LEAVES, PERMUTED, rounds=3, checkpoint={"keep_last": 9})
        with Session.create(given, tmp_path / "s", tmp_path) as made:
            made.run()
        records = SessionReader(tmp_path / "s").records()
        for round in (2, 3):
            for client in (0, 2):
                found = hs.sessions.confusion(tmp_path / "s", client, round, data_dir=tmp_path)
                assert found.by_class() == class_counts(records[:round], client)


def test_a_round_without_a_checkpoint_and_an_unknown_client_are_refused(fedproto: Path) -> None:
    data = fedproto.parent / "data"
    with pytest.raises(SessionUnreadable, match="no checkpoint of round 7; kept: 1, 2"):
        hs.sessions.confusion(fedproto, 0, 7, data_dir=data)
    with pytest.raises(ConfigError, match="has no client 4; it has clients 0 to 3"):
        hs.sessions.confusion(fedproto, 4, data_dir=data)


# Samples of a client, small enough to look at: as text, rows of numbers, or means.


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
        clients.append(ClientData(torch.tensor(own), empty, empty, (*held.tolist(),), (*counts.tolist(),)))
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
    images = ImageSet(pixels, (0.5,) * 3, (1.0,) * 3, labels=np.zeros(1, int), classes=("only",), test_from=1)
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
    found = {each.label: each.count for each in one.classes}
    assert found == {label: count for label, count in enumerate(counts) if count}
    with pytest.raises(ConfigError, match="has no client 4"):
        hs.sessions.samples(folder, client=4, data_dir=tmp_path)


def test_samples_pass_with_names_of_folders_that_are_no_utf_8_and_with_values_that_are_not_finite() -> None:
    of_class = ClassSample(0, "caf\udce9", 1, values=((math.inf, -math.inf),))
    [received] = from_bytes(to_bytes([ClientSamples(0, "image", (of_class,))]))
    assert received.classes == (of_class,)
    mean = FeatureMean("x", math.nan, 1.0, 0.0)
    [of_nan] = from_bytes(to_bytes([ClientSamples(0, "table", (), (), (mean,))]))
    assert math.isnan(of_nan.features[0].mean)
