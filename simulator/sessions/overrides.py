"""What a resume may lay over a session's settings: where and how this machine computes. Some of it changes bits."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import checkpoints
from simulator import runners
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, flattened, with_overrides
from simulator.base.sections import RuntimeConfig
from simulator.config import Config
from simulator.sessions.history import SETTINGS, settings_in_force
from simulator.sessions.reader import CheckedReader

PRECISION = "training.precision"
AS_TORCH_HAS_IT = "float32, convolutions in tf32"
"""What CUDA computed in before there was a precision to set."""


def overrides(workers: int | None, device: str | None, assignments: Sequence[str], folder: Path) -> Raw:
    """Settings to lay over a session's, nested. Raises ConfigError for one that is not the machine's.

    The error names the command that changes it in the session `folder`.
    """
    given = {"workers": workers, "device": device}
    raw: Raw = {"runtime": {key: value for key, value in given.items() if value is not None}}
    for assignment in assignments:
        for key in flattened(with_overrides({}, [assignment])):
            if not key.startswith("runtime.") and key != PRECISION:
                raise ConfigError(
                    f"'{key}' cannot change on resume, which takes runtime.… and {PRECISION}. "
                    f"{_elsewhere(key, shlex.quote(assignment), checkpoints.typed(folder))}"
                )
    return with_overrides(raw, assignments)


def _elsewhere(key: str, assignment: str, session: str) -> str:
    """Which command changes a setting."""
    match key.split(".")[0]:
        case "seed" if key != "seed.data":
            return (
                f"Fork the session: `htfl-sim fork {session} --at-round R --session NEW --set {assignment}`."
            )
        case section if section == "method" or section in SETTINGS:
            return f"Leave a switch for the resume: `htfl-sim switch {session} --set {assignment}`."
    return "It is fixed for a session. Start a new one with `htfl-sim run`."


def other_bits(session: CheckedReader, config: Config, on_cuda: bool) -> list[str]:
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
