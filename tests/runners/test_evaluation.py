"""Equal answers are found by looking at what they are made of: asked once where they are equal, and only there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors
from simulator.engine.builder import Built
from simulator.engine.progress import Warned
from simulator.methods import registry
from simulator.methods.fedavg import FedAvg
from simulator.models.federation import ClientInfo
from simulator.runners import evaluation
from simulator.training.client import LocalClient
from tests import federations
from tests.methods import reference

ROUNDS = 4
Patch = pytest.MonkeyPatch


class Counted:
    """How often a client's whole test split has been asked."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.clients: list[int] = []
        count = evaluation.answers_of

        def counting(runner: Any, work: Any, client: int, **asked: Any) -> Any:
            self.clients.append(client)
            return count(runner, work, client, **asked)

        monkeypatch.setattr(evaluation, "answers_of", counting)


def built(name: str, **sections: Any) -> Built:
    """Six clients of two architectures on one test set, evaluated with what they would receive next."""
    shared = {
        "federation": {"clients": 6},
        "data": {"split": "global"},
        "evaluation": {"model": "aggregated"},
        "rounds": 2,
    }
    images = federations.generated()
    return federations.built(
        federations.config(name, **{**shared, **sections}), replace(images, test_from=len(images) - 40)
    )


LATER = [pytest.param(name, marks=pytest.mark.long) for name in ("scaffold", "moon", "heteroavg")]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("inco_avg", "inco_moon")]


@pytest.mark.parametrize("name", ["fedavg", *LATER, *SLOW])
def test_equal_models_on_one_test_set_are_asked_once(name: str, monkeypatch: Patch) -> None:
    """As in InCo's tables: the aggregated models, of few architectures, on the global test set.

    Scaffold's control variates and MOON's previous models differ from client to client, and have no part in answers.
    """
    counted = Counted(monkeypatch)
    parts = built(name)
    once = federations.run(parts.engine, 1).record
    assert len(counted.clients) == len(parts.federation.architectures)

    monkeypatch.setattr(evaluation, "_made_of", lambda runner, work, client: bytes([client]))
    each = federations.run(built(name).engine, 1).record
    assert len(counted.clients) == len(parts.federation.architectures) + 6
    assert once is not None and each is not None and once["accuracy"] == each["accuracy"]


class Unequal(FedAvg):
    """FedAvg that sends every client but the first a model of zeros after training, and changes nothing else."""

    name = "unequal"
    Config = MethodConfig

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        payload = super().downlink(round, server, client)
        if round <= ROUNDS or client.id == 0:
            return payload
        return {key: torch.zeros_like(each) for key, each in payload.items()}


