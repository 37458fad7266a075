"""Who gains by federating: each client's accuracy less that of the same client under a baseline method.

    found = gains(runs, by="method")          # paired with standalone
    found.rows[0].gain.mean                   # mean over clients and seeds, 0…1
    found.rows[0].benefit, found.rows[0].harm # shares of clients that gain, and that lose

A session is paired with a session of the baseline that has the same seeds, data, partition, and models. So client 3
of one and client 3 of the other start from the same weights and have the same samples.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from simulator.base.errors import ConfigError, nearest
from simulator.base.extras import library
from simulator.results.analysis.averages import Difference, MeanStd, paired
from simulator.results.analysis.axes import (
    SEEDS,
    Key,
    axes,
    checked,
    group_label,
    groups,
    seeds_of,
    varying,
)
from simulator.results.analysis.caveats import averaged, dependent, members, rows_differ, unfinished
from simulator.results.analysis.curves import Array
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import Samples

BASELINE = "standalone"
WORST = 0.1
"""The share of clients with the lowest gains: at least one client."""
SIZES = ("fewest samples", "middle", "most samples")
"""Thirds of the clients by their number of training samples."""
ALPHA = 0.05
EQUAL = 1e-12
"""Means over rounds that differ by less are equal: they differ by rounding alone."""

Test = Literal["t", "wilcoxon"]
TESTS: tuple[Test, ...] = ("t", "wilcoxon")


@dataclass(frozen=True, eq=False)
class SessionGain:
    """One session and its partner. gains [N]: each client's, 0…1; NaN for a client that one of them never evaluated."""

    run: SessionData
    baseline: SessionData
    round: int
    """The last round that both have finished."""
    gains: Array

    @property
    def known(self) -> Array:
        """[k] the gains that are known, in order of clients."""
        return self.gains[np.isfinite(self.gains)]

    @property
    def mean(self) -> float:
        """The mean over the clients."""
        return math.fsum(self.known) / len(self.known)

    @property
    def benefit(self) -> float:
        """The share of clients that gain."""
        return float((self.known > 0).mean())

    @property
    def harm(self) -> float:
        """The share of clients that lose. A client with the same accuracy neither gains nor loses."""
        return float((self.known < 0).mean())

    @property
    def worst(self) -> float:
        """The mean over the tenth of the clients with the lowest gains."""
        least = np.sort(self.known)[: max(1, math.ceil(WORST * len(self.known)))]
        return math.fsum(least) / len(least)

    def by_model(self) -> dict[str, float]:
        """The mean gain of the clients of each architecture, in order of clients."""
        models = self.run.models
        return self._means({name: [each == name for each in models] for name in dict.fromkeys(models)})

    def by_size(self) -> dict[str, float]:
        """The mean gain of each third of the clients by training samples; nothing where the session has no numbers."""
        samples = Samples.of(self.run)
        if samples is None or len(samples.train) < len(SIZES):
            return {}
        order = np.argsort(samples.train.sum(axis=1), kind="stable")
        thirds = np.array_split(order, len(SIZES))
        clients = np.arange(len(order))
        return self._means(
            {name: np.isin(clients, third).tolist() for name, third in zip(SIZES, thirds, strict=True)}
        )

    def _means(self, members: Mapping[str, Sequence[bool]]) -> dict[str, float]:
        chosen = {name: self.gains[np.array(each, bool)] for name, each in members.items()}
        return {
            name: math.fsum(each[np.isfinite(each)]) / int(np.isfinite(each).sum())
            for name, each in chosen.items()
            if np.isfinite(each).any()
        }


@dataclass(frozen=True)
class GainRow:
    """A group of sessions. Gains and shares are 0…1, and each is a mean over seeds of the value of a session.

    gain: with Student's interval over the seeds. p: of the hypothesis that there is no gain. p_equivalent: of the
    hypothesis that the gain is at least the margin, in either direction (two one-sided t tests). p values are None
    for a single seed, or if nobody asked for them. `corrected` says that they are.
    """

    key: Key
    label: str
    sessions: tuple[str, ...]
    clients: int
    gain: Difference
    benefit: MeanStd
    harm: MeanStd
    worst: MeanStd
    models: Mapping[str, MeanStd]
    sizes: Mapping[str, MeanStd]
    p: float | None
    p_equivalent: float | None


