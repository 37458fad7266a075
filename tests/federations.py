"""Small federations for tests: generated images, tiny models, a few clients, and what to compare afterwards."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

import checkpoints
from simulator import methods
from simulator.base import rng
from simulator.base.nested import merged
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors
from simulator.config import Config
from simulator.contract.promises import bits as bits
from simulator.contract.promises import state_bits as state_bits
from simulator.contract.promises import untimed as untimed
from simulator.data import datasets
from simulator.data.federated import ClientData, FederatedData
from simulator.data.inputs import ImageInputs
from simulator.data.samples import ArraySet, ImageSet, LabeledSet, SampleSet, joined
from simulator.data.specs import ImageSpec, InputSpec, Kind, SignalSpec, TableSpec, TokenSpec
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import ClientTrained, Event, Observer, unobserved
from simulator.engine.round import Engine
from simulator.methods import Aggregated, Method, Uplink
from simulator.methods.hooks import Hooks
from simulator.models import GROUPS, ImageShape
from simulator.models.federation import ClientInfo, Federation
from simulator.runners import Job, LocalUpdate, Work
from simulator.runners.local import server_update, update
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.trainer import TrainingContext

CPU = torch.device("cpu")
TINY = ("tiny_cnn", "tiny_mlp")
TINY_GROUPS = ("tiny", "tiny_resnet", "tiny_widths")
DIGIT = ImageShape(1, 8, 8)
OF_IMAGES = ("fedktl", "fedkwaz", "pfedes")
"""Methods that take no other kind of samples."""


@functools.cache
def generated(classes: int = 4, per_class: int = 40, side: int = 8, channels: int = 1) -> ImageSet:
    """Noise around one pattern per class: learnable, and made in no time."""
    draw = rng.numpy_stream(0, "tests/images")
    patterns = draw.integers(0, 256, (classes, side, side, channels))
    labels = np.arange(classes * per_class) % classes
    noise = draw.integers(-60, 61, (len(labels), side, side, channels))
    images = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
    return joined((images, labels), None, tuple(f"class {label}" for label in range(classes)))


@functools.cache
def group_for(name: str) -> str:
    """The first group of tiny models that meets the method's needs."""
    method = methods.get(name)
    for group in TINY_GROUPS:
        facts = federation(GROUPS[group], samples=[100] * len(GROUPS[group]))
        if method(method.Config(name=name), facts).unmet_need() is None:
            return group
    raise AssertionError(f"no group of tiny models meets the needs of '{name}'")


@functools.cache
def data_for(name: str) -> dict[str, Any]:
    """A share of public samples for a built-in method that needs some."""
    method = methods.get(name)
    if not method.__module__.startswith("simulator.methods."):
        return {}
    facts = federation(TINY, samples=[100] * len(TINY), public=0)
    need = method(method.Config(name=name), facts).unmet_need()
    return {"public": 0.2} if need is not None and "public samples" in need else {}


def config(name: str = "standalone", /, **sections: Any) -> Config:
    """Four clients with tiny models, three of them sampled in each of three rounds; no CKA. `sections` change that."""
    base = {
        "seed": 7,
        "rounds": 3,
        "method": {"name": name},
        "data": data_for(name),
        "federation": {"clients": 4, "participation": 0.75, "group": group_for(name)},
        "training": {"batch_size": 16, "lr": 0.1},
        "cka": {"every": 0},
        "runtime": {"workers": 1, "device": "cpu"},
    }
    return Config.read(merged(base, sections))


@functools.cache
def samples(kind: Kind) -> ArraySet:
    """160 samples of four classes with a pattern each: texts of 0 to 10 words and padding, signals, or table rows."""
    draw = rng.numpy_stream(0, "tests/samples")
    labels = np.arange(160) % 4
    if kind == "tokens":
        own = 1 + 7 * labels[:, None] + draw.integers(0, 7, (160, 10))
        tokens = np.where(draw.random((160, 10)) < 0.75, own, draw.integers(1, 29, (160, 10)))
        tokens[np.arange(10) >= draw.integers(0, 11, 160)[:, None]] = 0
        return ArraySet.of(TokenSpec(10, 29), (tokens, labels))
    shape = (3, 20) if kind == "signal" else (6,)
    patterns = draw.standard_normal((4, *shape))
    spec = SignalSpec(*shape) if kind == "signal" else TableSpec(*shape)
    return ArraySet.of(spec, (patterns[labels] + 0.5 * draw.standard_normal((160, *shape)), labels))


def saved(kind: Kind, folder: Path) -> str:
    """The path of an `.npz` with these samples."""
    held, file = samples(kind), folder / f"{kind}.npz"
    key = {"tokens": "tokens", "signal": "signals", "table": "features"}[kind]
    vocabulary = {"vocabulary": held.spec.vocabulary} if isinstance(held.spec, TokenSpec) else {}
    np.savez(file, **{key: held.values, "labels": held.labels, **vocabulary})
    return str(file)


def formed(samples: LabeledSet, held: np.ndarray[Any, Any] | None = None) -> Any:
    """Samples in the form that follows from those at `held`, by default from the data set's training samples."""
    return samples.learned(np.arange(samples.test_from) if held is None else held)(samples)


