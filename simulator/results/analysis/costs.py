"""What rounds cost and where their time goes, what a target took, and what is still to be computed."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simulator.base.record import Record
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import Curves, Totals
from simulator.results.analysis.run import SessionData

Cost = Literal["rounds", "bytes", "FLOPs", "seconds", "simulated seconds", "joules"]
COSTS: tuple[Cost, ...] = ("rounds", "bytes", "FLOPs", "seconds")
"""Those that every session has."""
SIMULATED: tuple[Cost, ...] = ("simulated seconds", "joules")
"""Those of sessions with a computed clock."""


def comparable_costs(runs: Sequence[SessionData]) -> tuple[Cost, ...]:
    """The costs by which sessions can be compared: those of the clock if all have it, joules if counted alike."""
    if not runs or any(not run.round or np.isnan(run.totals["simulated_seconds"]).any() for run in runs):
        return COSTS
    differs = energy_differs({run.name: [run.config] for run in runs})
    return (*COSTS, "simulated seconds") if differs else (*COSTS, *SIMULATED)


def energy_differs(configs: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """A sentence if groups of sessions, by their labels, count joules by different rules (`system.costs`), or nothing.

    Sessions without a clock count none.
    """
    groups: dict[str, list[str]] = {}
    for label, every in configs.items():
        rules = dict[str, None]()
        for system in (config["system"] for config in every if config.get("system")):
            waits = "without" if system.get("schedule") in ("buffered", "asynchronous") else "with"
            planned = system.get("costs") == "planned"
            rules[f"as planned, {waits} waiting" if planned else "as they happened"] = None
        for rule in rules:
            groups.setdefault(rule, []).append(label)
    words = "; ".join(f"{rule} ({', '.join(labels)})" for rule, labels in groups.items())
    note = f"Do not compare joules. They are counted by different rules: {words}."
    return [note] if len(groups) > 1 else []


def costs(curves: Totals, cost: Cost) -> Array:
    """[n] what the run had cost after each round; bytes are those sent up and down."""
    match cost:
        case "rounds":
            return np.arange(1.0, curves.rounds + 1)
        case "bytes":
            return curves.traffic
        case "simulated seconds":
            return curves["simulated_seconds"]
    return np.cumsum(curves[cost.lower()])


Position = tuple[Cost, float]
"""A place on an axis of charts: so many rounds, or what those had cost."""


def elsewhere(curves: Totals, place: Position, cost: Cost) -> float:
    """Where `place` lies over another cost: what the round that is nearest to it had cost; NaN before the first."""
    over, at = place
    if over == cost:
        return at
    spent = costs(curves, over)
    return float(costs(curves, cost)[nearest(spent, at)]) if spent.size else float("nan")


def nearest(places: Array, at: float) -> int:
    """The index of the one of `places` [n], ascending and at least one, that lies nearest to `at`; the first of two."""
    after = int(np.clip(np.searchsorted(places, at), 1, max(len(places) - 1, 1)))
    return after - 1 if len(places) == 1 or at - places[after - 1] <= places[after] - at else after


def reached(curves: Totals, target: float) -> dict[Cost, float] | None:
    """What the mean accuracy took to first reach `target` (0…1); None if it has not."""
    there = np.flatnonzero(curves["accuracy"] >= target)
    return spent(curves.upto(int(there[0]) + 1)) if there.size else None


def spent(curves: Totals) -> dict[Cost, float]:
    """What all rounds so far took, by each of COSTS and SIMULATED: NaN without a clock."""
    never: dict[Cost, float] = {cost: math.nan if cost in SIMULATED else 0.0 for cost in (*COSTS, *SIMULATED)}
    each = {cost: float(costs(curves, cost)[-1]) for cost in never} if curves.rounds else never
    return each | {"rounds": curves.rounds}


@dataclass(frozen=True)
class TensorTraffic:
    """Bytes of one tensor in one direction ('up', 'down'): in the last round, as a share of it, and in all rounds."""

    name: str
    direction: str
    bytes: int
    share: float
    total: int


def by_tensor(records: Sequence[Record]) -> list[TensorTraffic]:
    """The traffic of the last of `records`, and of all; those of the most bytes in all first, without those of none."""
    if not records:
        return []
    totals: Counter[str] = Counter()
    for record in records:
        totals.update(record["bytes"]["by_tensor"])
    now = records[-1]["bytes"]["by_tensor"]
    whole, found = sum(now.values()), []
    for key, total in totals.items():
        direction, _, name = key.partition("/")
        if total:
            count = now.get(key, 0)
            found.append(TensorTraffic(name, direction, count, count / whole if whole else 0.0, total))
    return sorted(found, key=lambda each: (-each.total, each.name, each.direction))


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (cost, accuracy) that none beats with less cost and more accuracy, by cost."""
    front: list[tuple[float, float]] = []
    for cost, accuracy in sorted(points.values(), key=lambda each: (each[0], -each[1])):
        if not front or accuracy > front[-1][1]:
            front.append((cost, accuracy))
    return front


