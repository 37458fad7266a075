"""Compares sessions: their accuracies, the cost of reaching a target accuracy, and the settings that differ."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.nested import flattened
from simulator.base.record import SCALARS
from simulator.base.units import seconds_of, span
from simulator.results.analysis.axes import (
    SEEDS,
    Key,
    MeanStd,
    axes,
    checked,
    group_label,
    groups,
    key_of,
    paired,
    seed_words,
    seeds_of,
    spelled,
    varying,
)  # fmt: skip
from simulator.results.analysis.caveats import (
    Note,
    averaged,
    dependent,
    divergences,
    joined,
    members,
    printed,
    rows_differ,
    unfinished,
)  # fmt: skip
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import best_round
from simulator.results.analysis.costs import COSTS, SIMULATED, Cost, energy_differs, reached, spent
from simulator.results.analysis.gain import final_accuracies
from simulator.results.analysis.ledger import Divergence, Totals
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.table import COST_NUMBERS, EXTRAS, NUMBERS, Numbers, Row, Select, Table

_SEPARATE = "Group by these to separate them, or select the best on eval."


@dataclass(frozen=True, eq=False)
class Standing:
    """A session's best and last mean accuracy, up to a round if one was given, and the cost of reaching a target.
    None: not measured, or no score.
    """

    run: SessionData
    best: float | None
    last: float | None
    reached: dict[Cost, float] | None
    target: float
    untrained: bool = False
    """Whether every client diverged in every round, so that it has no score."""


def standing(run: SessionData, target: float | None = None, upto: int | None = None) -> Standing:
    """A session's standing towards a target accuracy (0…1), up to a round (None: the last). target None: its own
    `until`, or else the highest multiple of 0.05 that it reached.
    """
    if target is None:
        target = float(run.config.get("until") or 0.0) or common_target([run])
    totals, mean = run.totals, run.totals["accuracy"][:upto]
    measured = mean[np.isfinite(mean)]
    untrained = Divergence.of(totals).untrained > 0
    if untrained or not measured.size:
        return Standing(run, None, None, None, target, untrained)
    return Standing(run, float(measured.max()), float(measured[-1]), reached(totals, target), target)


def common_round(runs: Sequence[SessionData]) -> int | None:
    """The last round that all runs have evaluated, except those that have none yet; None if there is no such round."""
    rounds = [each for run in runs if (each := np.flatnonzero(np.isfinite(run.totals["accuracy"]))).size]
    both = reduce(np.intersect1d, rounds) if rounds else np.empty(0)
    return int(both[-1]) + 1 if both.size else None


def common_target(runs: Sequence[SessionData]) -> float:
    """The highest multiple of 0.05 that the best accuracy of every run reaches, except of runs that have none yet."""
    best = min((each for run in runs if (each := standing(run, 0.0).best) is not None), default=0.0)
    return math.floor(best * 20 + 1e-9) / 20


def differences(runs: Sequence[SessionData]) -> list[tuple[str, tuple[Any, ...]]]:
    """The settings that differ between runs, by dotted name, with each run's value. None: it has no such setting."""
    flat = [flattened(run.config) for run in runs]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = [(name, tuple(one.get(name) for one in flat)) for name in names]
    return [row for row in rows if any(value != row[1][0] for value in row[1])]


@dataclass(frozen=True, kw_only=True)
class SessionResult(Numbers[float | None]):
    """The results of one session. None: not measured, or the session has no score."""

    run: SessionData
    round: int | None
    """With `select`, the first of the rounds that are best on the clients' eval parts."""
    on_eval: float | None
    reached: dict[Cost, float] | None
    spent: dict[Cost, float] | None
    """The cost of reaching the target, or of all rounds if it was not reached. None without a target."""
    own: Mapping[str, float | None]
    """The user's own metrics on the test part, by name, in the round that `worst` is of."""
    extras: Mapping[str, float | None]
    """The extra columns that were asked for."""
    diverged: Divergence

    @property
    def seeds(self) -> tuple[int, int, int]:
        """The seeds of data, initial weights, and training."""
        return seeds_of(self.run.config)


