"""Who gains by federating: each client's accuracy less that of the same client under a baseline method.

    found = gains(runs, by="method")          # paired with standalone
    found.rows[0].gain.mean                   # mean over clients and seeds, 0…1
    found.rows[0].benefit, found.rows[0].harm # shares of clients that gain, and that lose

A session is paired with a session of the baseline if all settings agree that decide a client: its data, its first
weights, and the model with which it is evaluated. So client 3 of one is client 3 of the other.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import flattened, merged
from simulator.base.units import NONE, points
from simulator.config import decides_clients, keys
from simulator.methods import declarations
from simulator.results.analysis import caveats
from simulator.results.analysis.axes import (
    SEEDS,
    Difference,
    Key,
    MeanStd,
    axes,
    checked,
    group_label,
    groups,
    paired,
    seed_words,
    seeds_of,
    varying,
)  # fmt: skip
from simulator.results.analysis.caveats import defaults, listed
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.run import Samples, SessionData
from simulator.results.analysis.tabular import (
    Column,
    TextTable,
    as_json,
    axis_columns,
    chosen_columns,
    points_with,
)
from simulator.sessions.history import completed

BASELINE = "standalone"
_DECIDING = {key for key in keys() if decides_clients(key)}
_DATA = "data_fingerprint"
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
    def worst(self) -> float:
        """The mean over the tenth of the clients with the lowest gains."""
        least = np.sort(self.known)[: max(1, math.ceil(WORST * len(self.known)))]
        return math.fsum(least) / len(least)

    def by_model(self) -> dict[str, float]:
        """The mean gain of the clients of each architecture, in order of clients."""
        models = np.array(self.run.models)
        return self._means({name: models == name for name in dict.fromkeys(self.run.models)})

    def by_size(self) -> dict[str, float]:
        """The mean gain of each third of the clients by training samples; nothing where the session has no numbers."""
        samples = Samples.of(self.run)
        if samples is None or len(samples.train) < len(SIZES):
            return {}
        thirds = np.array_split(np.argsort(samples.train.sum(axis=1), kind="stable"), len(SIZES))
        clients = np.arange(len(samples.train))
        return self._means({name: np.isin(clients, each) for name, each in zip(SIZES, thirds, strict=True)})

    def _means(self, members: Mapping[str, NDArray[np.bool_]]) -> dict[str, float]:
        chosen = {name: self.gains[each] for name, each in members.items()}
        known = {name: each[np.isfinite(each)] for name, each in chosen.items()}
        return {name: math.fsum(each) / len(each) for name, each in known.items() if len(each)}


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
    """The share of clients that gain."""
    harm: MeanStd
    """The share of clients that lose. A client with the same accuracy neither gains nor loses."""
    worst: MeanStd
    models: Mapping[str, MeanStd]
    sizes: Mapping[str, MeanStd]
    unequal: int
    """Sessions whose mean differs from their partner's."""
    p: float | None
    p_equivalent: float | None
    diverged: Divergence


