"""Clients' models after a round, from a checkpoint or with rounds run again; their CKA, and features in the plane."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from checkpoints import Manifest, SessionUnreadable
from simulator import methods, runners
from simulator.base.errors import ConfigError
from simulator.base.nested import merged, with_method
from simulator.base.sections import MANY, SAMPLED
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.config import Config
from simulator.data.federated import FederatedData
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.client_states import initial_model
from simulator.engine.progress import Observer, unobserved
from simulator.methods import Method, registry
from simulator.methods.hooks import Hooks
from simulator.metrics import by_client, cka_matrices
from simulator.metrics.cka_matrices import drawn
from simulator.models import Network
from simulator.models.federation import ClientInfo, Federation
from simulator.results.analysis.classes import Confusion, class_counts
from simulator.results.inspection.client_samples import Embedding
from simulator.results.inspection.partition import check_clients, data_of_session
from simulator.runners import Job
from simulator.runners.evaluation import answering
from simulator.sessions import metadata, states
from simulator.sessions.forking import Source
from simulator.sessions.history import settings_in_force
from simulator.sessions.metadata import check_data, check_models, read_config
from simulator.sessions.reader import CheckedReader
from simulator.sessions.states import check_draws, name_of, restore, specs
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force
from simulator.training.trainer import TrainingContext

Model = Literal["local", "aggregated"]


def cka(
    folder: Path,
    data_dir: Path,
    round: int | None = None,
    *,
    images: int = cka_matrices.PROBE,
    layers: Sequence[str] | None = None,
    debiased: bool = False,
    model: Model | None = None,
    untrained: bool = False,
    done: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """The clients' CKA after a round (None: the newest kept), as `similarity.measure` gives it, with the round.

    With the run's own settings these are the numbers the run recorded. Nothing is written, no lock is taken, and one
    client's model per worker is in memory at a time. `model` None compares what the run evaluates; `untrained` counts
    clients that have never taken part. `done` receives the number of loaded models, and of all, from any thread. Raises
    SessionUnreadable (round not kept, damaged), ConfigError (no such layer), DataError, or SessionError (other data, no
    plugin).
    """
    found = opened(folder, data_dir, round, model)
    trained = by_client.trained(found.session.records()[: found.round])
    of = None if found.model == "aggregated" or untrained else trained
    federation, seed, most = found.context.federation, found.config.training_seed, found.config.cka.clients
    chosen, most = cka_matrices.compared(federation, seed, layers, of, most)
    probe = cka_matrices.probe(found.built.data, seed, images)
    number, loaded = len(set().union(*chosen.values())), itertools.count(1)

    def tensors(client: int) -> Tensors:
        model = found.tensors(client)
        if done is not None:
            done(next(loaded), number)
        return model

    runtime = found.config.runtime
    runner = runners.get(runtime.runner)(found.context, runtime)
    try:
        with tf32_in_force(found.config.training.precision, federation.device):
            measured = cka_matrices.measure(
                found.context, runner.each, tensors, chosen, probe, debiased, most
            )
        return {"round": found.round} | measured
    finally:
        runner.close()


@dataclass(frozen=True)
class Opened:
    """A session's parts as they were after a kept round; `tensors` gives a client's model."""

    session: CheckedReader
    round: int
    config: Config
    built: Built
    context: TrainingContext
    model: Model
    tensors: Callable[[int], Tensors]


def opened(folder: Path, data_dir: Path, round: int | None, model: Model | None) -> Opened:
    """A session after a kept round (None: the newest), to look at its clients' models. Raises like `cka`."""
    session = CheckedReader(folder)
    manifest = session.manifest(round)
    raw = settings_in_force(session.document, manifest.history)
    method, history = str(raw["method"]["name"]), manifest.history
    compared: Model | None = model or raw["cka"].get("model") or raw["evaluation"].get("model")
    if compared is None:  # as its method is evaluated
        registry.check(folder, method, history[-1].get("plugin") if history else None)
        compared = methods.get(method).answers
    check_models(session)
    models = [file for file in session.document.get("files", []) if file["kind"] == "model"]
    metadata.check_files(folder, {}, models)
    pretrained = raw["federation"].get("pretrained", False)
    # The user's own metrics and selection are left out, and, unless wanted, the weights that clients began with. Where
    # only trained models are read, the method, perhaps a plugin's, need not be at hand.
    raw = merged(raw, {"evaluation": {"metrics": []}})
    raw.pop("selection", None)
    if manifest.initial is None or compared != "aggregated":
        raw = merged(raw, {"federation": {"pretrained": False}})
    config = read_config(session, with_method(raw, "standalone") if compared == "local" else raw)
    built = build(config, data_dir, runs=False)
    check_data(session, config, built.data)
    context = TrainingContext(built.federation, built.data, FlopCache()).at(manifest.round)
    if compared == "local":
        tensors = _local(session, manifest, built, pretrained)
    else:
        tensors = _aggregated(session, manifest, built, context)
    return Opened(session, manifest.round, config, built, context, compared, tensors)


def expected_specs(federation: Federation, info: ClientInfo) -> object:
    """The specs of the tensors that a client's model has."""
    return specs(named("model", of_module(federation.architecture_of(info))))