def table(
    runs: Sequence[SessionData],
    by: Sequence[str] | str = (),
    target: float | None = None,
    baseline: str | None = None,
    select: Select | None = None,
    last: int = 1,
    columns: Sequence[str] = (),
    at_time: float | str | None = None,
) -> Table:
    """The sessions grouped by axes: dotted settings, or 'method', 'dataset', 'session'; none: what they differ in.

    baseline: a value on the first axis ('standalone'), or 'AXIS=VALUE'; what differs in the other axes has a baseline
    of its own. select 'eval': of each group the settings and rounds that are best on eval. last: the last accuracy is
    the mean over this many last rounds. columns: the columns to show, in this order; EXTRAS are shown only if named.
    at_time: only the rounds that had ended by this simulated time count, and sessions that end before are left out.
    Raises ConfigError for an unknown axis or column, a baseline that no group is, a target outside 0…1.
    """
    if last < 1:
        raise ConfigError(f"`last={last}` is not a number of rounds. Use 1 or more.")
    if target is not None and not 0 <= target <= 1:
        raise ConfigError(f"the target is an accuracy from 0 to 1, as 0.9; it is {target:g}.")
    asked, moved = list(runs), list[str]()
    seconds = None if at_time is None else parsed_time(at_time)
    if seconds is not None:
        runs, moved = upto_time(runs, seconds)
    wanted = checked(by, runs) or varying(runs) or ("session",)
    extras = [name for name in EXTRAS if any(name.startswith(each) for each in columns)]
    notes = _of_data(runs) + (unfinished(asked) if seconds is None else moved) + _switched(runs)
    found: dict[Key, tuple[str, list[SessionResult]]] = {}
    of_groups, named = list[Note](), list[set[str]]()
    for key, group in groups(runs, wanted).items():
        outcomes = [outcome(run, target, select, last, extras) for run in group]
        chosen, outcomes, about = _point(group_label(wanted, key), outcomes, select)
        found[key] = chosen, outcomes
        of_groups += about
        named.append(set(varying(group)) if chosen else set())
    kept = {group_label(wanted, key): outcomes for key, (_, outcomes) in found.items()}
    sessions = {label: [each.run for each in outcomes] for label, outcomes in kept.items()}
    configs = {label: [run.config for run in each] for label, each in sessions.items()}
    # A setting whose chosen value is shown in every row needs no note.
    differ = rows_differ(configs, (*wanted, *(set.intersection(*named) if named else ())))
    if target is not None or any(EXTRAS[name][0] == "joules" for name in extras):
        differ += energy_differs(configs)
    baselines = _baselines(wanted, list(found), baseline)
    rows = []
    for key, (chosen, outcomes) in found.items():
        against = found[baselines[key]][1] if key in baselines and baselines[key] != key else []
        rows.append(_row(wanted, key, chosen, outcomes, against, select))
    notes += [*joined(of_groups), *averaged(sessions, _SEPARATE), *dependent(members(sessions))]
    diverged = divergences((label, [each.diverged for each in outcomes]) for label, outcomes in kept.items())
    notes = list(dict.fromkeys([*diverged, *differ, *notes]))
    made = Table(wanted, tuple(rows), tuple(notes), target, baseline, select, last, tuple(columns), seconds)
    made.columns()  # raises for an unknown one
    return made


