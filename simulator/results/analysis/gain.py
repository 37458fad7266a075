"""Who gains by federating: each client's accuracy less that of the same client under a baseline method.

A session is paired with a session of the baseline if all settings agree that decide a client: its data, its first
weights, and the model with which it is evaluated. A fork of the session that continues with the baseline, a shadow, is
a partner too. So client 3 of one is client 3 of the other.

    found = gains(runs, by="method")          # a table, paired with standalone
    partners = Partners().find(run, folder)   # the sessions of a folder with the same clients, the best first
    gain_after(run, other, round)             # how many clients gain, and who loses most
    verdict(runs, others, round)              # the difference in words, with a test
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, Stamp
from simulator.base.documents import Entry
from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import flattened, merged
from simulator.base.units import NONE, points
from simulator.config import decides_clients, keys
from simulator.methods import declarations
from simulator.results.analysis import axes, caveats
from simulator.results.analysis.caveats import alike, defaults, listed
from simulator.results.analysis.client_values import CELLS, Array, Numbers
from simulator.results.analysis.ledger import Divergence, well_formed
from simulator.results.analysis.run import Samples, SessionData, tested
from simulator.results.analysis.tabular import (
    Column,
    TextTable,
    axis_columns,
    chosen_columns,
    points_with,
)
from simulator.sessions.history import completed, settings_in_force
from simulator.sessions.reader import CheckedReader

BASELINE = "standalone"
_DECIDING = {key for key in keys() if decides_clients(key)}
_DATA = "data_fingerprint"
WORST = 0.1
"""The share of clients with the lowest gains: at least one client."""
SIZES = ("fewest samples", "middle", "most samples")
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

    def numbers(self) -> dict[str, float]:
        """Means over clients by the names of `GainRow`: of all, of the worst tenth, the shares above and below 0."""
        known = self.known
        least = np.sort(known)[: max(1, math.ceil(WORST * len(known)))]
        return {
            "gain": math.fsum(known) / len(known),
            "benefit": float((known > 0).mean()),
            "harm": float((known < 0).mean()),
            "worst": math.fsum(least) / len(least),
        }

    def by_model(self) -> dict[str, float]:
        """The mean gain of the clients of each architecture, in order of clients."""
        models = np.array(self.run.models)
        return self._means((name, np.flatnonzero(models == name)) for name in dict.fromkeys(self.run.models))

    def by_size(self) -> dict[str, float]:
        """The mean gain of each third of the clients by training samples; nothing where the session has no numbers."""
        samples = Samples.of(self.run)
        if samples is None or len(samples.train) < len(SIZES):
            return {}
        thirds = np.array_split(np.argsort(samples.train.sum(axis=1), kind="stable"), len(SIZES))
        return self._means(zip(SIZES, thirds, strict=True))

    def _means(self, members: Iterable[tuple[str, NDArray[np.int_]]]) -> dict[str, float]:
        chosen = ((name, self.gains[clients]) for name, clients in members)
        known = ((name, each[np.isfinite(each)]) for name, each in chosen)
        return {name: math.fsum(each) / len(each) for name, each in known if len(each)}


@dataclass(frozen=True)
class GainRow:
    """A group of sessions. Gains and shares are 0…1, and each is a mean over seeds of the value of a session.

    gain: with Student's interval over the seeds. p: of the hypothesis that there is no gain. p_equivalent: of the
    hypothesis that the gain is at least the margin, in either direction (two one-sided t tests). p values are None
    for a single seed, or if nobody asked for them. `corrected` says that they are.
    """

    key: axes.Key
    label: str
    sessions: tuple[str, ...]
    clients: int
    gain: axes.Difference
    benefit: axes.MeanStd
    """The share of clients that gain."""
    harm: axes.MeanStd
    """The share of clients that lose. A client with the same accuracy neither gains nor loses."""
    worst: axes.MeanStd
    models: Mapping[str, axes.MeanStd]
    sizes: Mapping[str, axes.MeanStd]
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

    about = ("baseline", "last", "margin", "test", "corrected")
    by: tuple[str, ...]
    rows: tuple[GainRow, ...]
    notes: tuple[str, ...]
    baseline: str
    last: int
    margin: float | None
    test: Test | None
    corrected: bool
    chosen: tuple[str, ...] = ()

    def columns(self) -> list[Column[GainRow]]:
        shown: list[Column[GainRow]] = [
            *axis_columns(self.by),
            Column("n", lambda row: str(len(row.sessions))),
            Column("clients", lambda row: str(row.clients)),
            Column(f"gain over {self.baseline}, pp", _gain_text),
            Column("benefit, %", lambda row: f"{100 * row.benefit.mean:.0f}"),
            Column("harm, %", lambda row: f"{100 * row.harm.mean:.0f}"),
            Column("worst 10 %, pp", lambda row: points(row.worst.mean)),
        ]
        holm = ", Holm" if self.corrected else ""
        if self.test is not None:
            shown.append(Column(f"p ({self.test}{holm})", lambda row: _p(row.p)))
        if self.margin is not None:
            within = f"within {100 * self.margin:g} pp (TOST{holm})"
            shown.append(Column(within, lambda row: _equivalence(row.p_equivalent), False))
        for field in ("models", "sizes"):
            for name in dict.fromkeys(name for row in self.rows for name in getattr(row, field)):
                shown.append(Column(f"{name}, pp", partial(_part_text, field, name), expendable=True))
        return chosen_columns(shown, self.chosen)

    def remarks(self) -> list[str]:
        shown = " ".join(column.name for column in self.columns())
        of = "of the last round" if self.last == 1 else f"over the last {self.last} rounds"
        pairs = min((row.unequal for row in self.rows), default=0)
        smallest = f"With {pairs} other{'s' * (pairs != 1)}, its smallest p value is {min(1.0, 2.0 ** (1 - pairs)):g}."
        sizes = any(name in shown for name in SIZES)
        sentences = {
            f"A gain is a client's test accuracy less its accuracy under {self.baseline}, {of}.": True,
            "benefit and harm are the shares of clients that gain and that lose, means over n sessions.": (
                "benefit" in shown or "harm" in shown
            ),
            "worst 10 %: the mean gain of the tenth of the clients with the lowest gains, at least one client.": (
                "worst 10 %" in shown
            ),
            "[low, high] is the 95 % interval of the mean over n seeds (Student's t, paired).": self.has("["),
            "fewest, middle, most samples: thirds of the clients by number of training samples.": sizes,
            f"Wilcoxon's test ignores pairs of equal means. {smallest}": "p (wilcoxon" in shown,
        }
        return [*self.notes, *(sentence for sentence, applies in sentences.items() if applies)]

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
    """The gain of each group of sessions over a baseline method, as `htfl_sim.gains` has it."""
    if last < 1:
        raise ConfigError(f"`last={last}` is not a number of rounds. Use 1 or more.")
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"The margin is an accuracy between 0 and 1; it is {margin:g}.")
    if test is not None and test not in TESTS:
        raise ConfigError(f"There is no test '{test}'.{nearest(test, TESTS)} Use {' or '.join(TESTS)}.")
    wanted = axes.checked(by, runs)
    pairs, failed, notes = _pairs(runs, baseline, last)
    by_run = {each.run.folder: each for each in pairs}
    counted = [run for run in runs if run.folder in by_run or run in failed]
    wanted = wanted or axes.varying(counted) or ("method",)
    every = {
        key: [Divergence.of(run.totals) for run in group]
        for key, group in axes.groups(counted, wanted).items()
    }
    notes += caveats.divergences((axes.group_label(wanted, key), each) for key, each in every.items())
    found = axes.groups([each.run for each in pairs], wanted)
    by_label = {axes.group_label(wanted, key): group for key, group in found.items()}
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
    if correct:
        corrected = (holm([row.p for row in rows]), holm([row.p_equivalent for row in rows]))
        each_row = zip(rows, *corrected, strict=True)
        rows = [replace(row, p=p, p_equivalent=equivalent) for row, p, equivalent in each_row]
    sentences, shown = tuple(dict.fromkeys(notes)), tuple(columns)
    made = GainTable(wanted, tuple(rows), sentences, baseline, last, margin, test, correct, shown)
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
    left_out, shorter = list[tuple[str, str]](), list[tuple[str, int]]()
    for run in (run for run in runs if run.method != baseline):
        own, its = condition(run), list[tuple[SessionData, dict[str, Any]]]()
        for partner, known in conditions:
            parent = partner.document.get("parent")
            # A fork of the session itself has its clients as they were there.
            fork = parent is not None and parent["id"] == run.document.get("id")
            its.append((partner, known | ({"parent": own["parent"]} if fork else {})))
        matching = [partner for partner, known in its if known == own]
        alike_trained = [each for each in matching if training_settings(each) == training_settings(run)]
        candidates = alike_trained or matching
        if not candidates:
            _, closest = min(its, key=lambda each: sum(each[1][key] != own[key] for key in own))
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
                shorter.append((run.name, one.round))
            continue
        left_out.append((run.name, why))
    notes = [f"{_are(names)} left out: {why}." for why, names in alike(left_out).items()]
    if not found:
        remedy = " Run both with the same values." if any("differs in" in why for _, why in left_out) else ""
        notes = _without_score(failed) + notes
        reason = notes[0] + remedy if notes else f"All sessions are of {baseline}."
        raise ConfigError(f"No session has a partner of {baseline}. {reason}")
    for round, names in alike(shorter).items():
        notes.append(f"{_are(names)} compared after round {round}, the last that both have.")
    return found, failed, notes


def _are(names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def _differing(own: Mapping[str, Any], other: Mapping[str, Any], method: str, baseline: str) -> str:
    """'models.features: 64 (fedgh), not set (standalone)'."""

    def words(key: str, value: Any) -> str:
        if key == "parent":
            return "none" if value is None else f"a session's round {value[1]}"
        return axes.seed_words(*value) if key == "seed" else caveats.worded(value)

    each = (
        f"{key}: {words(key, own[key])} ({method}), {words(key, other[key])} ({baseline})"
        for key in own
        if own[key] != other[key] and key != _DATA
    )
    return "; ".join(each) or "its samples or their partition"


def final_accuracies(run: SessionData, round: int, last: int = 1) -> Array:
    """[N] each client's mean test accuracy over the `last` rounds that end with `round`; NaN if one is not known."""
    accuracy = run.curves.accuracy
    rows = accuracy.select(np.arange(accuracy.clients), max(0, round - last), round)
    return np.asarray(rows.mean(axis=0))


