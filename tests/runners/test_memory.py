"""Out of memory on the device: said with client, model, batch size and what helps; and the session goes on."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import checkpoints
from simulator.base.errors import NotEnoughMemory
from simulator.base.sections import MethodConfig
from simulator.methods import registry
from simulator.methods.base import cross_entropy
from simulator.methods.fedavg import FedAvg
from simulator.sessions.session import Session
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase
from tests import federations
from tui.common.errors import explain

WORDS = "CUDA out of memory. Tried to allocate 2.00 GiB."
Patch = pytest.MonkeyPatch


class Hungry(FedAvg):
    """FedAvg on a device that has room for batches of `room` images, and for as many answers."""

    name = "hungry"
    Config = MethodConfig
    room = 1_000
    in_round = 2

    def phases(self, local: LocalClient) -> list[Phase]:
        return [Phase("model", self.loss if local.round == self.in_round else cross_entropy)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        self.need(len(batch.y))
        return cross_entropy(nets, state, batch, draws)

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        self.need(len(x))
        return super().predict(nets, state, x)

    def need(self, images: int) -> None:
        if images > self.room:
            raise torch.OutOfMemoryError(WORDS)


@pytest.fixture(autouse=True)
def _hungry(monkeypatch: Patch) -> Iterator[None]:
    monkeypatch.setitem(registry._METHODS, "hungry", Hungry)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")
    with federations.on_images(federations.generated()):
        yield


def a_session(folder: Path, **sections: Any) -> Path:
    with Session.create(federations.config("hungry", **sections), folder, folder.parent) as session:
        session.run()
    return folder


def starved(monkeypatch: Patch, room: int, folder: Path, **sections: Any) -> str:
    """What is said of a session that ran out of memory; there is enough of it again afterwards."""
    with monkeypatch.context() as patched:
        patched.setattr(Hungry, "room", room)
        with pytest.raises(NotEnoughMemory) as lacking:
            a_session(folder, **sections)
    sentence, code = explain(lacking.value)
    assert code == 7
    assert WORDS in sentence and "\n" not in sentence
    return sentence


def test_it_names_client_model_and_batch_and_what_helps(tmp_path: Path, monkeypatch: Patch) -> None:
    """And the session goes on with smaller batches."""
    for runner, helps in (
        ("parallel", "resume SESSION --set runtime.workers=2`"),
        ("sequential", "switch SESSION --set training.batch_size=8`, then `htfl-sim resume SESSION`"),
    ):
        runtime = {"runner": runner, "workers": 4}
        said = starved(monkeypatch, 15, tmp_path / runner, runtime=runtime, evaluation={"batch_size": 8})
        assert "(tiny_cnn) in round 2, in training on batches of 16 samples" in said
        assert "for client " in said and helps in said
    folder = tmp_path / "sequential"
    checkpoints.post(folder, "switch", {"method": None, "set": ["training.batch_size=8"]})
    monkeypatch.setattr(Hungry, "room", 15)
    with Session.resume(folder, tmp_path) as session:
        assert session.run().round == 3


@pytest.mark.long
def test_a_session_goes_on_with_fewer_workers(tmp_path: Path, monkeypatch: Patch) -> None:
    """And to the same bits."""
    runtime = {"workers": 2}
    alone = federations.committed(a_session(tmp_path / "alone", runtime=runtime))
    assert "runtime.workers=1`" in starved(
        monkeypatch, 15, tmp_path / "s", runtime=runtime, evaluation={"batch_size": 8}
    )
    assert checkpoints.SessionReader(tmp_path / "s").rounds() == [1]
    with Session.resume(tmp_path / "s", tmp_path, workers=1) as session:
        assert session.run().round == 3
    assert federations.committed(tmp_path / "s")[1] == alone[1]


@pytest.mark.long
def test_a_too_large_stack_goes_on_as_smaller_ones(tmp_path: Path, monkeypatch: Patch) -> None:
    said = starved(
        monkeypatch, 15, tmp_path / "s", runtime={"runner": "stacked"}, evaluation={"batch_size": 8}
    )
    assert "(tiny_cnn) and 2 more as one, in round 2, in training on batches of 16 samples" in said
    assert "`htfl-sim resume SESSION --set runtime.stack=8 --allow-inexact`" in said
    settings = ["runtime.stack=8"]
    with Session.resume(tmp_path / "s", tmp_path, settings=settings, allow_inexact=True) as session:
        assert session.run().round == 3
    events = checkpoints.SessionReader(tmp_path / "s").events()
    (event,) = [event for event in events if event["event"] == "resumed"]
    assert event["inexact"] == ["clients in stacks of 16 → in stacks of 8"]


def test_a_payload_without_room_is_said_alike(tmp_path: Path, monkeypatch: Patch) -> None:
    def downlink(*_: object) -> dict[str, Tensor]:
        raise torch.OutOfMemoryError(WORDS)

    monkeypatch.setattr(Hungry, "downlink", downlink)
    for runner in ("parallel", "sequential", "stacked"):
        said = starved(monkeypatch, 1_000, tmp_path / runner, runtime={"runner": runner})
        assert "(tiny_cnn)" in said and "in round 1, in training on batches of 16 samples" in said
        assert runner != "stacked" or "for client 0 (tiny_cnn) and 2 more as one, in round 1" in said


@pytest.mark.long
def test_it_goes_on_with_fewer_answers_at_a_time(tmp_path: Path, monkeypatch: Patch) -> None:
    """Evaluation has a batch of its own. Where there is no checkpoint yet, it begins again."""
    monkeypatch.setattr(Hungry, "in_round", 0)
    said = starved(monkeypatch, 1, tmp_path / "large")
    assert "(tiny_cnn) in round 1, in evaluation on 1024 samples at a time" in said
    assert "switch SESSION --set evaluation.batch_size=512`" in said
    starved(monkeypatch, 1, tmp_path / "s", evaluation={"batch_size": 2})
    assert checkpoints.SessionReader(tmp_path / "s").rounds() == []
    checkpoints.post(tmp_path / "s", "switch", {"method": None, "set": ["evaluation.batch_size=1"]})
    monkeypatch.setattr(Hungry, "room", 1)
    with Session.resume(tmp_path / "s", tmp_path) as session:
        assert session.run().round == 3