@dataclass(frozen=True)
class GainTable(TextTable[GainRow]):
    """A row for each group of sessions, in the order in which the groups first come.

    `notes` are sentences that a reader must know; `chosen` are the columns to print, all for none.
    """

    by: tuple[str, ...]
    baseline: str
    last: int
    margin: float | None
    test: Test | None
    corrected: bool
    rows: tuple[GainRow, ...]
    notes: tuple[str, ...]
    chosen: tuple[str, ...] = ()

    def columns(self) -> list[Column[GainRow]]:
        """Those that it has something to say in, as they are printed."""
        shown: list[Column[GainRow]] = [
            *axis_columns(self.by),
            Column("n", lambda row: str(len(row.sessions))),
            Column("clients", lambda row: str(row.clients)),
            Column(
                f"gain over {self.baseline}, pp",
                lambda row: row.diverged.marked(points_with(row.gain.mean, row.gain.interval)),
            ),
            Column("benefit, %", lambda row: f"{100 * row.benefit.mean:.0f}"),
            Column("harm, %", lambda row: f"{100 * row.harm.mean:.0f}"),
            Column("worst 10 %, pp", lambda row: points(row.worst.mean)),
        ]
        holm = ", Holm" if self.corrected else ""
        if self.test is not None:
            shown.append(Column(f"p ({self.test}{holm})", lambda row: _p(row.p)))
        if self.margin is not None:
            within = f"within {100 * self.margin:g} pp (TOST{holm})"
            shown.append(Column(within, lambda row: equivalence(row.p_equivalent), False))
        for field in ("models", "sizes"):
            part = attrgetter(field)
            for name in dict.fromkeys(name for row in self.rows for name in part(row)):
                shown.append(
                    Column(
                        f"{name}, pp",
                        lambda row, part=part, name=name: (  # type: ignore[misc]
                            points(part(row)[name].mean) if name in part(row) else NONE
                        ),
                        expendable=True,
                    )
                )
        return chosen_columns(shown, self.chosen)

    def remarks(self) -> list[str]:
        """What a reader must know to judge the numbers of the shown columns."""
        shown = " ".join(column.name for column in self.columns())
        of = "of the last round" if self.last == 1 else f"over the last {self.last} rounds"
        pairs = min((row.unequal for row in self.rows), default=0)
        explained = [
            (
                "benefit" in shown or "harm" in shown,
                "benefit and harm are the shares of clients that gain and that lose, means over n sessions.",
            ),
            (
                "worst 10 %" in shown,
                "worst 10 %: the mean gain of the tenth of the clients with the lowest gains, at least one client.",
            ),
            (
                self.has("["),
                "[low, high] is the 95 % interval of the mean over n seeds (Student's t, paired).",
            ),
            (
                any(name in shown for name in SIZES),
                "fewest, middle, most samples: thirds of the clients by number of training samples.",
            ),
            (
                "p (wilcoxon" in shown,
                f"Wilcoxon's test ignores pairs of equal means. With {pairs} other{'s' * (pairs != 1)}, its smallest p "
                f"value is {min(1.0, 2 / 2**pairs):g}.",
            ),
        ]
        about = f"A gain is a client's test accuracy less its accuracy under {self.baseline}, {of}."
        return [*self.notes, about, *(sentence for needed, sentence in explained if needed)]

    def fields(self, row: GainRow) -> Iterator[tuple[str, Any]]:
        """All that a row has, by name; gains and shares 0…1."""
        yield from zip(self.by, row.key, strict=True)
        low, high = row.gain.interval or (None, None)
        yield from {"n": len(row.sessions), "clients": row.clients, "gain": row.gain.mean}.items()
        yield from row.diverged.fields()
        yield from {"gain_low": low, "gain_high": high, "p": row.p, "p_equivalent": row.p_equivalent}.items()
        rates = {"benefit": row.benefit, "harm": row.harm, "worst": row.worst}
        for name, value in {**rates, **row.models, **row.sizes}.items():
            yield from {name: value.mean, f"{name}_std": value.std}.items()

    def to_json(self) -> dict[str, Any]:
        """For programs: every number with its std and n; gains and shares 0…1."""
        return as_json(self, "baseline", "last", "margin", "test", "corrected")


