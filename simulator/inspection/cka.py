"""CKA between the clients of a session, after the fact: from the models in a kept checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import SessionUnreadable
from simulator import runners
from simulator.builder import build
from simulator.config import Config
from simulator.metrics import similarity
from simulator.nested import merged, with_method
from simulator.sessions.metadata import check_data
from simulator.sessions.states import specs
from simulator.tensors import Tensors, named, of_module, part
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache


def of_checkpoint(
    folder: Path,
    data_dir: Path,
    round: int | None = None,
    *,
    images: int = similarity.PROBE,
    layers: Sequence[str] | None = None,
    debiased: bool = False,
    device: str | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """The clients' CKA after a round (None: the newest kept), as `similarity.measure` gives it, with the round.

    With the run's own settings these are the numbers the run recorded. Nothing is written, no lock is taken, and one
    client's model per worker is in memory at a time. `device` and `workers` replace the recorded ones. Raises
    SessionUnreadable (round not kept, damaged), ConfigError (no such layer), DataError, or SessionError (other data).
    """
    session = checkpoints.SessionReader(folder)
    runtime = {key: value for key, value in (("device", device), ("workers", workers)) if value is not None}
    # Only trained models are read: neither the method, perhaps a plugin's, nor published weights need be at hand.
    patch = {"runtime": runtime, "federation": {"pretrained": False}}
    raw = merged(session.document["config"], patch)
    config = Config.read(with_method(raw, "standalone"))
    built = build(config, data_dir)
    check_data(session, config, built)
    data, federation, *_ = built
    chosen = similarity.common_layers(federation, layers)
    probe = similarity.probe(data, config.seed, images)
    after = session.manifest(round).round

    def model(client: int) -> Tensors:
        info = federation.clients[client]
        tensors = named("model", part(session.load(after, f"client/{client}"), "model"))
        expected = named("model", of_module(federation.architecture_of(info)))
        if specs(tensors) != specs(expected):
            raise SessionUnreadable(
                f"{folder}, round {after}: the model of {info} is not a {info.architecture}."
            )
        return {name: tensor.to(federation.device) for name, tensor in tensors.items()}

    context = TrainingContext(federation, data, FlopCache())
    runner = runners.get(config.runtime.runner)(context, config.runtime)
    try:
        return {"round": after} | similarity.measure(context, runner.each, model, chosen, probe, debiased)
    finally:
        runner.close()
