"""Representations of a kept checkpoint: what the clients' own heads read, and what the server holds of each class."""

from pathlib import Path

import numpy as np
import pytest
import torch

import simulator
from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.config import Config
from simulator.results.inspection import checkpoint
from simulator.results.inspection.checkpoint import _guides_logits, representations
from simulator.results.inspection.client_samples import Embedding
from simulator.sessions.reader import CheckedReader


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


@pytest.mark.long
def test_logits_have_a_common_plane_where_features_differ_in_width(tmp_path: Path) -> None:
    folder = session(tmp_path / "l", "fedl2g_l", ["tiny_mlp", "cnn5"])
    found = representations(folder, tmp_path / "data", images=2)
    assert found.points.shape == (8, 10) and len(found.anchors) == 10


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


def test_of_very_many_clients_some_that_took_part_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
