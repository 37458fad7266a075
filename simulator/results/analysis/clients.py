"""Single clients: how they change, when they were best, what went wrong with them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.base.record import Record
from simulator.base.sections import MANY
from simulator.metrics import by_client
from simulator.metrics.significance import FEW, Z, standard_errors
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import Curves
from simulator.results.analysis.static_names import assigned

Counts = NDArray[np.int64]
FALL = 0.2
"""An accuracy that a round lowers by more than this is worth an event."""


def listed_clients(clients: int, took_part: Collection[int], always: Collection[int] = ()) -> list[int]:
    """Whom lists and charts show, ascending: everybody, or of more than MANY clients MANY, and those in `always`.

    Those that have taken part come first; the others are drawn by their number alone, so a list keeps whom it had.
    """
    if clients <= MANY:
        return list(range(clients))
    order = np.random.Generator(np.random.Philox(clients)).permutation(clients)
    later = np.ones(clients, bool)
    later[np.fromiter(took_part, np.int64)] = False
    first = order[np.argsort(later[order], kind="stable")][:MANY]
    return sorted({*first.tolist(), *(client for client in always if client < clients)})


def accuracy_changes(curves: Curves) -> Array:
    """[N] each client's accuracy after the last round less the one before it; NaN without either."""
    if curves.rounds < 2:
        return np.full(curves.clients, np.nan)
    return np.asarray(curves.accuracy.after(curves.rounds) - curves.accuracy.after(curves.rounds - 1))


def lowest_client(curves: Curves) -> tuple[int, float] | None:
    """The client of the lowest accuracy after the last round, and that; None where there is none."""
    last = curves.accuracy.after(curves.rounds) if curves.rounds else np.empty(0)
    if not np.isfinite(last).any():
        return None
    client = int(np.nanargmin(last))
    return client, float(last[client])


def fell_most(curves: Curves, tested: Counts | None = None) -> tuple[int, float] | None:
    """The client whose accuracy the last round lowered most, and by how much (negative); None where it lowered none.

    tested [N]: the clients' test samples. With them, the most significant fall wins, if it is significant at 5 % (at
    least Z standard errors of a difference of two shares) and of a client with FEW samples or more.
    """
    if curves.rounds < 2:
        return None
    rank = by = accuracy_changes(curves)
    if tested is not None:
        now = curves.accuracy.after(curves.rounds)
        rank = standard_errors(now - by, now, tested)
        rank = np.where((tested < FEW) | (rank > -Z), np.nan, rank)
    if not (rank < 0).any():
        return None
    client = int(np.nanargmin(rank))
    return client, float(by[client])


def falls(
    curves: Curves, by: float = FALL, few: NDArray[np.bool_] | None = None
) -> list[tuple[int, list[tuple[int, float]]]]:
    """The rounds, ascending, after which clients were more than `by` (0…1) worse than before; who, and their changes,
    the largest fall first. few [N]: whose accuracies rest on too few samples to count.
    """
    rounds, clients, changes = curves.accuracy.changes()
    fell = changes < -by
    if few is not None and len(clients):  # before the first round, not even the clients are known
        fell &= ~few[clients]
    found: dict[int, list[tuple[int, float]]] = {}
    each_fall = (each[fell].tolist() for each in (rounds, clients, changes))
    for round, client, change in zip(*each_fall, strict=True):
        found.setdefault(round, []).append((client, change))
    return [(round, sorted(fallen, key=itemgetter(1))) for round, fallen in found.items()]


def best_round(values: Array) -> tuple[float, int]:
    """The highest of values [n] and its round, from 1; (NaN, 0) where there is none."""
    if not np.isfinite(values).any():
        return float("nan"), 0
    place = int(np.nanargmax(values))
    return float(values[place]), place + 1


def change_over(values: Array, rounds: int) -> tuple[float, int]:
    """The last of values [n] less the one so many rounds before, or the nearest earlier known one, or the first; and
    their distance in rounds. (NaN, 0) without two values.
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2 or known[-1] != len(values) - 1:
        return float("nan"), 0
    before = known[max(int(np.searchsorted(known, known[-1] - rounds, "right")) - 1, 0)]
    return float(values[-1] - values[before]), int(known[-1] - before)


@dataclass(frozen=True)
class ClientResult:
    """A client after a round. model None: of an unknown group; accuracy (0…1), loss None: unknown; up, down: bytes."""

    client: int
    model: str | None
    accuracy: float | None
    loss: float | None
    up: int
    down: int
    took_part: bool
    diverged: bool
    dropped: bool


def results(record: Record, group: object) -> list[ClientResult]:
    """The clients of a round of whom its record has figures, by number; `group` is federation.group of the settings."""
    accuracy, loss = record["accuracy"]["per_client"], record["loss"]["per_client"]
    up, down = record["bytes"]["per_client_up"], record["bytes"]["per_client_down"]
    told = {client for client, _ in by_client.items(accuracy)}.union(record["participants"])
    if unseen := record.get("unseen"):
        told |= set(unseen["clients"])
    return [
        ClientResult(
            client,
            assigned(group, client),
            by_client.of(accuracy, client),
            by_client.of(loss, client),
            by_client.of(up, client, 0),
            by_client.of(down, client, 0),
            client in record["participants"],
            client in record.get("diverged", ()),
            client in record.get("dropped", ()),
        )
        for client in sorted(told)
    ]


class Incidents(NamedTuple):
    """The rounds, ascending, in which a client's loss was not finite, its uplink was lost, or it took no part."""

    diverged: list[int]
    dropped: list[int]
    absent: list[int]


def incidents(records: Sequence[Record], client: int) -> Incidents:
    return Incidents(
        [record["round"] for record in records if client in record.get("diverged", ())],
        [record["round"] for record in records if client in record.get("dropped", ())],
        [record["round"] for record in records if client not in record["participants"]],
    )