@dataclass(frozen=True)
class Gains:
    """Rows in the order in which the groups first come. `notes` are sentences that a reader must know."""

    by: tuple[str, ...]
    baseline: str
    last: int
    margin: float | None
    test: Test | None
    corrected: bool
    rows: tuple[GainRow, ...]
    notes: tuple[str, ...]


def gains(
    runs: Sequence[SessionData],
    by: Sequence[str] | str = (),
    baseline: str = BASELINE,
    *,
    last: int = 1,
    margin: float | None = None,
    test: Test | None = None,
    correct: bool = False,
) -> Gains:
    """The gain of each group of sessions over a baseline method.

    last: a client's accuracy is the mean over so many last rounds. margin: an accuracy, 0…1; also test whether the gain
    is smaller than this (TOST). test: also test whether there is a gain. correct: correct p values for the number of
    rows, by Holm. Raises ConfigError for an unknown axis or method, sessions without a partner, and bad numbers.
    """
    if last < 1:
        raise ConfigError(f"`last={last}` is not a number of rounds. Use 1 or more.")
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"The margin is an accuracy between 0 and 1; it is {margin:g}.")
    if test is not None and test not in TESTS:
        raise ConfigError(f"There is no test '{test}'.{nearest(test, TESTS)} Use {' or '.join(TESTS)}.")
    wanted = checked((by,) if isinstance(by, str) else tuple(by), runs)
    pairs, notes = paired_sessions(runs, baseline, last)
    wanted = wanted or varying([each.run for each in pairs]) or ("method",)
    found = groups([each.run for each in pairs], wanted)
    by_run = {id(each.run): each for each in pairs}
    labels = {group_label(wanted, key): [run.config for run in group] for key, group in found.items()}
    partners = {id(each.baseline): each.baseline.config for each in pairs}
    notes += rows_differ({**labels, baseline: [*labels.get(baseline, []), *partners.values()]}, wanted)
    notes += dependent(members({group_label(wanted, key): group for key, group in found.items()}))
    notes += unfinished(runs)
    rows = []
    for key, group in found.items():
        notes += averaged(group_label(wanted, key), group)
        rows.append(_row(wanted, key, [by_run[id(run)] for run in group], margin, test))
    if correct:
        rows = _corrected(rows)
    return Gains(wanted, baseline, last, margin, test, correct, tuple(rows), tuple(dict.fromkeys(notes)))


def paired_sessions(
    runs: Sequence[SessionData], baseline: str = BASELINE, last: int = 1
) -> tuple[list[SessionGain], list[str]]:
    """Each session of another method with its partner, in order; and in sentences, which have none, and why.

    Raises ConfigError where no session has a partner.
    """
    others = [run for run in runs if run.method != baseline]
    partners = [run for run in runs if run.method == baseline]
    if not partners:
        known = dict.fromkeys(run.method for run in runs)
        raise ConfigError(
            f"No session here is of the baseline '{baseline}'.{nearest(baseline, known)} A gain is a difference from "
            f"sessions of a baseline method. Methods here: {', '.join(known)}."
        )
    by_condition: dict[Key, list[SessionData]] = {}
    for partner in partners:
        by_condition.setdefault(condition(partner), []).append(partner)
    found, notes = [], []
    for run in others:
        matching = by_condition.get(condition(run), [])
        same = [each for each in matching if training_settings(each) == training_settings(run)]
        candidates = same or matching
        if len(candidates) != 1:
            what = "no session" if not candidates else f"{len(candidates)} sessions"
            notes.append(f"{run.name} is left out: {what} of {baseline} with its data, models, and seed.")
            continue
        one = _gain(run, candidates[0], last)
        if one is None:
            notes.append(
                f"{run.name} is left out: its clients or those of {candidates[0].name} have no accuracy."
            )
            continue
        if len({run.totals.rounds, candidates[0].totals.rounds}) > 1:
            notes.append(
                f"{run.name} is compared after round {one.round}, the last that its partner has too."
            )
        found.append(one)
    if not found:
        reason = notes[0] if notes else f"All sessions are of {baseline}."
        raise ConfigError(f"No session has a partner of {baseline}. {reason}")
    return found, notes


def final_accuracies(run: SessionData, round: int, last: int = 1) -> Array:
    """[N] each client's mean test accuracy over the `last` rounds that end with `round`; NaN if one is not known."""
    accuracy = run.curves.accuracy
    rows = accuracy.select(np.arange(accuracy.clients), max(0, round - last), round)
    return np.asarray(rows.mean(axis=0))


