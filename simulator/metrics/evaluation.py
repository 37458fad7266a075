"""The metrics in a round's ledger record: accuracy, training, and the held-out parts of clients' data.

Select models on `eval`, and report `test`.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from simulator.base.errors import ConfigError
from simulator.base.record import Accuracy, Flops, Loss, Measured, PartMetrics, Record
from simulator.base.sections import CLASS_CELLS, PARTS, EvaluationConfig
from simulator.data.federated import FederatedData
from simulator.metrics import by_client
from simulator.runners.base import LocalUpdate
from simulator.runners.evaluation import Answers
from simulator.training.phase import CROSS_ENTROPY

Counts = tuple[int, int]
"""Correct answers, test samples."""


def measured_parts(settings: EvaluationConfig, data: FederatedData) -> tuple[str, ...]:
    """The parts whose metrics are recorded: by default all that the split has. Raises ConfigError for one it lacks."""
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


def part_metrics(
    answers: Mapping[int, Mapping[str, Answers]],
    sizes: Mapping[str, Sequence[int]],
    before: Mapping[str, Any] | None,
    only_changed: bool = False,
    absent: Collection[int] = (),
    by_class: bool = False,
) -> dict[str, PartMetrics]:
    """The metrics of every part in `sizes` (samples by client). Clients without new answers keep those of `before`.

    Null stands for a client that was never evaluated on the part or is absent, and for a loss that is not finite.
    With `only_changed`, `per_client` has only the clients that answered now. With `by_class`, answers are also counted
    by class.
    """
    found: dict[str, PartMetrics] = {}
    for name, samples in sizes.items():
        tested = {client: parts[name] for client, parts in answers.items() if parts[name].samples}
        last: Mapping[str, Any] = (before or {}).get(name, {})
        telling = _Telling(samples, only_changed, absent)
        summary = telling.summary
        part: PartMetrics = {
            "accuracy": summary({k: accuracy_of(each) for k, each in tested.items()}, last.get("accuracy")),
            "loss": summary({k: mean_loss(each) for k, each in tested.items()}, last.get("loss")),
            "f1": summary({k: macro_f1(each) for k, each in tested.items()}, last.get("f1")),
        }
        own = last.get("metrics", {})
        if names := dict.fromkeys(name for each in tested.values() for name in each.measured):
            measured = {name: {k: each.measured[name] for k, each in tested.items()} for name in names}
            part["metrics"] = {name: summary(values, own.get(name)) for name, values in measured.items()}
        if by_class:
            # The class, its samples, its hits, and its answers, for the classes that have samples or answers.
            rows, had = {}, last.get("classes")
            for k, each in tested.items():
                counted = enumerate(zip(each.support, each.hits, each.answered, strict=True))
                rows[k] = [[label, *of] for label, of in counted if of[0] or of[2]]
            part["classes"] = {"per_client": telling.per_client(rows, had)}
        found[name] = part
    return found


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
    """Mean of F1 = 2·hits / (answered + support) over the classes that the part has samples of."""
    scores = [
        2 * hits / (answered + support)
        for hits, answered, support in zip(answers.hits, answers.answered, answers.support, strict=True)
        if support
    ]
    return statistics.fmean(scores)


class _Telling(NamedTuple):
    """How a record tells the figures of clients with these samples."""

    samples: Sequence[int]
    only_changed: bool
    absent: Collection[int]

    def summary(
        self, values: Mapping[int, float | None], before: Mapping[str, Any] | None
    ) -> Measured[float]:
        every = by_client.known(before, values, self.absent)
        weights = [self.samples[client] for client in every]
        return {
            "mean": statistics.fmean(every.values()) if every else None,
            "weighted": statistics.fmean(every.values(), weights) if every else None,
            "per_client": self.per_client(values, before),
        }

    def per_client(
        self, values: Mapping[int, Any], before: Mapping[str, Any] | None
    ) -> list[Any] | dict[str, Any]:
        """All known values, or with `only_changed` the new ones."""
        if self.only_changed:  # absent clients lose their values
            left = self.absent and [each for each in by_client.known(before, {}) if each in self.absent]
            return by_client.written({**values, **dict.fromkeys(left)}, None)
        return by_client.written(by_client.known(before, values, self.absent), len(self.samples))


def accuracy(
    counts: Mapping[int, Counts],
    test_sizes: Sequence[int],
    before: Mapping[str, Any] | None,
    only_changed: bool = False,
    absent: Collection[int] = (),
) -> Accuracy:
    """Each client's last measured accuracy, and a summary of them.

    `before` is that of the round before, with the accuracies of all clients evaluated so far. With `only_changed`,
    `per_client` has only the clients that were evaluated now. The summary is always over all.

    `mean` and `std` (population) weigh clients alike; `weighted` weighs them by test samples. `per_client` has null
    for a client that was never evaluated or is absent now. `best_mean` and `best_weighted` are the highest so far.
    The others are null if all clients that were ever evaluated are absent.
    """
    now = {client: correct / samples for client, (correct, samples) in counts.items()}
    values = list(by_client.known(before, now, absent).values())
    summary, best = _Telling(test_sizes, only_changed, absent).summary(now, before), before or {}
    means = summary["mean"], best.get("best_mean")
    weighted = summary["weighted"], best.get("best_weighted", best.get("weighted"))
    return {
        "mean": summary["mean"],
        "std": statistics.pstdev(values) if values else None,
        "weighted": summary["weighted"],
        "min": min(values, default=None),
        "max": max(values, default=None),
        "best_mean": max((each for each in means if each is not None), default=None),
        "best_weighted": max((each for each in weighted if each is not None), default=None),
        "per_client": summary["per_client"],
    }


def losses(updates: list[LocalUpdate], clients: int | None, before: Record | None) -> Loss:
    """Each client's mean training loss of its first phase, or null. No cross-entropy if `before` is older than it."""
    sound = [update for update in updates if not update.diverged]
    firsts = {update.client.id: next(iter(update.losses.values()), None) for update in sound}
    known = {client: loss for client, loss in firsts.items() if loss is not None}
    plain = [update.losses[CROSS_ENTROPY] for update in sound if CROSS_ENTROPY in update.losses]
    mean = sum(known.values()) / len(known) if known else None
    found: Loss = {"mean": mean, "per_client": by_client.written(known, clients)}
    if before is None or "cross_entropy" in before["loss"]:
        found["cross_entropy"] = sum(plain) / len(plain) if plain else None
    return found


def seconds(updates: list[LocalUpdate], clients: int | None) -> list[Any] | dict[str, Any]:
    """Seconds of each client's update; null if it did not take part, or if an earlier process computed it."""
    known = {update.client.id: round(update.seconds, 4) for update in updates if update.seconds is not None}
    return by_client.written(known, clients)


def phase_losses(updates: list[LocalUpdate]) -> dict[str, float]:
    """The mean loss of each phase after a client's first, over the clients that have the phase."""
    found: dict[str, list[float]] = {}
    for update in updates:
        for phase in list(update.losses)[1:]:
            if phase != CROSS_ENTROPY:
                found.setdefault(f"{phase}_loss", []).append(update.losses[phase])
    return {name: sum(losses) / len(losses) for name, losses in found.items()}


def operations(clients: int, server: int) -> Flops:
    """Floating-point operations of training in this round; evaluation is not counted."""
    return {"clients": clients, "server": server, "total": clients + server}