def gains(
    runs: Sequence[SessionData],
    by: Sequence[str] | str = (),
    baseline: str = BASELINE,
    *,
    last: int = 1,
    margin: float | None = None,
    test: Test | None = None,
    correct: bool = False,
    columns: Sequence[str] = (),
) -> GainTable:
    """The gain of each group of sessions over a baseline method.

    last: a client's accuracy is the mean over so many last rounds. margin: an accuracy, 0…1; also test whether the gain
    is smaller than this (TOST). test: also test whether there is a gain. correct: correct p values for the number of
    rows, by Holm. columns: those to print. Raises ConfigError for an unknown axis, column, or method, sessions without
    a partner, and bad numbers.
    """
    if last < 1:
        raise ConfigError(f"`last={last}` is not a number of rounds. Use 1 or more.")
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"The margin is an accuracy between 0 and 1; it is {margin:g}.")
    if test is not None and test not in TESTS:
        raise ConfigError(f"There is no test '{test}'.{nearest(test, TESTS)} Use {' or '.join(TESTS)}.")
    wanted = checked(by, runs)
    pairs, failed, notes = _pairs(runs, baseline, last)
    by_run = {each.run.folder: each for each in pairs}
    counted = [run for run in runs if run.folder in by_run or run in failed]
    wanted = wanted or varying(counted) or ("method",)
    every = {
        key: [Divergence.of(run.totals) for run in group] for key, group in groups(counted, wanted).items()
    }
    notes += caveats.divergences((group_label(wanted, key), each) for key, each in every.items())
    found = groups([each.run for each in pairs], wanted)
    by_label = {group_label(wanted, key): group for key, group in found.items()}
    labels = {label: list(map(_resolved, group)) for label, group in by_label.items()}
    partners = {id(each.baseline): _resolved(each.baseline) for each in pairs}
    configs = {**labels, baseline: [*labels.get(baseline, []), *partners.values()]}
    notes += [*caveats.rows_differ(configs, wanted), *caveats.averaged(by_label)]
    notes += [*caveats.dependent(caveats.members(by_label)), *caveats.unfinished(runs)]
    rows = [
        _row(wanted, key, [by_run[run.folder] for run in group], margin, test)
        for key, group in found.items()
        if not Divergence.over(every[key]).untrained  # a mean over the other sessions would hide the failure
    ]
    for name in ("p", "p_equivalent") if correct else ():
        places = [place for place, row in enumerate(rows) if getattr(row, name) is not None]
        for place, value in zip(places, holm([getattr(rows[place], name) for place in places]), strict=True):
            changed: dict[str, Any] = {name: value}
            rows[place] = replace(rows[place], **changed)
    sentences = tuple(dict.fromkeys(notes))
    made = GainTable(wanted, baseline, last, margin, test, correct, tuple(rows), sentences, tuple(columns))
    made.columns()  # raises for an unknown one
    return made


def paired_sessions(
    runs: Sequence[SessionData], baseline: str = BASELINE, last: int = 1
) -> tuple[list[SessionGain], list[str]]:
    """Each session of another method with its partner, in order; and in sentences, which have none, and why.

    Raises ConfigError where no session has a partner.
    """
    found, failed, notes = _pairs(runs, baseline, last)
    return found, _without_score(failed) + notes


def _without_score(failed: Sequence[SessionData]) -> list[str]:
    """A sentence on sessions that have a partner, but no score."""
    why = "left out: every client diverged in every round, so there is no score."
    return [f"{_are([run.name for run in failed])} {why}"] if failed else []