def _gain(run: SessionData, baseline: SessionData, last: int) -> SessionGain | None:
    round = min(run.totals.rounds, baseline.totals.rounds)
    both = [final_accuracies(each, round, last) for each in (run, baseline)]
    gains = both[0] - both[1]
    gains[np.abs(gains) < EQUAL] = 0.0
    found = SessionGain(run, baseline, round, gains)
    return found if len(found.known) else None


def condition(run: SessionData) -> Key:
    """What two sessions must share so that their clients are the same and draw the same: seeds, data, and models."""
    return seeds_of(run.config)[2], *same_clients(run)


def same_clients(run: SessionData) -> Key:
    """Equal in two sessions if client k has the same data, model, and first weights in both."""
    known = axes(run)
    names = [name for name in sorted(known) if name.startswith("data.") and name not in SEEDS]
    federation = ("federation.clients", "federation.group", "federation.pretrained")
    return (
        seeds_of(run.config)[:2],
        *((name, known[name]) for name in names),
        *((name, known.get(name)) for name in federation),
        str(known.get("federation.timeline") or ""),  # a list of tables, which has no hash
        run.document.get("data_fingerprint", ""),
    )


def training_settings(run: SessionData) -> Key:
    """The settings of training, with which partners agree if some do."""
    known = axes(run)
    return tuple((name, known[name]) for name in sorted(known) if name.startswith("training."))


def _row(
    by: Sequence[str], key: Key, group: Sequence[SessionGain], margin: float | None, test: Test | None
) -> GainRow:
    def over_seeds(value: Callable[[SessionGain], float]) -> MeanStd:
        found = MeanStd.of([value(each) for each in group])
        assert found is not None
        return found

    def of_parts(parts: Callable[[SessionGain], Mapping[str, float]]) -> dict[str, MeanStd]:
        each = [parts(one) for one in group]
        found = {
            name: MeanStd.of([one.get(name) for one in each])
            for name in dict.fromkeys(n for o in each for n in o)
        }
        return {name: value for name, value in found.items() if value is not None}

    means = [each.mean for each in group]
    difference = paired(dict(enumerate(means)), dict.fromkeys(range(len(means)), 0.0))
    assert difference is not None
    return GainRow(
        key=key,
        label=group_label(by, key),
        sessions=tuple(each.run.name for each in group),
        clients=max(len(each.known) for each in group),
        gain=difference,
        benefit=over_seeds(lambda each: each.benefit),
        harm=over_seeds(lambda each: each.harm),
        worst=over_seeds(lambda each: each.worst),
        models=of_parts(SessionGain.by_model),
        sizes=of_parts(SessionGain.by_size),
        p=None if test is None else p_of_gain(means, test),
        p_equivalent=None if margin is None else p_of_equivalence(means, margin),
    )


def p_of_gain(differences: Sequence[float], test: Test) -> float | None:
    """The two-sided p value of paired differences under 'their mean (t) or median (Wilcoxon) is 0'.

    None for a single pair, and for differences that are all equal.
    """
    from scipy import stats  # a second's import

    if len(differences) < 2 or max(differences) - min(differences) < EQUAL:
        return None
    found = stats.ttest_1samp(differences, 0.0) if test == "t" else stats.wilcoxon(differences)
    return float(found.pvalue)


def p_of_equivalence(differences: Sequence[float], margin: float) -> float | None:
    """The p value of two one-sided t tests (Schuirmann, 1987) under 'the mean difference is `margin` or more away
    from 0'. None for a single pair, and for differences that are all equal. Raises ConfigError without statsmodels."""
    if len(differences) < 2 or max(differences) - min(differences) < EQUAL:
        return None
    weights = library("statsmodels.stats.weightstats", "stats")
    return float(weights.DescrStatsW(np.array(differences)).ttost_mean(-margin, margin)[0])


def _corrected(rows: Sequence[GainRow]) -> list[GainRow]:
    """The rows with their p values corrected by Holm, each kind over the rows that have one."""
    found = list(rows)
    for name in ("p", "p_equivalent"):
        places = [place for place, row in enumerate(found) if getattr(row, name) is not None]
        if places:
            many = library("statsmodels.stats.multitest", "stats")
            values = [getattr(found[place], name) for place in places]
            corrected = many.multipletests(values, method="holm")[1]
            for place, value in zip(places, corrected, strict=True):
                changed: dict[str, Any] = {name: float(value)}
                found[place] = replace(found[place], **changed)
    return found
