"""The metrics that `evaluation.metrics` names: built-in ones, and files with a function `metric(scores, labels)`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulator.base import own_files
from simulator.base.errors import RAISED, ConfigError, nearest
from simulator.base.own_files import OwnFile, Sent
from simulator.base.rng import drawing_from, torch_stream
from simulator.runners.evaluation import Measure


def balanced_accuracy(scores: Tensor, labels: Tensor) -> float | None:
    """The mean recall over the classes that the part has samples of."""
    hits = (scores.argmax(1) == labels).double()
    return float(torch.stack([hits[labels == label].mean() for label in labels.unique()]).mean())


def auroc(scores: Tensor, labels: Tensor) -> float | None:
    """The area under the ROC curve of each class against the others: see `_against_others`."""
    from sklearn.metrics import roc_auc_score

    return _against_others(roc_auc_score, scores, labels)


def auprc(scores: Tensor, labels: Tensor) -> float | None:
    """The average precision of each class against the others: see `_against_others`."""
    from sklearn.metrics import average_precision_score

    return _against_others(average_precision_score, scores, labels)


def _against_others(area: Callable[[Any, Any], float], scores: Tensor, labels: Tensor) -> float | None:
    """Mean area over the classes with samples, by softmax. None for a single class, and if scores are not finite."""
    answers, truth = scores.double().softmax(1).cpu().numpy(), labels.cpu().numpy()
    held = np.unique(truth)
    if len(held) < 2 or not np.isfinite(answers).all():
        return None
    return float(np.mean([area(truth == label, answers[:, label]) for label in held]))


BUILT_IN: dict[str, Measure] = {each.__name__: each for each in (balanced_accuracy, auroc, auprc)}
PAPERS = {"auroc": "AUC", "auprc": "average precision"}
"""What metrics are called elsewhere."""
RESERVED = ("accuracy", "loss", "f1", "metrics", *BUILT_IN)
"""Names that each part of the split has in a record, or may have."""
_FUNCTIONS: dict[str, Any] = {}


def load(path: Path) -> OwnFile:
    """Let `evaluation.metrics` name the metric of a file by its stem. Raises ConfigError for a file without one."""
    if path.stem in RESERVED:
        raise ConfigError(f"The metric {path} has the name of a built-in metric. Rename the file.")
    file, module = own_files.load("metric", path)
    function = getattr(module, "metric", None)
    if not callable(function):
        raise ConfigError(f"the metric {path} has no function metric(scores, labels); add one.")
    _FUNCTIONS[path.stem] = function
    return file


def measures(names: Sequence[str], num_classes: int) -> dict[str, Measure]:
    """The functions of these names. Those of files are tried. Raises ConfigError for one not loaded, or failing."""
    found: dict[str, Measure] = {}
    for name in names:
        if name in BUILT_IN:
            found[name] = BUILT_IN[name]
            continue
        if name not in _FUNCTIONS:
            hint = nearest(name, BUILT_IN, PAPERS) or f" Add `metric={name.removesuffix('.py')}.py`."
            raise ConfigError(
                f"evaluation.metrics names '{name}', which is neither built in ({', '.join(BUILT_IN)}) nor a loaded "
                f"file.{hint}"
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