def _gain(run: SessionData, baseline: SessionData, last: int) -> SessionGain | None:
    round = min(run.totals.rounds, baseline.totals.rounds)
    gains = final_accuracies(run, round, last) - final_accuracies(baseline, round, last)
    gains[np.abs(gains) < EQUAL] = 0.0
    found = SessionGain(run, baseline, round, gains)
    return found if len(found.known) else None


def condition(run: SessionData) -> dict[str, Any]:
    """By key what two sessions must share: what decides clients' data, first weights, and evaluated models."""
    config = merged(defaults(), completed(_resolved(run)))
    known = {
        key: value for key, value in flattened(config).items() if key in _DECIDING and key not in axes.SEEDS
    }
    parent = run.document.get("parent")
    facts = {_DATA: run.document.get("data_fingerprint", "")}
    return (
        {"seed": axes.seeds_of(config), "parent": parent and (parent["id"], parent["round"])} | known | facts
    )


def _resolved(run: SessionData) -> dict[str, Any]:
    """Its settings, with the model that its method evaluates where they name none."""
    evaluation = run.config.get("evaluation", {})
    model = evaluation.get("model") or evaluated(run.method)
    return {**run.config, "evaluation": {**evaluation, "model": model}}


def evaluated(method: str) -> str:
    """The weights that a method evaluates by default: 'aggregated', received ones; 'local', as a user's method."""
    if method not in declarations.modules():
        return "local"
    declared = declarations.declared(method)
    return declared.answers if declared.card.kind == "weights" else "local"