def _pairs(
    runs: Sequence[SessionData], baseline: str, last: int
) -> tuple[list[SessionGain], list[SessionData], list[str]]:
    """The pairs; the sessions that have a partner, but no score; and in sentences, which others are left out."""
    partners = [run for run in runs if run.method == baseline]
    if not partners:
        known = dict.fromkeys(run.method for run in runs)
        raise ConfigError(
            f"No session here is of the baseline '{baseline}'.{nearest(baseline, known)} A gain is a difference from "
            f"sessions of a baseline method. Methods here: {', '.join(known)}."
        )
    conditions = [(partner, condition(partner)) for partner in partners]
    found, failed = list[SessionGain](), list[SessionData]()
    left_out, shorter = dict[str, list[str]](), dict[int, list[str]]()
    for run in (run for run in runs if run.method != baseline):
        own, its = condition(run), list[tuple[SessionData, dict[str, Any]]]()
        for partner, known in conditions:
            parent = partner.document.get("parent")
            # A fork of the session itself has its clients as they were there.
            fork = parent is not None and parent["id"] == run.document.get("id")
            its.append((partner, known | ({"parent": own["parent"]} if fork else {})))
        matching = [partner for partner, known in its if known == own]
        candidates = [
            each for each in matching if training_settings(each) == training_settings(run)
        ] or matching
        if not candidates:
            closest = min(
                (known for _, known in its), key=lambda each: sum(each[key] != own[key] for key in own)
            )
            apart = _differing(own, closest, run.method, baseline)
            why = f"no session of {baseline} has its clients. The closest differs in {apart}"
        elif len(candidates) > 1:
            why = f"{len(candidates)} sessions of {baseline} are alike"
        elif Divergence.of(run.totals).untrained:
            failed.append(run)
            continue
        elif Divergence.of(candidates[0].totals).untrained:
            why = f"every client of {candidates[0].name} diverged in every round, so it has no score"
        elif (one := _gain(run, candidates[0], last)) is None:
            why = "its clients or those of its partner have no accuracy"
        else:
            found.append(one)
            if run.totals.rounds != candidates[0].totals.rounds:
                shorter.setdefault(one.round, []).append(run.name)
            continue
        left_out.setdefault(why, []).append(run.name)
    notes = [f"{_are(names)} left out: {why}." for why, names in left_out.items()]
    if not found:
        remedy = " Run both with the same values." if any("differs in" in why for why in left_out) else ""
        notes = _without_score(failed) + notes
        reason = notes[0] + remedy if notes else f"All sessions are of {baseline}."
        raise ConfigError(f"No session has a partner of {baseline}. {reason}")
    for round, names in shorter.items():
        notes.append(f"{_are(names)} compared after round {round}, the last that both have.")
    return found, failed, notes


