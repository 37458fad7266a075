"""CKA between the clients of a session, after the fact: from the models in a kept checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from checkpoints import SessionUnreadable
from simulator import methods, runners
from simulator.builder import Built, build
from simulator.config import Config
from simulator.methods import plugins
from simulator.methods.hooks import Hooks
from simulator.metrics import similarity
from simulator.nested import Raw, merged, with_method
from simulator.runners import Job
from simulator.runners.evaluation import answering
from simulator.sessions.history import settings_in_force
from simulator.sessions.metadata import check_data, check_models, read_config
from simulator.sessions.reader import SessionReader
from simulator.sessions.states import specs, trained
from simulator.tensors import Tensors, named, of_module, part
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force

Model = Literal["local", "aggregated"]


def of_checkpoint(
    folder: Path,
    data_dir: Path,
    round: int | None = None,
    *,
    images: int = similarity.PROBE,
    layers: Sequence[str] | None = None,
    debiased: bool = False,
    model: Model | None = None,
    untrained: bool = False,
    device: str | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """The clients' CKA after a round (None: the newest kept), as `similarity.measure` gives it, with the round.

    With the run's own settings these are the numbers the run recorded. Nothing is written, no lock is taken, and one
    client's model per worker is in memory at a time. `model` None compares what the run evaluates; `untrained` counts
    clients that have never taken part. `device` and `workers` replace the recorded ones. Raises SessionUnreadable
    (round not kept, damaged), ConfigError (no such layer), DataError, or SessionError (other data, no plugin).
    """
    found = opened(folder, data_dir, round, model, {"device": device, "workers": workers})
    data, federation, *_ = found.built
    chosen = similarity.common_layers(federation, layers)
    if found.model == "local" and not untrained:
        chosen = similarity.among(chosen, trained(found.session.records()[: found.round]))
    probe = similarity.probe(data, found.config.seed, images)
    runtime = found.config.runtime
    runner = runners.get(runtime.runner)(found.context, runtime)
    try:
        with tf32_in_force(found.config.training.precision, federation.device):
            measured = similarity.measure(found.context, runner.each, found.tensors, chosen, probe, debiased)
        return {"round": found.round} | measured
    finally:
        runner.close()


@dataclass(frozen=True)
class Opened:
    """A session's parts as they were after a kept round; `tensors` gives a client's model."""

    session: SessionReader
    round: int
    config: Config
    built: Built
    context: TrainingContext
    model: Model
    tensors: Callable[[int], Tensors]


def opened(folder: Path, data_dir: Path, round: int | None, model: Model | None, runtime: Raw) -> Opened:
    """A session after a kept round (None: the newest), to look at its clients' models. Raises like `of_checkpoint`."""
    session = SessionReader(folder)
    manifest = session.manifest(round)
    raw = settings_in_force(session.document, manifest.history)
    compared = model or _compared(folder, raw, manifest.history)
    check_models(session)
    config = _config(session, raw, compared, runtime)
    built = build(config, data_dir, runs=False)
    check_data(session, config, built)
    context = TrainingContext(built.federation, built.data, FlopCache())
    tensors = {"local": _local, "aggregated": _aggregated}[compared](session, built, context, manifest.round)
    return Opened(session, manifest.round, config, built, context, compared, tensors)


def _compared(folder: Path, raw: Raw, history: Sequence[Raw]) -> Model:
    """Whose models the run compares: as its settings say, else as its method is evaluated."""
    said: Model | None = raw["cka"].get("model") or raw["evaluation"].get("model")
    if said is not None:
        return said
    plugins.check(folder, str(raw["method"]["name"]), (history[-1] if history else {}).get("plugin"))
    return methods.get(str(raw["method"]["name"])).answers


def _config(session: SessionReader, raw: Raw, compared: Model, runtime: Raw) -> Config:
    """The session's settings, without the weights that its clients began with and the user's own figures.

    Where only trained models are read, the method, perhaps a plugin's, need not be at hand.
    """
    given = {key: value for key, value in runtime.items() if value is not None}
    raw = merged(raw, {"runtime": given, "federation": {"pretrained": False}, "evaluation": {"metrics": []}})
    return read_config(session, with_method(raw, "standalone") if compared == "local" else raw)


def _local(
    session: SessionReader, built: Built, context: TrainingContext, round: int
) -> Callable[[int], Tensors]:
    """The models that local training left."""
    federation = built.federation

    def tensors(client: int) -> Tensors:
        info = federation.clients[client]
        found = named("model", part(session.load(round, f"client/{client}"), "model"))
        expected = named("model", of_module(federation.architecture_of(info)))
        if specs(found) != specs(expected):
            raise SessionUnreadable(
                f"{session.folder}, round {round}: the model of {info} is not a {info.architecture}."
            )
        return {name: tensor.to(federation.device) for name, tensor in found.items()}

    return tensors


def _aggregated(
    session: SessionReader, built: Built, context: TrainingContext, round: int
) -> Callable[[int], Tensors]:
    """The models that clients would receive next."""
    hooks, like = Hooks(built.method, built.federation), built.engine.initial_state()
    device = built.federation.device

    def loaded(name: str, expected: Tensors) -> Tensors:
        found = session.load(round, name, specs(expected))
        return {key: tensor.to(device) for key, tensor in found.items()}

    server = loaded("server", like.server)

    def tensors(client: int) -> Tensors:
        info = built.federation.clients[client]
        own = loaded(f"client/{client}", like.clients[client])
        job = Job(own, hooks.downlink(round + 1, server, info))
        return answering(hooks, context, info, round + 1, job).tensors()

    return tensors