def same_clients(run: SessionData) -> axes.Key:
    """Equal in two sessions if client k has the same data, model, and first weights in both."""
    found = condition(run)
    del found["evaluation.model"], found["parent"]
    found["seed"] = found["seed"][:2]  # that of training decides later draws
    return tuple((key, str(found[key])) for key in sorted(found))  # a list of tables has no hash


def training_settings(run: SessionData) -> axes.Key:
    """The settings of training, with which partners agree if some do."""
    known = axes.axes(run)
    return tuple((name, known[name]) for name in sorted(known) if name.startswith("training."))


def _row(
    by: Sequence[str], key: axes.Key, group: Sequence[SessionGain], margin: float | None, test: Test | None
) -> GainRow:
    def over_seeds(values: Iterable[float]) -> axes.MeanStd:
        found = axes.MeanStd.of(values)
        assert found is not None
        return found

    def of_parts(each: Sequence[Mapping[str, float]]) -> dict[str, axes.MeanStd]:
        names = dict.fromkeys(name for one in each for name in one)
        return {name: over_seeds(one[name] for one in each if name in one) for name in names}

    numbers = [each.numbers() for each in group]
    means = [each.pop("gain") for each in numbers]
    gain = over_seeds(means)
    return GainRow(
        key=key,
        label=axes.group_label(by, key),
        sessions=tuple(each.run.name for each in group),
        clients=max(len(each.known) for each in group),
        gain=axes.Difference(gain.mean, gain.interval, gain.n),
        **of_parts(numbers),
        models=of_parts([each.by_model() for each in group]),
        sizes=of_parts([each.by_size() for each in group]),
        unequal=sum(abs(mean) >= EQUAL for mean in means),
        p=None if test is None else p_of_gain(means, test),
        p_equivalent=None if margin is None else p_of_equivalence(means, margin),
        diverged=Divergence.over(Divergence.of(each.run.totals) for each in group),
    )