def outcome(
    run: SessionData,
    target: float | None,
    select: Select | None,
    last_rounds: int = 1,
    extras: Sequence[str] = (),
) -> SessionResult:
    """The results of a session. If every update diverged, it has only costs."""
    totals, diverged = run.totals, Divergence.of(run.totals)
    if diverged.untrained:  # one that has learned nothing has no result
        none = {each.column: np.full(totals.rounds, np.nan) for each in SCALARS if each.unit == "share"}
        totals = replace(totals, arrays={**totals.arrays, **none})
    round = (best_round(totals["eval_accuracy"])[1] or None) if select else None
    mean, weighted = totals["accuracy"], totals["accuracy_weighted"]
    measured = np.flatnonzero(np.isfinite(mean))
    at = round if select else int(measured[-1]) + 1 if measured.size else None
    took = None if target is None else reached(totals, target)
    every = None if target is None else took or spent(totals)
    return SessionResult(
        best=_at(mean, best_round(mean)[1] or None),
        best_weighted=_at(weighted, best_round(weighted)[1] or None),
        last=_mean_of_last(mean, last_rounds),
        last_weighted=_mean_of_last(weighted, last_rounds),
        selected=_at(mean, round),
        selected_weighted=_at(weighted, round),
        worst=_at(totals["accuracy_min"], at),
        costs={
            name: None if every is None or math.isnan(every[cost]) else every[cost]
            for name, cost in zip(COST_NUMBERS, (*COSTS, *SIMULATED), strict=True)
        },
        run=run,
        round=round,
        on_eval=_at(totals["eval_accuracy"], round),
        reached=took,
        spent=every,
        own=_own(run, at),
        extras={name: _extra(run, totals, last_rounds, name) for name in extras},
        diverged=diverged,
    )


def _extra(run: SessionData, totals: Totals, last: int, name: str) -> float | None:
    """A session's value in an extra column. EXTRAS has its kind and how it is folded to a number."""
    kind, fold = EXTRAS[name]
    scored = bool(np.isfinite(totals["accuracy"]).any())
    times = [record["time"] for record in run.records if "time" in record] if kind in _OF_CLOCK else []
    flights = [flight for time in times for flight in time["flights"]]
    used = np.array([flight["fate"] == "used" for flight in flights], float)
    match kind:
        case "rounds":
            values = totals["accuracy"]
        case "clients":
            values = final_accuracies(run, totals.rounds, last) if scored else used
        case "unseen":  # before they adapt, after it, and trained alone
            known = scored and run.config.get("federation", {}).get("unseen")
            measured = [record["unseen"] for record in run.records if "unseen" in record] if known else []
            means = [each[when]["mean"] for each in measured[-1:] for when in ("before", "after", "alone")]
            values = np.array(means, float)
        case "used":
            values = used
        case "wasted":
            flops = np.array([flight["flops"] for flight in flights], float)
            values = flops * (1 - used) / flops.sum() if flops.sum() else flops
        case "staleness":
            ages = [age for time in times for age in time["staleness"].items()]
            values = np.array([float(rounds) for rounds, number in ages for _ in range(number)])
        case column:
            values = totals[column]
    if kind != "unseen":
        values = values[np.isfinite(values)]
    number = fold(values) if len(values) else math.nan
    return number if math.isfinite(number) else None


_OF_CLOCK = ("used", "wasted", "staleness")


def _own(run: SessionData, round: int | None) -> dict[str, float | None]:
    """The user's own metrics on the test part after a round."""
    names = run.config.get("evaluation", {}).get("metrics", ())
    if not names or round is None:
        return {}
    part = run.records[round - 1].get("evaluation", {}).get("test")
    measured = part.get("metrics", {}) if part else {}
    return {name: measured[name]["mean"] if name in measured else None for name in names}


