"""Confusion matrices of kept checkpoints: which classes a client's model answers for which."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import htfl_sim as hs
from checkpoints import SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.data.samples import ArraySet
from simulator.data.specs import TableSpec
from simulator.results.analysis.classes import ClassCounts, Confusion, class_counts
from simulator.results.inspection import models
from simulator.results.inspection.models import ClientModel
from simulator.sessions.session import Session
from tests import federations
from tests.metrics.test_looking import divided
from tests.metrics.test_representations import session
from tests.test_timeline import LEAVES, PERMUTED
from tests.test_timeline import config as with_timeline


class Known:
    """A method whose answer to a sample is the sample's first value."""

    def predict(self, local: Any, x: torch.Tensor) -> torch.Tensor:
        return F.one_hot(x[:, 0].long(), 3).float()


def answering(labels: list[int], answers: list[int], batch_size: int) -> ClientModel:
    """A client with these test samples, whose model gives these answers."""
    values = np.array([[each] for each in answers], np.float32)
    data = divided(ArraySet.of(TableSpec(1), (values, np.array(labels)), classes=("a", "b", "c")), [0])
    held = replace(data.clients[0], test=torch.arange(len(labels)))
    cpu: Any = SimpleNamespace(
        num_classes=3, device=torch.device("cpu"), training=SimpleNamespace(precision="float32")
    )
    info: Any = SimpleNamespace(id=0)
    some: Any = None
    return ClientModel(
        1, info, some, {}, None, replace(data, clients=(held,)), cpu, some, Known(), batch_size
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 2, 1024])
def test_a_row_is_a_true_class_and_a_column_an_answer(batch_size: int) -> None:
    model = answering(labels=[0, 0, 1, 2, 2], answers=[0, 1, 1, 0, 0], batch_size=batch_size)
    assert model.confusion().tolist() == [[1, 1, 0], [0, 1, 0], [2, 0, 0]]


def test_sums_of_rows_columns_and_the_diagonal_are_the_counts_by_class() -> None:
    found = Confusion(0, 1, ("a", "b", "c", "d"), ((1, 1, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0), (0, 0, 0, 0)))
    assert found.by_class() == {
        0: ClassCounts(samples=2, correct=1, answered=3),
        1: ClassCounts(samples=1, correct=1, answered=2),
        2: ClassCounts(samples=2, correct=0, answered=0),
    }
    assert (found.samples, found.correct) == (5, 2)


def test_plain_values_give_the_same_matrix_back() -> None:
    found = Confusion(1, 2, ("a", "b"), ((3, 0), (1, 2)), True)
    assert Confusion.from_json(found.to_json()) == found


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that evaluates aggregated models."""
    return session(tmp_path_factory.mktemp("avg") / "s", "fedavg", ["tiny_cnn"])


@pytest.fixture(scope="module")
def fedproto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that predicts with prototypes."""
    return session(tmp_path_factory.mktemp("proto") / "s", "fedproto")


def assert_as_recorded(folder: Path, round: int) -> None:
    records = hs.sessions.records(folder)[:round]
    for client in range(len(records[-1]["accuracy"]["per_client"])):
        found = hs.sessions.confusion(folder, client, round, data_dir=folder.parent / "data")
        assert found.by_class() == class_counts(records, client)
        assert found.as_recorded is True
        assert found.correct / found.samples == records[-1]["accuracy"]["per_client"][client]


@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_the_sums_are_the_counts_of_the_ledger_in_every_kept_round(
    method: str, request: pytest.FixtureRequest
) -> None:
    for round in (1, 2):
        assert_as_recorded(request.getfixturevalue(method), round)


def test_only_the_model_of_the_client_is_loaded(fedproto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = models.CheckedReader.load

    def note(self: Any, round: int, name: str, *more: Any) -> Any:
        loaded.append(name)
        return load(self, round, name, *more)

    monkeypatch.setattr(models.CheckedReader, "load", note)
    hs.sessions.confusion(fedproto, 3, data_dir=fedproto.parent / "data")
    assert [name for name in loaded if name.startswith("client/")] == ["client/3"]


@pytest.mark.long
def test_the_samples_are_those_that_the_timeline_has_made(tmp_path: Path) -> None:
    """In round 3, labels of clients 0 and 2 are permuted, and client 1 is away."""
    with federations.on_images(federations.generated()):
        given = with_timeline(LEAVES, PERMUTED, rounds=3, checkpoint={"keep_last": 9})
        with Session.create(given, tmp_path / "s", tmp_path) as made:
            made.run()
        records = hs.sessions.records(tmp_path / "s")
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