def p_of_gain(differences: Sequence[float], test: Test) -> float | None:
    """The two-sided p value under 'the mean (t) or median (Wilcoxon) is 0'; None for one pair, or if all are equal."""
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


def holm(values: Sequence[float | None]) -> list[float | None]:
    """The p values there are, corrected for their number (Holm, 1979): n·p of the smallest one, (n − 1)·p of the next,
    …; each at least that of the one before, and at most 1.
    """
    corrected, least = list(values), 0.0
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    for rank, (value, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * value))
        corrected[place] = least
    return corrected


def _gain_text(row: GainRow) -> str:
    return row.diverged.marked(points_with(row.gain.mean, row.gain.interval))


def _part_text(field: str, name: str, row: GainRow) -> str:
    part: Mapping[str, axes.MeanStd] = getattr(row, field)
    return points(part[name].mean) if name in part else NONE


def _equivalence(p: float | None) -> str:
    return NONE if p is None else f"{'equivalent' if p < ALPHA else 'not shown'} (p = {_p(p)})"


def _p(p: float | None) -> str:
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


@dataclass(frozen=True)
class RoundGain:
    """A round of a session less the same round of its partner. mean: over the clients whose gains are known, 0…1.

    worst: the client with the lowest gain, which is `least`. correct: its right test samples in both, and their number,
    if known.
    """

    round: int
    clients: int
    better: int
    worse: int
    mean: float
    worst: int
    least: float
    correct: tuple[int, int, int] | None


def common_rounds(run: SessionData, partner: SessionData, shared: int = 0) -> NDArray[np.int_]:
    """[k] the rounds, from 1, that both have evaluated, without those that are the same ones in both."""
    both = np.intersect1d(run.curves.evaluated, partner.curves.evaluated)
    return both[both > shared]


def client_gains(run: SessionData, partner: SessionData, round: int) -> Array:
    """[N] each client's gain after a round that both have; NaN where one of them has no accuracy."""
    return _settled(run.curves.accuracy.after(round) - partner.curves.accuracy.after(round))


def gain_after(run: SessionData, partner: SessionData, round: int) -> RoundGain | None:
    """The gains after a round; None where no client has any, or where the clients differ in number."""
    if not 1 <= round <= min(run.round, partner.round) or run.curves.clients != partner.curves.clients:
        return None
    gains = client_gains(run, partner, round)
    known = gains[np.isfinite(gains)]
    if not len(known):
        return None
    samples, correct = tested(run, round), None
    client = int(np.nanargmin(gains))
    if samples is not None:
        number = int(samples[client])
        own, other = (each.curves.accuracy.after(round)[client] for each in (run, partner))
        correct = int(np.rint(own * number)), int(np.rint(other * number)), number
    better, worse = int((known > 0).sum()), int((known < 0).sum())
    mean = math.fsum(known) / len(known)
    return RoundGain(round, len(known), better, worse, mean, client, float(gains[client]), correct)


