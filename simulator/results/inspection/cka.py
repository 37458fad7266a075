"""CKA between the clients of a session, after the fact: from the models in a kept checkpoint."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from checkpoints import SessionUnreadable
from simulator import methods, runners
from simulator.base.documents import Entry
from simulator.base.nested import Raw, merged, with_method
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.config import Config
from simulator.engine.builder import Built, build
from simulator.engine.client_states import initial_model
from simulator.methods import plugins
from simulator.methods.hooks import Hooks
from simulator.metrics import by_client, cka_matrices
from simulator.runners import Job
from simulator.runners.evaluation import answering
from simulator.sessions import metadata
from simulator.sessions.history import settings_in_force
from simulator.sessions.metadata import check_data, check_models, read_config
from simulator.sessions.reader import CheckedReader, Manifest
from simulator.sessions.states import check_draws, name_of, restore, specs
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force

Model = Literal["local", "aggregated"]


def of_checkpoint(
    folder: Path,
    data_dir: Path,
    round: int | None = None,
    *,
    images: int = cka_matrices.PROBE,
    layers: Sequence[str] | None = None,
    debiased: bool = False,
    model: Model | None = None,
    untrained: bool = False,
    device: str | None = None,
    workers: int | None = None,
    done: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """The clients' CKA after a round (None: the newest kept), as `similarity.measure` gives it, with the round.

    With the run's own settings these are the numbers the run recorded. Nothing is written, no lock is taken, and one
    client's model per worker is in memory at a time. `model` None compares what the run evaluates; `untrained` counts
    clients that have never taken part. `device` and `workers` replace the recorded ones. `done` receives the number of
    loaded models, and of all, from any thread. Raises SessionUnreadable (round not kept, damaged), ConfigError (no such
    layer), DataError, or SessionError (other data, no plugin).
    """
    found = opened(folder, data_dir, round, model, {"device": device, "workers": workers})
    trained = by_client.trained(found.session.records()[: found.round])
    chosen, most = cka_matrices.compared(
        found.context.federation,
        found.config.training_seed,
        layers,
        None if found.model == "aggregated" or untrained else trained,
        found.config.cka.clients,
    )
    probe = cka_matrices.probe(found.built.data, found.config.training_seed, images)
    number, loaded = len(set().union(*chosen.values())), itertools.count(1)

    def tensors(client: int) -> Tensors:
        model = found.tensors(client)
        if done is not None:
            done(next(loaded), number)
        return model

    runtime = found.config.runtime
    runner = runners.get(runtime.runner)(found.context, runtime)
    try:
        with tf32_in_force(found.config.training.precision, found.context.federation.device):
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


def opened(folder: Path, data_dir: Path, round: int | None, model: Model | None, runtime: Raw) -> Opened:
    """A session after a kept round (None: the newest), to look at its clients' models. Raises like `of_checkpoint`."""
    session = CheckedReader(folder)
    manifest = session.manifest(round)
    raw = settings_in_force(session.document, manifest.history)
    compared = model or _compared(folder, raw, manifest.history)
    check_models(session)
    models = [file for file in session.document.get("files", []) if file["kind"] == "model"]
    metadata.check_files(folder, {}, models)
    drawn_anew = manifest.initial is not None and compared == "aggregated"
    config = _config(session, raw, compared, runtime, drawn_anew)
    built = build(config, data_dir, runs=False)
    check_data(session, config, built.data)
    context = TrainingContext(built.federation, built.data, FlopCache()).at(manifest.round)
    local = compared == "local"
    tensors = (
        _local(session, manifest, built, raw["federation"].get("pretrained", False))
        if local
        else _aggregated(session, manifest, built, context)
    )
    return Opened(session, manifest.round, config, built, context, compared, tensors)


def _compared(folder: Path, raw: Raw, history: Sequence[Entry]) -> Model:
    """Whose models the run compares: as its settings say, else as its method is evaluated."""
    said: Model | None = raw["cka"].get("model") or raw["evaluation"].get("model")
    if said is not None:
        return said
    plugins.check(folder, str(raw["method"]["name"]), history[-1].get("plugin") if history else None)
    return methods.get(str(raw["method"]["name"])).answers


def _config(
    session: CheckedReader, raw: Raw, compared: Model, runtime: Raw, pretrained: bool = False
) -> Config:
    """The session's settings, without the user's own figures and, unless wanted, the weights that clients began with.

    Where only trained models are read, the method, perhaps a plugin's, need not be at hand.
    """
    given = {key: value for key, value in runtime.items() if value is not None}
    without = {} if pretrained else {"federation": {"pretrained": False}}
    raw = merged(raw, {"runtime": given, "evaluation": {"metrics": []}, **without})
    return read_config(session, with_method(raw, "standalone") if compared == "local" else raw)


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
        expected = named("model", of_module(federation.architecture_of(info)))
        if specs(found) != specs(expected):
            raise SessionUnreadable(
                f"{session.folder}, round {manifest.round}: the model of {info} is not a {info.architecture}."
            )
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