def _are(names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def _differing(own: Mapping[str, Any], other: Mapping[str, Any], method: str, baseline: str) -> str:
    """'models.features: 64 (fedgh), not set (standalone)'."""

    def words(key: str, value: Any) -> str:
        if key == "parent":
            return "none" if value is None else f"a session's round {value[1]}"
        return seed_words(*value) if key == "seed" else caveats.worded(value)

    apart = [key for key in own if own[key] != other[key] and key != _DATA]
    each = [
        f"{key}: {words(key, own[key])} ({method}), {words(key, other[key])} ({baseline})" for key in apart
    ]
    return "; ".join(each) or "its samples or their partition"


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


def condition(run: SessionData) -> dict[str, Any]:
    """What two sessions must share so that a gain compares each client with itself, by key: all that decides its data,
    its first weights, and the model with which it is evaluated.
    """
    config = merged(defaults(), completed(_resolved(run)))
    known = {key: value for key, value in flattened(config).items() if key in _DECIDING and key not in SEEDS}
    parent = run.document.get("parent")
    facts = {_DATA: run.document.get("data_fingerprint", "")}
    return {"seed": seeds_of(config), "parent": parent and (parent["id"], parent["round"])} | known | facts


def _resolved(run: SessionData) -> dict[str, Any]:
    """Its settings, with the model that its method evaluates where they name none."""
    evaluation = run.config.get("evaluation", {})
    model = evaluation.get("model") or evaluated(run.method)
    return {**run.config, "evaluation": {**evaluation, "model": model}}


def evaluated(method: str) -> str:
    """Which weights of a client's model a method evaluates by default: 'local', or 'aggregated' for received ones.

    Methods that receive no weights of the model evaluate the client's own, also if they use what they receive next. A
    method of the user's counts as 'local'.
    """
    if method not in declarations.modules():
        return "local"
    declared = declarations.declared(method)
    return declared.answers if declared.card.kind == "weights" else "local"


def same_clients(run: SessionData) -> Key:
    """Equal in two sessions if client k has the same data, model, and first weights in both."""
    found = condition(run)
    del found["evaluation.model"], found["parent"]
    found["seed"] = found["seed"][:2]  # that of training decides later draws
    return tuple((key, str(found[key])) for key in sorted(found))  # a list of tables has no hash


def training_settings(run: SessionData) -> Key:
    """The settings of training, with which partners agree if some do."""
    known = axes(run)
    return tuple((name, known[name]) for name in sorted(known) if name.startswith("training."))


def _row(
    by: Sequence[str], key: Key, group: Sequence[SessionGain], margin: float | None, test: Test | None
) -> GainRow:
    def over_seeds(values: Iterable[float]) -> MeanStd:
        found = MeanStd.of(values)
        assert found is not None
        return found

    def of_parts(each: Sequence[Mapping[str, float]]) -> dict[str, MeanStd]:
        names = dict.fromkeys(name for one in each for name in one)
        return {name: over_seeds(one[name] for one in each if name in one) for name in names}

    means = [each.mean for each in group]
    difference = paired(dict(enumerate(means)), dict.fromkeys(range(len(means)), 0.0))
    assert difference is not None
    return GainRow(
        key=key,
        label=group_label(by, key),
        sessions=tuple(each.run.name for each in group),
        clients=max(len(each.known) for each in group),
        gain=difference,
        benefit=over_seeds(float((each.known > 0).mean()) for each in group),
        harm=over_seeds(float((each.known < 0).mean()) for each in group),
        worst=over_seeds(each.worst for each in group),
        models=of_parts([each.by_model() for each in group]),
        sizes=of_parts([each.by_size() for each in group]),
        unequal=sum(abs(mean) >= EQUAL for mean in means),
        p=None if test is None else p_of_gain(means, test),
        p_equivalent=None if margin is None else p_of_equivalence(means, margin),
        diverged=Divergence.over(Divergence.of(each.run.totals) for each in group),
    )


def p_of_gain(differences: Sequence[float], test: Test) -> float | None:
    """The two-sided p value of paired differences under 'their mean (t) or median (Wilcoxon) is 0'.

    None for a single pair, and for differences that are all equal.
    """
    if len(differences) < 2 or max(differences) - min(differences) < EQUAL:
        return None
    if test == "wilcoxon":
        return _wilcoxon([each for each in differences if abs(each) >= EQUAL])
    from scipy import stats  # a second's import

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: Sequence[float]) -> float:
    """The exact p value over all signs of differences that are not 0. Equal sizes share their mean rank."""
    sizes = np.round(np.abs(differences), 12)
    doubled = [int((sizes < each).sum() + (sizes <= each).sum() + 1) for each in sizes]  # twice the ranks
    ways = np.zeros(sum(doubled) + 1)
    ways[0] = 1.0
    for rank in doubled:  # the share of signs by the sum of the positive ranks
        ways = (ways + np.concatenate([np.zeros(rank), ways[: len(ways) - rank]])) / 2
    positive = sum(rank for rank, each in zip(doubled, differences, strict=True) if each > 0)
    return min(1.0, 2 * float(min(ways[: positive + 1].sum(), ways[positive:].sum())))


def p_of_equivalence(differences: Sequence[float], margin: float) -> float | None:
    """The p value of two one-sided t tests (Schuirmann, 1987) under 'the mean difference is `margin` or more away
    from 0'. None for a single pair, and for differences that are all equal.
    """
    if len(differences) < 2 or max(differences) - min(differences) < EQUAL:
        return None
    from scipy import stats  # a second's import

    sides = ((-margin, "greater"), (margin, "less"))
    return max(float(stats.ttest_1samp(differences, bound, alternative=side).pvalue) for bound, side in sides)


def holm(values: Sequence[float]) -> list[float]:
    """The p values corrected for their number (Holm, 1979): n·p of the smallest one, (n − 1)·p of the next, …; each at
    least that of the one before, and at most 1.
    """
    corrected, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        least = max(least, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = least
    return corrected


def equivalence(p: float | None) -> str:
    """Whether a gain is smaller than the margin, in words."""
    if p is None:
        return NONE
    return f"{'equivalent' if p < ALPHA else 'not shown'} (p = {_p(p)})"


def _p(p: float | None) -> str:
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