def gains_of(
    run: SessionData, partner: SessionData, clients: Sequence[int] | Numbers, rounds: NDArray[np.int_]
) -> Array:
    """[k, c] the gains of some clients after some rounds that both have, ascending."""
    first, last = (int(rounds[0]) - 1, int(rounds[-1])) if len(rounds) else (0, 0)
    own, other = (each.curves.accuracy.select(clients, first, last) for each in (run, partner))
    return _settled((own - other)[rounds - 1 - first])


def gains_by_round(
    run: SessionData, partner: SessionData, rounds: NDArray[np.int_], reduce: Callable[[Array], Array]
) -> Array:
    """[k, …] what `reduce` makes of the gains [b, N] of b of the rounds, which both have. The table stays small."""
    clients = np.arange(run.curves.clients)
    piece = rounds // max(1, CELLS // max(1, len(clients)))
    pieces = np.split(rounds, np.flatnonzero(np.diff(piece)) + 1)
    return np.concatenate([reduce(gains_of(run, partner, clients, each)) for each in pieces])


def verdict(runs: Sequence[SessionData], others: Sequence[SessionData], round: int) -> str | None:
    """What is known of the mean accuracy of runs less that of others, after a round that all have; None: nothing.

    Runs are paired by seed. The test is Student's paired t at 5 %: over the seeds, or over a single pair's clients.
    A client loses if the mean of its differences over the pairs is below 0.
    """
    runs, others = ([each for each in side if each.round >= round] for side in (runs, others))
    by_seeds = {axes.seeds_of(each.config): each for each in others}
    pairs = [(run, by_seeds[key]) for run in runs if (key := axes.seeds_of(run.config)) in by_seeds]
    if not pairs and len(runs) == len(others) == 1:
        pairs = [(runs[0], others[0])]
    if not pairs:
        return None
    own, other = (
        {place: float(each.curves["accuracy"][round - 1]) for place, each in enumerate(side)}
        for side in zip(*pairs, strict=True)
    )
    found = axes.paired(own, other)
    assert found is not None
    common = f" over {len(pairs)} common seed{'s' * (len(pairs) > 1)}"
    said = [f"{points(found.mean)} pp at round {round}{common * (len(pairs) < max(len(runs), len(others)))}"]
    if not all(same_clients(run) == same_clients(partner) for run, partner in pairs):
        return f"{said[0]}; no test, because their clients differ"
    of_pairs = [client_gains(*pair, round) for pair in pairs]
    by_client = np.full((len(pairs), max(map(len, of_pairs))), np.nan)
    for row, each in zip(by_client, of_pairs, strict=True):
        row[: len(each)] = each
    gains = _settled(np.nanmean(by_client[:, np.isfinite(by_client).any(axis=0)], axis=0))
    lost = int((gains < 0).sum())
    said.append(f"{lost} of {len(gains)} clients lose{'s' * (lost == 1)}")
    over = f"{len(pairs)} seeds"
    if len(pairs) == 1:
        found, over = (
            axes.paired(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0)),
            f"{len(gains)} clients",
        )
    if found is None or found.interval is None:
        return f"{', '.join(said)}; no test of a single client"
    low, high = found.interval
    noise = "more than noise" if low > 0 or high < 0 else "within noise"
    return f"{', '.join(said)}, {noise} (paired t over {over}, 95 %: {points(low)} to {points(high)} pp)"


def _settled(gains: Array) -> Array:
    """The differences, with 0 for those that differ from it by rounding alone."""
    return np.where(np.abs(gains) < EQUAL, 0.0, gains)


SHADOW = "shadow"
"""The tag of a fork that was made to be compared with its parent, whatever its method is."""


@dataclass(frozen=True)
class Partner:
    """A session with the same clients. shared: the last round in common with the other, 0 for none. rounds: its last
    kept checkpoint. alike: whether it has the other's training seed and settings.
    """

    folder: Path
    method: str
    shared: int
    rounds: int
    alike: bool
    created: str

    @property
    def name(self) -> str:
        return checkpoints.name_of(self.folder)


