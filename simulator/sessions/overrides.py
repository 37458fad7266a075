"""What a resume may lay over a session's settings: where and how this machine computes. Some of it changes bits."""

from collections.abc import Sequence

import checkpoints
from simulator import runners
from simulator.config import Config
from simulator.errors import ConfigError
from simulator.nested import Raw, flattened, with_overrides
from simulator.sections import RuntimeConfig
from simulator.sessions.history import settings_in_force

PRECISION = "training.precision"
AS_TORCH_HAS_IT = "float32, convolutions in tf32"
"""What CUDA computed in before there was a precision to set."""


def overrides(workers: int | None, device: str | None, assignments: Sequence[str]) -> Raw:
    """Settings to lay over a session's, nested; raises ConfigError for one that is not the machine's."""
    given = {"workers": workers, "device": device}
    raw: Raw = {"runtime": {key: value for key, value in given.items() if value is not None}}
    for key in flattened(with_overrides({}, assignments)):
        if not key.startswith("runtime.") and key != PRECISION:
            raise ConfigError(
                f"'{key}' is the run's, and not the machine's: a resume takes runtime.… and {PRECISION}. "
                "Use `htfl-sim switch` for settings that change while it runs, or `htfl-sim fork`."
            )
    return with_overrides(raw, assignments)


def other_bits(session: checkpoints.SessionReader, config: Config, on_cuda: bool) -> list[str]:
    """What of a configuration gives other bits than the session's settings in force, as 'precision float32 → bf16'."""
    history = session.manifest().history if session.rounds() else []
    raw = settings_in_force(session.document, history)
    then = raw["training"].get("precision", AS_TORCH_HAS_IT if on_cuda else "float32")
    now = config.training.precision
    ways = [_sums(RuntimeConfig.model_validate(raw.get("runtime", {}))), _sums(config.runtime)]
    return [
        f"{fact} {before} → {after}"
        for fact, before, after in (("precision", then, now), ("clients", *ways))
        if before != after
    ]


def _sums(settings: RuntimeConfig) -> str:
    return runners.get(settings.runner).sums(settings)