class Offset(FedAvg):
    """FedAvg whose clients add to their scores what they keep: the first nothing, the others a lot for class 0."""

    name = "offset"
    Config = MethodConfig

    def init_client(self, client: ClientInfo) -> Tensors:
        return {"offset": torch.tensor([100.0 if client.id else 0.0, 0.0, 0.0, 0.0])}

    def predict(self, nets: Any, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return super().predict(nets, state, x) + state["offset"]


class Noted(FedAvg):
    """FedAvg whose clients keep that offset beside their networks, as a plain number."""

    name = "noted"
    Config = MethodConfig

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        super().receive(local, payload)
        local.nets.offset = 100.0 if local.info.id else 0.0  # type: ignore[assignment]

    def predict(self, nets: Any, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        scores = super().predict(nets, state, x)
        return torch.cat([scores[:, :1] + nets.offset, scores[:, 1:]], 1)


class NotedTensor(Noted):
    """The same as a tensor that is in no state."""

    name = "noted_tensor"

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        super().receive(local, payload)
        local.nets.offset = torch.tensor(local.nets.offset)


class Drawing(FedAvg):
    """FedAvg whose clients answer at random."""

    name = "drawing"
    Config = MethodConfig

    def predict(self, nets: Any, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return torch.randn(len(x), 4)


class Prepared(FedAvg):
    """FedAvg whose clients, before they answer, turn their heads towards class 0."""

    name = "prepared"
    Config = MethodConfig

    def before_answering(self, local: LocalClient) -> None:
        assert len(local.train)  # its images are at hand
        with torch.no_grad():
            local.nets.model.head.bias += torch.tensor([1000.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("model", ["local", "aggregated"])
def test_clients_answer_as_made_ready_and_keep_nothing_of_it(model: str, monkeypatch: Patch) -> None:
    """All say class 0 then: ten of the forty test images. Their models are those of a run without."""
    monkeypatch.setitem(registry._METHODS, "prepared", Prepared)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")
    prepared, plain = (
        federations.run(built(name, evaluation={"model": model}).engine, 2) for name in ("prepared", "fedavg")
    )
    assert prepared.record is not None
    assert set(prepared.record["accuracy"]["per_client"]) == {0.25}
    assert federations.state_bits(prepared) == federations.state_bits(plain)


def test_clients_whose_answers_are_drawn_or_on_test_data_of_their_own_are_asked_each(
    monkeypatch: Patch,
) -> None:
    monkeypatch.setitem(registry._METHODS, "drawing", Drawing)
    counted = Counted(monkeypatch)
    federations.run(built("drawing").engine, 1)
    assert sorted(counted.clients) == [0, 1, 2, 3, 4, 5]
    counted.clients.clear()
    settings = federations.config("fedavg", evaluation={"model": "aggregated"})
    federations.run(federations.built(settings).engine, 1)
    assert sorted(counted.clients) == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.parametrize("method", [Unequal, Offset, Noted, NotedTensor])
def test_clients_of_other_answers_are_asked_each(method: type[FedAvg], monkeypatch: Patch) -> None:
    """Whoever is sent zeros, or prefers class 0 by a hundred, says class 0 always: ten of the forty test images."""
    monkeypatch.setitem(registry._METHODS, method.name, method)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")
    everybody = {"clients": 6, "participation": 1.0}
    iid = {"split": "global", "partition": "iid"}
    parts = built(method.name, federation=everybody, data=iid, training={"lr": 0.1, "epochs": 10})
    record = federations.run(parts.engine, ROUNDS).record
    assert record is not None
    first, *others = record["accuracy"]["per_client"]
    assert first > 0.3
    assert others == [0.25] * 5


@pytest.mark.long
def test_trained_models_are_not_compared(monkeypatch: Patch) -> None:
    """They differ: to look at them would be work for nothing."""
    monkeypatch.setattr(evaluation, "_made_of", None)
    federations.run(built("fedavg", evaluation={"model": "local"}).engine, 1)


class Whole:
    """How many models have answered together, each time, and on how many images at a time at most."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.models: list[int] = []
        self.images = 0
        scores = evaluation.Stacked.scores

        def noted(of: Any, x: Tensor) -> Tensor:
            shown = scores(of, x)
            self.models.append(len(shown))
            self.images = max(self.images, len(x))
            return shown

        monkeypatch.setattr(evaluation.Stacked, "scores", noted)


@pytest.mark.parametrize(("name", "together"), [("lg_fedavg", {3}), ("fedproto", {3}), ("fiarse", {2, 3})])
def test_a_stack_answers_as_its_clients_do(name: str, together: set[int], monkeypatch: Patch) -> None:
    """Models of their own, prototypes in their state, weights masked by it; forty images, twelve at a time in all.

    Of FIARSE's three clients with CNNs two are equal, and asked once.
    """
    whole, told = Whole(monkeypatch), []
    with reference.double_precision():
        settings: dict[str, Any] = {"evaluation": {"batch_size": 12}}
        if name == "lg_fedavg":
            settings["evaluation"]["model"] = "local"
        alone = federations.run(built(name, **settings).engine, 1)
        assert whole.models == []
        stacked = federations.run(
            built(name, **settings, runtime={"runner": "stacked"}).engine, 1, told.append
        )
    assert not [event for event in told if isinstance(event, Warned)]
    assert set(whole.models) == together
    assert whole.images == 12 // min(together)
    assert stacked.record is not None and alone.record is not None
    assert stacked.record["accuracy"] == alone.record["accuracy"]
    losses = [each["evaluation"]["test"]["loss"]["per_client"] for each in (stacked.record, alone.record)]
    assert [each or 0.0 for each in losses[0]] == pytest.approx([each or 0.0 for each in losses[1]], rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(("method", "unstacked"), [(Noted, ["train", "answer"]), (Drawing, ["answer"])])
def test_clients_that_cannot_answer_as_one_answer_by_themselves_which_is_said_once(
    method: type[FedAvg], unstacked: list[str], monkeypatch: Patch
) -> None:
    """What they answer is then what they do without stacks: by an offset that no tensor holds, or at random."""
    monkeypatch.setitem(registry._METHODS, method.name, method)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")
    told: list[Any] = []
    stacked = federations.run(built(method.name, runtime={"runner": "stacked"}).engine, 2, told.append)
    alone = federations.run(built(method.name).engine, 2)
    assert stacked.record is not None and alone.record is not None
    assert stacked.record["accuracy"] == alone.record["accuracy"]
    notes = [event.message.split() for event in told if isinstance(event, Warned)]
    assert [note[:4] for note in notes] == [["Clients", "of", "tiny_cnn", doing] for doing in unstacked]