@dataclass(frozen=True, eq=False)
class Pair:
    """A session and a partner, as both are now. others: the partner's rivals, the best first."""

    folder: Path
    """The session's."""
    partner: Partner
    other: SessionData
    """The partner's rounds."""
    others: tuple[Partner, ...] = ()


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A session that may be a partner. clients: equal in sessions with the same clients."""

    run: SessionData
    clients: axes.Key
    training: axes.Key
    methods: Sequence[tuple[int, str]]
    tags: Sequence[str] = ()


Value = TypeVar("Value")
_Cache = dict[Path, tuple[tuple[Stamp, ...], Value]]
"""What was read of a session, with the stamp of the files that it was read from."""


class Partners:
    """Finds the partners of one session after another. It reads again only what has changed since it last looked."""

    def __init__(self) -> None:
        self._wanted: tuple[str, ...] = ()
        self._passed: _Cache[bool] = {}
        """By session, whether its session.json names what a partner's names."""
        self._known: _Cache[_Candidate | None] = {}

    def find(self, run: SessionData, folder: Path, baseline: str = BASELINE) -> tuple[Partner, ...]:
        """The partners of a session among those of a folder and its studies: the best first.

        Those with the same training seed and settings come first, then those that can be compared over most rounds,
        then the newest. Forks that were made as shadows with another method come last.
        """
        if not run.document.get("id"):
            return ()
        id, fingerprint = run.document["id"], run.document.get("data_fingerprint", "")
        if self._wanted != (wanted := (id, fingerprint, baseline)):
            self._wanted, self._passed = wanted, {}
        clients, training, found = same_clients(run), _training(run), list[tuple[axes.Key, Partner]]()
        folders: list[Path] = []
        with suppress(DiskError, OSError):
            folders = checkpoints.session_folders(folder)
        for path in folders:
            document = checkpoints.changed_stamp(path, "document")
            mentioned = partial(checkpoints.mentions, path, fingerprint, any_of=[f'"{baseline}"', f'"{id}"'])
            if not _once(self._passed, path, document, mentioned):
                continue
            both = checkpoints.changed_stamp(path, "document", "checkpoints")
            other = _once(self._known, path, both, partial(_candidate, path))
            if other is None or other.run.document["id"] == id or other.clients != clients:
                continue
            if (shared := _shared(run, other, baseline)) is None:
                continue
            method, created = other.methods[-1][1], str(other.run.document.get("created", ""))
            rounds = max(other.run.checkpoints, default=0)
            alike, compared = other.training == training, min(rounds, run.round) - shared
            partner = Partner(path, method, shared, rounds, alike, created)
            found.append(((method == baseline, alike, compared, created), partner))
        return tuple(partner for _, partner in sorted(found, key=lambda each: each[0], reverse=True))


def _once(cache: _Cache[Value], path: Path, stamp: tuple[Stamp, ...], read: Callable[[], Value]) -> Value:
    if path not in cache or cache[path][0] != stamp:
        cache[path] = stamp, read()
    return cache[path][1]


def _candidate(path: Path) -> _Candidate | None:
    with suppress(SessionUnreadable, DiskError, OSError):
        session = CheckedReader(path)
        kept, newest = tuple(session.rounds()), session.newest()
        history: list[Entry] = newest.history if newest else []
        with well_formed(path):
            config = settings_in_force(session.document, history)
            run = SessionData(path, document=session.document, config=config, checkpoints=kept)
            first = str(session.document["config"]["method"]["name"])
            methods = [(entry["from_round"], str(entry["method"]["name"])) for entry in history]
        found = _Candidate(run, same_clients(run), _training(run), methods or [(1, first)])
        with suppress(Damaged):
            return replace(found, tags=checkpoints.tags_of(path))
        return found
    return None


def _training(run: SessionData) -> axes.Key:
    return axes.seeds_of(run.config), *training_settings(run)


def _shared(run: SessionData, other: _Candidate, baseline: str) -> int | None:
    """The last round that both have in common, if `other` is a partner of `run`; None if it is not."""
    about, own = other.run.document.get("parent"), run.document.get("parent")
    shared, shadows = 0, False
    if about is not None and about["id"] == run.document["id"]:
        shared, shadows = about["round"], SHADOW in other.tags
    elif about is not None and own is not None and about["id"] == own["id"]:
        shared = min(about["round"], own["round"])
    theirs = _methods_after(other.methods, shared)
    wanted = theirs == {baseline} or (shadows and len(theirs) == 1)
    return shared if wanted and _methods_after(run.methods, shared) != theirs else None


def _methods_after(methods: Sequence[tuple[int, str]], round: int) -> set[str]:
    """The methods in force after a round."""
    before = [name for begins, name in methods if begins <= round + 1]
    return {*before[-1:], *(name for begins, name in methods if begins > round + 1)}
