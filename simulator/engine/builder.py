"""From a configuration to the parts that run it: data on the device, the federation's facts, the method."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from simulator import methods, models
from simulator.base.errors import RAISED, ConfigError, HtflError
from simulator.base.own_files import failed
from simulator.base.sections import MethodConfig
from simulator.base.tensors import select_device
from simulator.base.timeline import Timeline
from simulator.config import Config
from simulator.data.federated import FederatedData, load
from simulator.engine.round import Engine
from simulator.engine.timing import equipped
from simulator.methods import Method, registry
from simulator.models.federation import ClientInfo, Federation, Stage
from simulator.training import augmentation
from simulator.training.client import batch_sizes
from simulator.training.precision import refuse_lacking


class Built(NamedTuple):
    """A configuration's parts, ready to run and checked against one another."""

    data: FederatedData
    federation: Federation
    method: Method
    engine: Engine


def build(config: Config, data_dir: Path, begun: int = 0, *, runs: bool = True) -> Built:
    """Load the data, deal out the models, check the method's needs; `begun` is the round that the method began after.

    Not `runs`: the device may lack the precision. Raises ConfigError or DataError before anything is trained or
    written.
    """
    device = select_device(config.runtime.device)
    architectures = models.assign(config.federation.group, config.federation.clients)
    timeline = config.timeline
    data = load(config.source(data_dir), device)
    clients = _infos(data, architectures)
    return _assembled(config, data, clients, _stages(timeline, data, architectures), device, begun, runs)


def rebuild(built: Built, config: Config, begun: int | None = None, *, runs: bool = True) -> Built:
    """The same data and models under other settings, or a method that begins after `begun`. Raises ConfigError."""
    federation = built.federation
    begun = federation.begun if begun is None else begun
    return _assembled(
        config, built.data, federation.clients, federation.stages, federation.device, begun, runs
    )


def _infos(data: FederatedData, architectures: Sequence[str]) -> tuple[ClientInfo, ...]:
    return tuple(
        ClientInfo(number, architecture, len(client.train), client.classes)
        for number, (architecture, client) in enumerate(zip(architectures, data.clients, strict=True))
    )


def _stages(timeline: Timeline, data: FederatedData, architectures: Sequence[str]) -> tuple[Stage, ...]:
    """The clients before round 1, and from every round on in which something about them changes."""
    found = []
    for round in [0, *timeline.rounds] if timeline.happenings else []:
        now = data.at(round)
        changed = frozenset(
            client
            for client, (held, first) in enumerate(zip(now.clients, data.clients, strict=True))
            if held is not first
        )
        found.append(Stage(round, _infos(now, architectures), timeline.absent_at(round), changed))
    return tuple(found)


def _assembled(
    config: Config,
    data: FederatedData,
    clients: tuple[ClientInfo, ...],
    stages: tuple[Stage, ...],
    device: torch.device,
    begun: int,
    runs: bool,
) -> Built:
    if runs:
        refuse_lacking(config.training.precision, device)
    models.check_kind((client.architecture for client in clients), data.spec)
    augmentation.check(config.training.augment, data.spec)
    federation = Federation(
        seed=config.training_seed,
        init_seed=config.init_seed,
        rounds=config.rounds,
        num_classes=data.num_classes,
        spec=models.spec_for(data.spec, config.models),
        clients=clients,
        training=config.training,
        device=device,
        pretrained=config.federation.pretrained,
        features=config.models.features,
        begun=begun,
        unseen=config.unseen_clients,
        stages=stages,
        public=0 if data.public is None else len(data.public),
        public_classes=0 if data.public is None else data.public.num_classes,
    )
    if federation.pretrained:
        for name, architecture in federation.architectures.items():
            models.pretrained.weights(
                name, architecture, federation.pretrained
            )  # refused now rather than in round 1
    if models.libraries.origins(tuple(client.architecture for client in clients)):
        # A user's own are tried out as they are made: now rather than in round 1.
        _ = federation.architectures
    if config.system is not None:
        federation = equipped(federation, config.system)
    stem = getattr(federation.spec, "stem", None)
    if stem is not None and not any(models.get(name).stems for name in federation.architectures):
        raise ConfigError(
            f"models.stem = '{stem}' changes nothing here: {', '.join(federation.architectures)} have no stem "
            "to choose; ResNets, GoogLeNet and MobileNetV2 have. Leave it out, or choose another group."
        )
    method = _made(config.method, federation)
    _refuse_batches_of_one(federation, method)
    return Built(data, federation, method, Engine(config, federation, data, method))


def _made(config: MethodConfig, federation: Federation) -> Method:
    """The method, whose needs are met. Raises ConfigError, also where one of the user's own fails."""
    try:
        method = methods.get(config.name)(config, federation)
        method.check()
        if federation.unseen and (reason := method.cannot_serve_unseen()) is not None:
            raise ConfigError(
                f"method '{config.name}' cannot serve unseen clients: {reason}. "
                "Remove federation.unseen, or choose another method."
            )
    except HtflError:
        raise
    except RAISED as error:
        if registry.origin(config.name) is None:
            raise
        raise failed(f"method '{config.name}'", error) from error
    return method


def _refuse_batches_of_one(federation: Federation, method: Method) -> None:
    """Raise ConfigError where BatchNorm would normalize one sample, also in models trained beside."""
    batch_size, spec = federation.training.batch_size, federation.spec
    every = [*federation.clients, *(client for stage in federation.stages for client in stage.clients)]
    lonely = [client for client in every if 1 in batch_sizes(client.samples, batch_size)]
    if not lonely:
        return
    beside = [
        name
        for name in method.trained_beside()
        if not models.trains_on_one_sample(federation.architecture(name), spec)
    ]
    unable = {
        name
        for name in {client.architecture for client in lonely}
        if not models.trains_on_one_sample(federation.architectures[name], spec)
    }
    for client in lonely:
        if beside:
            whose = f"the BatchNorm of {beside[0]}, which it trains beside its own model,"
        elif client.architecture in unable:
            whose = "its BatchNorm"
        else:
            continue
        remedy = (
            "Use fewer clients, or a larger data.limit if one is set"
            if client.samples == 1
            else "Set training.batch_size to 2 or more"
        )
        raise ConfigError(
            f"{client} would train on a batch of one sample, which {whose} cannot normalize. {remedy}."
        )
