"""Clients' models after any round, as they were evaluated: from a kept checkpoint, or with the rounds run again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from simulator.base.tensors import Tensors, named, part
from simulator.data.federated import FederatedData
from simulator.engine.builder import rebuild
from simulator.engine.progress import Observer, unobserved
from simulator.methods import Method
from simulator.methods.hooks import Hooks
from simulator.metrics import by_client
from simulator.models import Network
from simulator.models.federation import ClientInfo, Federation
from simulator.results.analysis.classes import Confusion, class_counts
from simulator.results.inspection.checkpoint import expected_specs, not_its_model
from simulator.results.inspection.partition import check_clients, data_of_session
from simulator.runners import Job
from simulator.runners.evaluation import answering
from simulator.sessions import states
from simulator.sessions.forking import Source
from simulator.sessions.reader import CheckedReader
from simulator.sessions.states import specs
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force
from simulator.training.trainer import TrainingContext

Part = Literal["train", "eval", "test"]


@dataclass(frozen=True, eq=False)
class ClientModel:
    """A client after a round, about to answer: its network in evaluation mode, and what belongs to it."""

    round: int
    info: ClientInfo
    network: Network
    state: Tensors
    """What the method keeps beside the model, such as FedProto's prototypes."""
    recorded: float | None
    """Its accuracy in the ledger (0…1); None before round 1, and for a client never evaluated."""
    data: FederatedData
    federation: Federation
    _local: LocalClient
    _hooks: Hooks
    _batch_size: int

    @property
    def method(self) -> Method:
        """The method of the round."""
        return self._hooks.method

    def samples(self, of: Part = "test") -> tuple[Tensor, Tensor]:
        """The client's samples as its network takes them, and their labels [n]."""
        return _samples(self.data, self.info.id, of)

    @torch.no_grad()
    def accuracy(self) -> float:
        """The share of its test samples that the network by itself answers rightly."""
        x, y = self.samples()
        scores: Tensor = self.network(x)
        return float((scores.argmax(1) == y).float().mean())

    @torch.no_grad()
    def scores(self, of: Part = "test") -> Tensor:
        """What the run evaluates: the method's scores [n, C] of the client's samples."""
        x, _ = self.samples(of)
        return self._hooks.predict(self._local, x)

    @torch.no_grad()
    def confusion(self, of: Part = "test") -> Tensor:
        """[C, C] int64, on the CPU: samples by their class (rows) and by the class answered (columns).

        The batches and the precision are those of the run's evaluation.
        """
        classes = self.federation.num_classes
        found = torch.zeros(classes * classes, dtype=torch.int64)
        with tf32_in_force(self.federation.training.precision, self.federation.device):
            for indices in self.data.clients[self.info.id].part(of).split(self._batch_size):
                x, y = self.data.batch(indices)
                cell = y * classes + self._hooks.predict(self._local, x).argmax(1)
                found += torch.bincount(cell.cpu(), minlength=classes * classes)
        return found.reshape(classes, classes)

    @torch.no_grad()
    def answers_by_itself(self) -> bool:
        """Whether the method answers with the network's scores, and nothing else, on the client's test samples."""
        x, _ = self.samples()
        return torch.allclose(self.scores(), self.network(x), rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class Models:
    """The models of some clients after a round, in the order asked for, and how many rounds were run for them."""

    clients: tuple[ClientModel, ...]
    round: int
    replayed: int


def of_clients(
    folder: Path,
    data_dir: Path,
    clients: Sequence[int] | None,
    round: int | None = None,
    *,
    device: str | None = None,
    workers: int | None = None,
    allow_inexact: bool = False,
    observe: Observer = unobserved,
) -> Models:
    """The models (None: of all clients) after a round (None: the last finished one), with which the run evaluates.

    With an aggregated evaluation these are what clients would receive next. Nothing is written, no lock is taken.
    `device` and `workers` replace the recorded ones. Raises ConfigError for a round or client that is not there,
    SessionError where rounds run again would not give the same bits, SessionUnreadable, or DataError.
    """
    if round is None:
        round = len(CheckedReader(folder).records())
    source = Source.read(folder, round, {"device": device, "workers": workers}, data_dir)
    number = len(source.built.federation.clients)
    wanted = range(number) if clients is None else clients
    check_clients(folder, wanted, number)
    state, replayed = source.state_after(round, allow_inexact, observe)
    config = source.config_after(round)
    built = rebuild(source.built, config, source.begun_after(round), runs=False)
    if state is None and round == 0:
        state = built.engine.initial_state()
    tensors: Callable[[int], Tensors]
    if state is not None:
        server, tensors = state.server, state.clients.__getitem__
    else:
        server = source.session.load(round, "server")
        server = {name: tensor.to(built.federation.device) for name, tensor in server.items()}
        manifest = source.session.manifest(round)
        tensors = states.of_clients(source.session, manifest, built, exact=not allow_inexact)
    aggregated = (config.evaluation.model or built.method.answers) == "aggregated"
    known = by_client.standing(source.records[:round])
    recorded = known["accuracy"]["per_client"] if known else {}
    server_model = server if aggregated else None

    def answering_model(client: int) -> ClientModel:
        # Clients and data as they are in the round: a timeline may have changed them.
        data, federation = built.data.at(round), built.federation.at(round)
        info, hooks, own = (
            federation.clients[client],
            Hooks(built.method, built.federation).at(round),
            tensors(client),
        )
        if specs(named("model", part(own, "model"))) != expected_specs(federation, info):
            raise not_its_model(source.session.folder, round, info)
        payload = None if server_model is None else hooks.downlink(round + 1, server_model, info)
        context = TrainingContext(federation, data, FlopCache())
        local = answering(hooks, context, info, round + (payload is not None), Job(own, payload))
        batch, accuracy = config.evaluation.batch_size, recorded.get(client)
        return ClientModel(
            round, info, local.nets.model, local.state, accuracy, data, federation, local, hooks, batch
        )

    try:
        shown = tuple(map(answering_model, wanted))
    finally:
        built.engine.close()
    return Models(shown, round, replayed)


def confusion(folder: Path, data_dir: Path, client: int, round: int | None = None) -> Confusion:
    """A client's confusion matrix after a kept round (None: the newest), compared with the ledger's counts by class.

    Loads only this client's model. Raises like `of_clients`, and SessionUnreadable for a round that is not kept.
    """
    session = CheckedReader(folder)
    at = session.manifest(round).round
    [model] = of_clients(folder, data_dir, [client], at).clients
    recorded = class_counts(session.records()[:at], client)
    return Confusion.of(client, at, model.data.classes, model.confusion().tolist(), recorded)


def samples(folder: Path, data_dir: Path, client: int, of: Part = "test") -> tuple[Tensor, Tensor]:
    """A client's samples as its model takes them, and their labels, on the CPU; raises like `data_of_session`."""
    data = data_of_session(folder, data_dir)
    check_clients(folder, [client], len(data.clients))
    return _samples(data, client, of)


def _samples(data: FederatedData, client: int, of: Part) -> tuple[Tensor, Tensor]:
    return data.batch(getattr(data.clients[client], of))