def on_images(held: SampleSet) -> Any:
    """A context in which every data set is these images, or other samples.

    Each read makes a copy, because a test may write into it.
    """
    key = "images" if isinstance(held, ImageSet) else "array"
    return mock.patch.object(
        datasets,
        "load",
        side_effect=lambda *_, **__: replace(held, **{key: held.values.copy()}),  # type: ignore[type-var]
    )


def built(config: Config, held: SampleSet | None = None) -> Built:
    """The parts of that configuration on these samples, or on generated images."""
    with on_images(held or generated()):
        return build(config, Path())


def settings(parts: Built, **sections: Any) -> Built:
    """The same data and models under other settings."""
    config = Config.read(merged(parts.engine._config.to_json(), sections))
    return rebuild(parts, config)


def run(engine: Engine, rounds: int, observe: Observer = unobserved) -> State:
    """The state after so many rounds."""
    state = engine.initial_state()
    for _ in range(rounds):
        state = engine.round(state, observe)
    return state


def replaced(state: State, **changes: Any) -> State:
    """The state with other tensors."""
    return replace(state, **changes)


def federation(
    architectures: Sequence[str],
    samples: Sequence[int] | None = None,
    classes: Sequence[tuple[int, ...]] | None = None,
    num_classes: int = 2,
    shape: InputSpec = DIGIT,
    training: TrainingConfig | None = None,
    rounds: int = 3,
    public: int = 10,
) -> Federation:
    """A federation as stated, without any data: for the parts of a method that only the server sees."""
    clients = tuple(
        ClientInfo(
            number,
            architecture,
            samples[number] if samples else 1,
            classes[number] if classes else tuple(range(num_classes)),
        )
        for number, architecture in enumerate(architectures)
    )
    settings = training or TrainingConfig()
    return Federation(
        7, rounds, num_classes, shape, clients, settings, CPU, public=public, public_classes=num_classes
    )


def pixels(images: Tensor, labels: Tensor, clients: Sequence[Tensor], num_classes: int) -> FederatedData:
    """Data whose normalized pixels are the bytes of `images` [n, h, w, c]; clients are given by their indices."""
    channels = images.shape[3]
    held = [labels[indices].unique(return_counts=True) for indices in clients]
    return FederatedData(
        inputs=ImageInputs(
            images.to(torch.uint8),
            ImageSpec(channels, images.shape[1], images.shape[2]),
            scale=torch.ones(channels),
            shift=torch.zeros(channels),
        ),
        labels=labels,
        classes=tuple(f"class {label}" for label in range(num_classes)),
        clients=tuple(
            ClientData(indices, indices[:0], indices, tuple(present.tolist()), tuple(counts.tolist()))
            for indices, (present, counts) in zip(clients, held, strict=True)
        ),
        fingerprint="",
    )


def context(parts: Built) -> TrainingContext:
    """Where the clients of these parts work."""
    return TrainingContext(parts.federation, parts.data, FlopCache())


def updated(
    parts: Built, client: int, tensors: Mapping[str, Tensor], payload: Tensors, round: int = 1
) -> LocalUpdate:
    """What client k brings out of round t."""
    hooks = Hooks(parts.method, parts.federation)
    info = parts.federation.clients[client]
    return update(context(parts), info, Work(hooks, round, {client: Job(tensors, payload)}))


def served(
    method: Method, server: Mapping[str, Tensor], uplinks: Sequence[Uplink], round: int = 1
) -> Aggregated:
    """The server's state and figures after its part of round t: aggregation, and its own training if it has any."""
    place = TrainingContext(method.federation, None, FlopCache())  # the server has no data
    return server_update(Hooks(method, method.federation), place, round, server, uplinks).aggregated


def local(parts: Built, client: int, tensors: Mapping[str, Tensor], round: int = 1) -> LocalClient:
    """Client k at work in round t."""
    return LocalClient(context(parts), parts.federation.clients[client], round, tensors)


def committed(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A session's ledger without timing, and the object hash of every state after its last checkpoint."""
    session = CheckedReader(folder)
    states = {name: ref.sha256 for name, ref in session.manifest().states.items()}
    return [untimed(record) for record in session.records()], states


def stopped(folder: Path, config: Config, round: int) -> Path:
    """A session that was stopped after the first client of this round."""

    def stop(event: Event) -> None:
        if isinstance(event, ClientTrained) and (event.round, event.done) == (round, 1):
            checkpoints.post(folder, "stop")

    Session.create(config, folder, folder).run(stop)
    return folder


def assert_a_stop_changes_nothing(config: Config, folder: Path, stop: Callable[[Session], bool]) -> Path:
    """A session that stops when it is told, and is resumed, ends as one left alone. Returns the latter's folder."""
    with Session.create(config, folder / "alone", folder) as alone:
        alone.run()
    with Session.create(config, folder / "stopped", folder) as begun:
        assert begun.run(stop=lambda: "SIGTERM" if stop(begun) else None).state != "finished"
    with Session.resume(folder / "stopped", folder) as resumed:
        resumed.run()
    assert committed(folder / "stopped") == committed(folder / "alone")
    return folder / "alone"