RECENT = 10
"""Rounds whose mean time an estimate is made from."""


def rounds_left(rounds: int, round: int, until_time: float, simulated: float | None) -> int:
    """The rounds that a run of so many has left after `round`: if it ends at a simulated time, `until_time` (0: none),
    as many as follow from the mean of its rounds. `simulated` is the time after `round`.
    """
    left = max(rounds - round, 0)
    if not (until_time and round and simulated) or math.isnan(simulated):
        return left
    return min(left, math.ceil(max(until_time - simulated, 0.0) * round / simulated))


def seconds_left(curves: Totals, rounds: int) -> float | None:
    """For so many rounds more, by the mean of the latest; None before the first, and for no rounds."""
    recent = curves["seconds"][-RECENT:]
    return float(np.mean(recent)) * rounds if len(recent) and rounds > 0 else None


def rounds_again(run: SessionData, round: int) -> tuple[int, float]:
    """How many rounds since a checkpoint are computed again for the state after `round`, and the seconds they took."""
    kept = max((each for each in run.checkpoints if each <= round), default=0)
    return round - kept, float(run.curves["seconds"][kept:round].sum())


TIME_PARTS = ("clients", "server", "evaluation", "checkpoint", "waiting")
"""What a round's time is for; the first two are training. Waiting is a pause, and in no round's `seconds`."""
_AT_WORK = {"w": "waiting", "t": "training", "d": "done"}


def seconds_by_part(curves: Curves) -> dict[str, Array]:
    """[n] seconds of each of TIME_PARTS; NaN where the ledger does not say.

    `clients` includes the server's time where the ledger has no time of the server.
    """
    server = np.where(np.isfinite(curves["seconds_server"]), curves["seconds_server"], 0.0)
    others = (curves[f"seconds_{name}"] for name in ("server", "evaluate", "checkpoint", "waited"))
    seconds = (curves["seconds_train"] - server, *others)
    return dict(zip(TIME_PARTS, seconds, strict=True))


def busy_share(curves: Curves) -> Array:
    """[n] the share of their time, 0…1, in which the workers had a client while clients trained; NaN: not recorded.

    Clients that were kept of an interrupted round took no time in it; so it is at most 1.
    """
    worked = curves.client_seconds.sums()
    had = curves["workers"] * seconds_by_part(curves)["clients"]
    share = np.divide(worked, had, out=np.full(len(worked), np.nan), where=had > 0)
    return np.asarray(np.minimum(share, 1.0))


def method_metrics(records: Sequence[Record]) -> dict[str, Array]:
    """[n] the method's own figures, and the losses of its later phases, by name; NaN in rounds that lack them."""
    names = dict.fromkeys(name for record in records for name in record["method_metrics"])
    found = dict[str, Array]()
    for name in names:
        each = (record["method_metrics"].get(name) for record in records)
        values = np.array([value if isinstance(value, int | float) else np.nan for value in each], float)
        found |= {name: values} if np.isfinite(values).any() else {}
    return found


def at_work(run: SessionData) -> tuple[str, ...]:
    """Where each client is in the round: 'waiting', 'training', 'done', '' for one without a part. Empty: unknown."""
    under_way = run.live and run.progress.get("round", 0) > run.round
    each, clients = run.progress.get("each", "") if under_way else "", run.curves.clients or len(run.models)
    return tuple(_AT_WORK.get(letter, "") for letter in each) if len(each) == clients else ()


def machine_use(run: SessionData) -> Mapping[str, Any]:
    """What the run takes of the machine now, as far as its owner says: memory, gpu_memory (bytes), cpu (processors)."""
    said = run.progress if run.live else {}
    return {name: said[name] for name in ("cpu", "memory", "gpu_memory") if name in said}
