"""The ledger's figures of the held-out parts of clients' data: accuracy, loss and macro-F1 of each.

A record's `evaluation` has, for every part that is measured, accuracy, loss and macro-F1, each as mean, mean weighted
by the part's samples, and per client. Beside them it has the counts of each client by class. Models are selected on
`eval`; `test` is for what is then reported.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.part_record import Measured, PartMetrics
from simulator.base.sections import CLASS_CELLS, PARTS, EvaluationConfig
from simulator.data.federated import FederatedData
from simulator.metrics import by_client
from simulator.runners.evaluation import Answers


def measured_parts(settings: EvaluationConfig, data: FederatedData) -> tuple[str, ...]:
    """The parts whose figures are recorded: the configured ones, by default all that the split has.

    Raises ConfigError for one that it lacks.
    """
    there = tuple(name for name in PARTS if any(len(client.part(name)) for client in data.clients))
    if settings.parts is None:
        return there
    if missing := [name for name in settings.parts if name not in there]:
        raise ConfigError(
            f"evaluation.parts names '{missing[0]}', a part that no client has here; "
            "leave it out, or use a data.split of three parts, as 8:1:1."
        )
    return tuple(name for name in PARTS if name in settings.parts)


def counts_classes(settings: EvaluationConfig, clients: int, classes: int) -> bool:
    """Whether records count answers by class."""
    return clients * classes <= CLASS_CELLS if settings.classes is None else settings.classes


def figures(
    answers: Mapping[int, Mapping[str, Answers]],
    sizes: Mapping[str, Sequence[int]],
    before: Mapping[str, Any] | None,
    news: bool = False,
    absent: Collection[int] = (),
    by_class: bool = False,
) -> dict[str, PartMetrics]:
    """Of every part in `sizes` (samples by client), what was answered now; other clients stay as they were `before`.

    Null stands for a client that was never evaluated on the part or is absent, and for a loss that is not finite.
    With `news`, `per_client` names those alone who answered now. With `by_class`, answers are also counted by class.
    """
    return {
        name: _part(
            {client: parts[name] for client, parts in answers.items() if parts[name].samples},
            samples,
            (before or {}).get(name, {}),
            news,
            absent,
            by_class,
        )
        for name, samples in sizes.items()
    }


def _part(
    answers: Mapping[int, Answers],
    samples: Sequence[int],
    before: Mapping[str, Any],
    news: bool,
    absent: Collection[int],
    by_class: bool,
) -> PartMetrics:
    known = {
        measure: _summary(
            {client: of(each) for client, each in answers.items()}, samples, before.get(measure), news, absent
        )
        for measure, of in _MEASURES.items()
    }
    own = before.get("metrics", {})
    names = dict.fromkeys(name for each in answers.values() for name in each.measured)
    metrics = {
        name: _summary(
            {client: each.measured[name] for client, each in answers.items()},
            samples,
            own.get(name),
            news,
            absent,
        )
        for name in names
    }
    part: PartMetrics = {"accuracy": known["accuracy"], "loss": known["loss"], "f1": known["f1"]}
    if metrics:
        part["metrics"] = metrics
    if by_class:
        rows = {client: _by_class(each) for client, each in answers.items()}
        part["classes"] = {"per_client": _by_client(rows, len(samples), before.get("classes"), news, absent)}
    return part


def counts(answers: Mapping[int, Mapping[str, Answers]]) -> dict[int, tuple[int, int]]:
    """Correct answers and samples of the test part, by client."""
    return {client: (parts["test"].correct, parts["test"].samples) for client, parts in answers.items()}


def accuracy_of(answers: Answers) -> float:
    """Share of correct answers."""
    return answers.correct / answers.samples


def mean_loss(answers: Answers) -> float | None:
    """Mean cross-entropy of the scores; None where it is not finite, as for a class that has no score."""
    loss = answers.loss / answers.samples
    return loss if math.isfinite(loss) else None


def macro_f1(answers: Answers) -> float:
    """Mean over the classes that the part has of F1 = 2·hits / (answered + support).

    A class the client has no sample of has no recall and is left out, also where it was answered: that counts against
    the classes that should have been.
    """
    scores = [
        2 * hits / (answered + support)
        for hits, answered, support in zip(answers.hits, answers.answered, answers.support, strict=True)
        if support
    ]
    return statistics.fmean(scores)


def _by_class(answers: Answers) -> list[list[int]]:
    """The class, its samples, its hits, and its answers, for the classes that have samples or answers."""
    counts = zip(answers.support, answers.hits, answers.answered, strict=True)
    return [[label, *each] for label, each in enumerate(counts) if each[0] or each[2]]


_MEASURES = {"accuracy": accuracy_of, "loss": mean_loss, "f1": macro_f1}


def _summary(
    values: Mapping[int, float | None],
    samples: Sequence[int],
    before: Mapping[str, Any] | None,
    news: bool,
    absent: Collection[int],
) -> Measured[float]:
    every = by_client.known(before, values, absent)
    weights = [samples[client] for client in every]
    return {
        "mean": statistics.fmean(every.values()) if every else None,
        "weighted": statistics.fmean(every.values(), weights) if every else None,
        "per_client": _by_client(values, len(samples), before, news, absent),
    }


def _by_client(
    values: Mapping[int, Any],
    clients: int,
    before: Mapping[str, Any] | None,
    news: bool,
    absent: Collection[int],
) -> list[Any] | dict[str, Any]:
    """What a record has by client: all values that are known, or with `news` those of now."""
    if news:
        return by_client.written(by_client.new(before, values, absent), None)
    return by_client.written(by_client.known(before, values, absent), clients)
