"""What an actor computes clients with: its inner runner, and everything but their states and payloads."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from simulator import methods
from simulator.base import own_files
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.own_files import Sent
from simulator.base.sections import RuntimeConfig
from simulator.base.tensors import select_device
from simulator.data import datasets
from simulator.data.federated import FederatedData, Source, load
from simulator.methods import registry
from simulator.methods.hooks import Hooks
from simulator.models import libraries as own_models
from simulator.models.federation import Federation
from simulator.runners.base import Runner, get, names, names_within
from simulator.training.flops import FlopCache
from simulator.training.trainer import TrainingContext


def inner_kind(settings: RuntimeConfig) -> type[Runner]:
    """The runner of `runtime.inner`. Raises ConfigError with the nearest name if an actor cannot hold it."""
    within = names_within()
    if settings.inner in within:
        return get(settings.inner)
    if settings.inner in names():
        what = f"runtime.inner = '{settings.inner}' would have actors start others."
    else:
        what = f"unknown runner '{settings.inner}' in runtime.inner.{nearest(settings.inner, within)}"
    raise ConfigError(f"{what} An actor can hold {', '.join(within)}.")


def clients_at_once(settings: RuntimeConfig) -> int:
    """A stack counts as one."""
    return settings.workers_per_actor if settings.inner == "parallel" else 1


def same_bits(settings: RuntimeConfig) -> str:
    """The runner that gives the same bits without Ray."""
    alike = get("parallel").sums(settings) == inner_kind(settings).sums(settings)
    return "parallel" if alike else settings.inner


def inner_runner(context: TrainingContext, settings: RuntimeConfig) -> Runner:
    """Raises ConfigError like `inner_kind`, and if it cannot run these clients."""
    runner = inner_kind(settings)(context, settings.model_copy(update={"workers": clients_at_once(settings)}))
    runner.workers_key = "runtime.workers_per_actor"
    return runner


LOADERS = {"plugin": registry.load, "model": own_models.load}


@dataclass(frozen=True)
class WorkerSetup:
    """The federation, its method, and the location of its data, as sent to an actor."""

    source: Source
    fingerprint: str
    """Identifies the data: an actor must load the same."""
    federation: Federation
    method: Mapping[str, Any]
    runtime: RuntimeConfig
    files: tuple[Sent, ...]

    @classmethod
    def of(cls, context: TrainingContext, hooks: Hooks, runtime: RuntimeConfig) -> "WorkerSetup":
        """Raises ConfigError for data that no other process could load."""
        source = context.data.source
        if source is None:
            raise ConfigError(
                "runner 'ray' needs data that every machine can load by itself; these were made here."
            )
        return cls(
            source=_from_anywhere(source),
            fingerprint=context.data.fingerprint,
            federation=replace(context.federation),  # without its private caches
            method=hooks.method.config.model_dump(mode="json"),
            runtime=runtime,
            files=_files(hooks.name, tuple(context.federation.architectures), source.config.dataset),
        )

    @cached_property
    def sha256(self) -> str:
        """SHA-256 (hex) of everything that determines a client's results, except its state and payload."""
        facts = self.federation
        said = {
            "data": self.fingerprint,
            "clients": [str(client) for client in facts.clients],
            "federation": [facts.seed, facts.rounds, facts.begun, str(facts.spec), facts.device.type],
            "pretrained": facts.pretrained,
            "devices": [device.memory for device in facts.devices],
            "training": facts.training.model_dump(mode="json"),
            "method": dict(self.method),
            "runtime": self.runtime.model_dump(mode="json"),
            "absent": [sorted(stage.absent) for stage in facts.stages],
            "files": [hashlib.sha256(file.source).hexdigest() for file in self.files],
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def set_up(self, held: FederatedData | None = None) -> tuple[Runner, Hooks]:
        """A runner and hooks on this node, with `held` if it is the same data. Raises ConfigError, or DataError."""
        for file in self.files:
            LOADERS[file.kind](own_files.receive(file))
        device = select_device(self.federation.device.type)
        if held is not None and held.fingerprint == self.fingerprint and held.source == self.source:
            data = held.at(0)
        else:
            data = load(self._source_here(), device)
        if data.fingerprint != self.fingerprint:
            raise DataError(
                f"its data set '{self.source.config.dataset}', or its partition, is not the one this run has; bring "
                "the same files there."
            )
        federation = replace(self.federation, device=device)
        kind = methods.get(str(self.method["name"]))
        method = kind(kind.Config.model_validate(self.method), federation)
        context = TrainingContext(federation, replace(data, source=self.source), FlopCache())
        return inner_runner(context, self.runtime), Hooks(method, federation)

    def _source_here(self) -> Source:
        """The data folder of the run, if it exists here, or this machine's default. Downloads nothing."""
        there = datasets.folder_with(self.source.config.dataset, self.source.folder)
        return self.source if there == self.source.folder else replace(self.source, folder=there)


def _from_anywhere(source: Source) -> Source:
    config = source.config
    paths = {"dataset": datasets.absolute(config.dataset)}
    if isinstance(config.public, str):
        paths["public"] = datasets.absolute(config.public)
    if config.indices is not None:
        paths["indices"] = str(Path(config.indices).absolute())
    return replace(source, config=config.model_copy(update=paths), folder=source.folder.absolute())


def _files(method: str, models: tuple[str, ...], dataset: str) -> tuple[Sent, ...]:
    """The users' files that a method, models, and a data set come from. Files of installed packages are not sent."""
    brought = [
        registry.origin(method),
        registry.origin(dataset, "data set"),
        *(registry.origin(model, "model") for model in models),
        *own_models.origins(models),
    ]
    sent = [own_files.to_send(file.sha256) for file in brought if file is not None]
    return tuple(dict.fromkeys(file for file in sent if file is not None))