def _row(
    by: Sequence[str],
    key: Key,
    chosen: str,
    outcomes: Sequence[SessionResult],
    against: Sequence[SessionResult],
    select: Select | None,
) -> Row:
    diverged = Divergence.over(each.diverged for each in outcomes)
    at_least = any(each.spent is not each.reached for each in outcomes)
    measured = bool(select) and all(each.selected is not None for each in outcomes)

    def spread(values: Iterable[float | None]) -> MeanStd | None:
        each = list(values)
        # A mean without the sessions that have no score would hide them.
        return None if diverged.untrained and None in each else MeanStd.of(each)

    def spread_of(name: str) -> MeanStd | None:
        if not measured and (name.startswith("selected") or (select and name == "worst")):
            return None
        return spread(getattr(each, name) for each in outcomes)

    costs = {name: MeanStd.of(each.costs[name] for each in outcomes) for name in COST_NUMBERS}
    return Row(
        **{name: spread_of(name) for name in NUMBERS},
        costs={name: replace(took, std=None) if took and at_least else took for name, took in costs.items()},
        key=key,
        label=group_label(by, key),
        sessions=tuple(each.run.name for each in outcomes),
        n=len(outcomes),
        chosen=chosen,
        reached=sum(each.reached is not None for each in outcomes),
        at_least=at_least,
        difference=None
        if any(each.diverged.untrained for each in (*outcomes, *against))
        else paired(_by_seed(outcomes, select), _by_seed(against, select)),
        paper=printed([each.run for each in outcomes]),
        own={
            name: spread(each.own.get(name) for each in outcomes)
            for name in dict.fromkeys(name for each in outcomes for name in each.own)
        },
        extras={name: spread(each.extras[name] for each in outcomes) for name in outcomes[0].extras},
        diverged=diverged,
    )


def _point(
    label: str, outcomes: list[SessionResult], select: Select | None
) -> tuple[str, list[SessionResult], list[Note]]:
    """The settings of a row in words, if there are several to choose from; their outcomes; and notes on the choice."""
    differ = varying([each.run for each in outcomes])
    points: dict[Key, list[SessionResult]] = {}
    for each in outcomes:
        points.setdefault(key_of(each.run, differ), []).append(each)
    missing = [each.run.name for each in outcomes if each.selected is None and not each.diverged.untrained]
    if select and missing:
        return "", outcomes, [(label, "not measured on eval", ", ".join(missing))]
    chosen, kept, notes = "", outcomes, list[Note]()
    if len(points) > 1 and select:
        on_eval = {key: [one.on_eval or 0.0 for one in each] for key, each in points.items()}
        key = max(points, key=lambda each: math.fsum(on_eval[each]) / len(on_eval[each]))
        kept = points[key]
        chosen = ", ".join(f"{axis}={spelled(value)}" for axis, value in zip(differ, key, strict=True))
        notes.append((label, f"of {len(points)} settings the best on eval", chosen))
    if len(points) == 1 or select:
        number = Counter(each.seeds for each in kept)
        if twice := sorted(seeds for seeds in number if number[seeds] > 1):
            words = ", ".join(seed_words(*seeds) for seeds in twice)
            notes.append((label, f"several sessions of seed {words}; nothing is paired", ""))
    return chosen, kept, notes


def _by_seed(
    outcomes: Sequence[SessionResult], select: Select | None
) -> Mapping[tuple[int, int, int], float]:
    """The accuracy that is compared, by seed; nothing where a seed has several."""
    found: dict[tuple[int, int, int], float] = {}
    for each in outcomes:
        value = each.selected if select else each.last
        if each.seeds in found:
            return {}
        if value is not None:
            found[each.seeds] = value
    return found


def _baselines(by: Sequence[str], keys: Sequence[Key], baseline: str | None) -> dict[Key, Key]:
    """The baseline of each group: the baseline's value on its axis, and the group's own values on the others."""
    if baseline is None:
        return {}
    axis, equals, value = baseline.rpartition("=")
    place = by.index(axis) if equals and axis in by else 0
    text = value if equals else baseline
    there = [key for key in keys if spelled(key[place]) == text]
    if not there or (equals and axis not in by):
        known = ", ".join(dict.fromkeys(spelled(key[place]) for key in keys))
        raise ConfigError(f"no group is the baseline '{baseline}': {by[place]} is one of {known}.")
    rest = {(*key[:place], *key[place + 1 :]): key for key in there}
    return {key: rest[other] for key in keys if (other := (*key[:place], *key[place + 1 :])) in rest}