def not_its_model(folder: Path, round: int, info: ClientInfo) -> SessionUnreadable:
    """The error of a client whose tensors are those of another model."""
    return SessionUnreadable(f"{folder}, round {round}: the model of {info} is not a {info.architecture}.")


def _local(
    session: CheckedReader, manifest: Manifest, built: Built, pretrained: str | bool
) -> Callable[[int], Tensors]:
    """The models that local training left, or that clients began with."""
    federation, initial = built.federation, manifest.initial
    drawn = replace(federation, pretrained=pretrained)

    @cache  # once, and only where such a client is asked for: its pretrained weights need not be at hand else
    def seed_of_draws() -> int | None:
        if initial is None:
            return None
        check_draws(session, initial, drawn)
        return int(initial["models"])

    def tensors(client: int) -> Tensors:
        info = federation.clients[client]
        if name_of(client) not in manifest.states and (seed := seed_of_draws()) is not None:
            found = initial_model(drawn, client, seed)
        else:
            found = named("model", part(session.load(manifest.round, name_of(client)), "model"))
        if specs(found) != expected_specs(federation, info):
            raise not_its_model(session.folder, manifest.round, info)
        return {name: tensor.to(federation.device) for name, tensor in found.items()}

    return tensors


def _aggregated(
    session: CheckedReader, manifest: Manifest, built: Built, context: TrainingContext
) -> Callable[[int], Tensors]:
    """The models that clients would receive next."""
    hooks = Hooks(built.method, built.federation).at(manifest.round)
    state = restore(session, manifest, built)

    def tensors(client: int) -> Tensors:
        info, following = context.federation.clients[client], manifest.round + 1
        job = Job(state.clients[client], hooks.downlink(following, state.server, info))
        return answering(hooks, context, info, following, job).tensors()

    return tensors


IMAGES = 40
"""Test samples of each client, the first of its part, unless said otherwise."""
_ANCHORS = {"prototypes/mean": "prototype", "vectors": "guiding vector"}
"""What a server may hold of each class, as wide as what is drawn: its tensor, and what one of its rows is called."""
_AMONG_LOGITS = "{} (points are logits)"


def representations(
    folder: Path, data_dir: Path, round: int | None = None, *, images: int = IMAGES
) -> Embedding:
    """What the head of each client's own model reads of its first test samples, after a kept round (None: the newest).

    If the server guides logits, it is what the head answers. Of very many clients some are drawn, of those that have
    been trained. Raises like `cka`, and ConfigError where the clients' features differ in width.
    """
    found = opened(folder, data_dir, round, "local")
    federation, data = found.built.federation, found.built.data
    records = found.session.records()[: found.round]
    server: Mapping[str, Tensor] = found.session.load(found.round, "server")
    widths = {network.num_features for network in federation.architectures.values()}
    logits = _guides_logits(server, records[-1]["method"], widths, federation.num_classes)
    if not logits and len(widths) > 1:
        said = ", ".join(map(str, sorted(widths)))
        raise ConfigError(
            f"{folder.name}: its clients' features differ in width ({said}) and have no common plane."
        )
    took_part = by_client.trained(records)
    everybody = range(len(federation.clients))
    many = len(everybody) > MANY and took_part
    features, labels, clients = [], [], []
    chosen = drawn(took_part, federation, found.config.training_seed, SAMPLED) if many else everybody
    for client in chosen:
        info = federation.clients[client]
        local = LocalClient(found.context, info, 0, found.tensors(info.id))
        x, y = data.batch(data.clients[info.id].test[:images])
        local.nets.eval()
        with torch.no_grad():
            shown = local.nets.model(x) if logits else local.nets.model.features(x)
        features.append(shown.flatten(1).float().cpu())
        labels.append(y.cpu())
        clients.append(torch.full((len(y),), info.id))
    anchors, anchor_labels, kind = _anchors(server, federation.num_classes if logits else widths.pop())
    return Embedding(
        found.round,
        torch.cat(features).numpy(),
        torch.cat(labels).numpy(),
        torch.cat(clients).numpy(),
        data.classes,
        anchors.numpy(),
        anchor_labels.numpy(),
        _AMONG_LOGITS.format(kind) if logits else kind,
    )


def _guides_logits(server: Mapping[str, Tensor], method: str, widths: Collection[int], classes: int) -> bool:
    """Whether the server's guiding vectors are logits. If features are as wide as logits, the method decides."""
    vectors = server.get("vectors")
    if vectors is None or vectors.dim() != 2 or vectors.shape[1] != classes:
        return False
    return method == "fedl2g_l" or classes not in widths


def _anchors(server: Mapping[str, Tensor], width: int) -> tuple[Tensor, Tensor, str]:
    """What the server holds of each class in this width: rows, their classes, and what they are called."""
    for name, kind in _ANCHORS.items():
        rows = server.get(name)
        if rows is not None and rows.dim() == 2 and rows.shape[1] == width:
            known = server.get("prototypes/known", torch.ones(len(rows))) > 0
            return rows[known].float().cpu(), torch.arange(len(rows))[known.cpu()], kind
    return torch.zeros(0, width), torch.zeros(0, dtype=torch.int64), ""


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
        info, own = federation.clients[client], tensors(client)
        hooks = Hooks(built.method, built.federation).at(round)
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
