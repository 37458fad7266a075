"""A user's own figure of how a client answers: a file with a function `metric(scores, labels)` → a number."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simulator.base import own_files
from simulator.base.errors import RAISED, ConfigError
from simulator.base.own_files import OwnFile, Sent
from simulator.base.rng import drawing_from, torch_stream
from simulator.runners.evaluation import Measure

RESERVED = ("accuracy", "loss", "f1", "metrics")
"""Names that each part of the split has in a record."""
_FUNCTIONS: dict[str, Any] = {}


def load(path: Path) -> OwnFile:
    """Let `evaluation.metrics` name the figure of a file by its stem. A second time does nothing.

    Raises ConfigError for a file that cannot be read, fails, or has no function `metric`.
    """
    if path.stem in RESERVED:
        raise ConfigError(f"The metric {path} has the name of a built-in metric. Rename the file.")
    file, module = own_files.load("metric", path)
    function = getattr(module, "metric", None)
    if not callable(function):
        raise ConfigError(f"the metric {path} has no function metric(scores, labels); add one.")
    _FUNCTIONS[path.stem] = function
    return file


def measures(names: Sequence[str], num_classes: int) -> dict[str, Measure]:
    """The functions of these names, each tried on answers that are all right.

    Raises ConfigError for one whose file is not loaded, that fails, or that returns no number.
    """
    found: dict[str, Measure] = {}
    for name in names:
        if name not in _FUNCTIONS:
            raise ConfigError(
                f"evaluation.metrics names '{name}', whose file is not loaded. "
                f"Add `metric={name.removesuffix('.py')}.py`."
            )
        found[name] = _Guarded(name)
        found[name](torch.eye(num_classes), torch.arange(num_classes))
    return found


def origins(names: Sequence[str]) -> list[OwnFile]:
    """The files of these figures."""
    return [file for name in names if (file := own_files.loaded("metric", f"{name}.py")) is not None]


@dataclass(frozen=True)
class _Guarded:
    """A figure whose draws are keyed and whose faults are said. It can be sent to another process, with its file."""

    name: str

    def __call__(self, scores: Tensor, labels: Tensor) -> float | None:
        dtype = torch.get_default_dtype()
        with drawing_from(torch_stream(0, f"metric/{self.name}", device=scores.device)):
            try:
                value = float(_FUNCTIONS[self.name](scores, labels))
            except RAISED as error:
                shapes = f"scores {list(scores.shape)} and labels {list(labels.shape)}"
                raise own_files.failed(f"the metric {self.name}.py, given {shapes},", error) from error
            finally:
                changed = torch.get_default_dtype() != dtype
                torch.set_default_dtype(dtype)
        if changed:
            raise ConfigError(
                f"The metric {self.name}.py changes torch's default dtype, which everything else uses. Convert its "
                "tensors instead, as with scores.double()."
            )
        return value if math.isfinite(value) else None

    def __reduce__(self) -> tuple[Callable[[Sent], "_Guarded"], tuple[Sent | None]]:
        [file] = origins([self.name])
        return _received, (own_files.to_send(file.sha256),)


def _received(sent: Sent) -> _Guarded:
    path = own_files.receive(sent)
    load(path)
    return _Guarded(path.stem)