def _of_data(runs: Sequence[SessionData]) -> list[str]:
    """A note if sessions with the same data settings have other images or another partition."""
    prints: dict[Key, set[str]] = {}
    for run in runs:
        known = axes(run)
        names = sorted(name for name in known if name.startswith("data.") and name not in SEEDS)
        settings = ((name, known.get(name)) for name in ("federation.clients", "federation.unseen", *names))
        key = (seeds_of(run.config)[0], *settings)
        prints.setdefault(key, set()).add(str(run.document.get("data_fingerprint", "")))
    note = "Sessions of one seed and the same data settings have different images or another partition."
    return [note] if any(len(each) > 1 for each in prints.values()) else []


def _switched(runs: Sequence[SessionData]) -> list[str]:
    """A note on sessions that switched their method."""
    courses = {
        run.name: list(dict.fromkeys(entry["method"]["name"] for entry in run.history)) for run in runs
    }
    words = [f"{name} ({' → '.join(course)})" for name, course in courses.items() if len(course) > 1]
    return [f"Not of one method: {', '.join(words)}."] if words else []


def _at(values: Array, round: int | None) -> float | None:
    value = math.nan if round is None else float(values[round - 1])
    return None if math.isnan(value) else value


def _mean_of_last(values: Array, rounds: int) -> float | None:
    """The mean of the last so many measured values; None without any."""
    known = values[np.isfinite(values)][-rounds:]
    return math.fsum(known) / len(known) if len(known) else None


def parsed_time(time: float | str) -> float:
    """A simulated time in seconds, from seconds or text such as '2h'. Raises ConfigError."""
    try:
        seconds = seconds_of(time)
    except ValueError as fault:
        raise ConfigError(f"at_time: {fault}.") from fault
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise ConfigError(f"at_time is {time!r}, and a simulated time is above 0. An example: `at_time=2h`.")
    return float(seconds)


def upto_time(runs: Sequence[SessionData], seconds: float) -> tuple[list[SessionData], list[str]]:
    """The sessions with only the rounds that had ended by this simulated time, and notes on those that are left out:
    those that end before, whose accuracy then nobody knows, and those whose first round ends later.

    Raises ConfigError if a session has no clock, or if no session is left.
    """
    found, short, late = list[SessionData](), list[str](), list[str]()
    for run in runs:
        clock = run.totals["simulated_seconds"]
        if np.isnan(clock).any():
            raise ConfigError(
                f"{run.name} has no computed clock, so it has no simulated time. Run it with "
                "`system.devices=phone`, or leave out `at_time`."
            )
        ended = int(np.searchsorted(clock, seconds, side="right"))
        if not clock.size or clock[-1] < seconds:
            short.append(f"{run.name} ({span(float(clock[-1])) if clock.size else 'no round'})")
        elif not ended:
            late.append(f"{run.name} (first round: {span(float(clock[0]))})")
        else:
            found.append(replace(run, ledger=run.ledger.upto(ended)))
    notes = [
        f"Left out, because they {why} {span(seconds)} of simulated time: {', '.join(names)}."
        for why, names in (("end before", short), ("have no round by", late))
        if names
    ]
    if not found:
        raise ConfigError(f"No session can be compared. {' '.join(notes)} Choose another `at_time`.")
    return found, notes


@dataclass(frozen=True)
class Setting:
    """A setting by its dotted name. value, other: None where it is unset. differs: whether they are unequal."""

    name: str
    value: Any
    other: Any
    differs: bool


def described(config: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[Setting]:
    """Every setting of either, those that differ first, otherwise in the order of the configuration. other None:
    nothing differs.
    """
    own = flattened(config)
    beside = own if other is None else flattened(other)
    found = [
        Setting(name, own.get(name), beside.get(name), own.get(name) != beside.get(name))
        for name in dict.fromkeys([*own, *beside])
    ]
    return sorted(found, key=lambda each: not each.differs)
