"""What a record of the ledger has on one part of the split, as types. `record` puts them together."""

import re
from dataclasses import dataclass
from typing import Annotated, Generic, NotRequired, TypeVar

from typing_extensions import TypedDict

from checkpoints.schema import FirstFault, Holds, ListOrNames, Many, Named, Natural, Share, Spelled, Within

V = TypeVar("V")


@dataclass(frozen=True)
class When:
    """The key is there where this setting asks for it."""

    setting: str


Client = Annotated[str, Spelled(re.compile("0|[1-9][0-9]{0,8}"))]
ByClient = Annotated[
    Annotated[list[V], FirstFault()] | Annotated[dict[Client, V], FirstFault()], ListOrNames()
]
"""A figure of each client in their order, or of those that are named."""


def _counts_classes(rows: list[list[int]]) -> bool:
    """Whether classes ascend, and no class has more correct answers than samples or answers."""
    before = -1
    for label, samples, correct, answered in rows:
        if label <= before or correct > samples or correct > answered:
            return False
        before = label
    return True


ClassRow = Annotated[list[Natural], Within(min_length=4, max_length=4)]
"""A class, its samples, those answered correctly, and the samples of any class that were assigned to it."""
ClassRows = Annotated[Many[ClassRow], Holds(_counts_classes, "does not count classes")]


class Measured(TypedDict, Generic[V]):
    """One measure on one part of the split."""

    mean: V | None
    """mean over clients"""
    weighted: V | None
    """weighted by the clients' samples of the part"""
    per_client: ByClient[V | None]
    """value of each client"""


class ByClass(TypedDict):
    per_client: ByClient[ClassRows | None]
    """for each client a list of `[class, samples, correct, answered]`, by class. `answered` counts the samples of
    any class that the model assigned to the class. Classes without samples and answers are left out. Null for a client
    that was never evaluated or is absent"""


class PartMetrics(TypedDict):
    """What was measured on one part of the split."""

    accuracy: Measured[Share]
    """accuracy on a held-out part, `test` or `eval`"""
    loss: Measured[float]
    """mean cross-entropy on the part"""
    f1: Measured[Share]
    """macro-F1 on the part, the mean F1 of its classes"""
    metrics: NotRequired[Annotated[Named[Measured[float]], When("evaluation.metrics")]]
    """a metric that `evaluation.metrics` names ([A metric](your-own.md#a-metric))"""
    classes: NotRequired[Annotated[ByClass, When("evaluation.classes")]]
    """counts by class ([below](#counts-by-class))"""


def measures_of(part: PartMetrics) -> dict[str, Measured[float]]:
    """All that was measured on a part of the split, by name; the user's own as `metrics.NAME`."""
    known = {"accuracy": part["accuracy"], "loss": part["loss"], "f1": part["f1"]}
    return known | {f"metrics.{name}": own for name, own in part.get("metrics", {}).items()}
