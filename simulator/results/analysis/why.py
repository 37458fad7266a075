"""Why a client does as it does after a round, in sentences with numbers.

The first finding is the client's accuracy. Findings that may explain a low one follow, then all others. What holds in
every round (data, model, similarity, training) explains only an accuracy that is significantly below that of the other
clients. All comparisons of shares use one test, `surely`. Without it, a sentence says that it can be chance.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.units import number, percent
from simulator.metrics.significance import FEW, Z, is_fall, standard_errors
from simulator.results.analysis.classes import ClassCounts, class_counts
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import Counts, incidents
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.ledger import CkaMeasurement, Curves, Divergence
from simulator.results.analysis.measures import client_on_part
from simulator.results.analysis.run import Samples, SessionData, tested

Topic = Literal["result", "round", "classes", "data", "model", "similarity", "baseline", "training"]
SEEN = 0.0005
"""The smallest difference of accuracies that is shown as one."""
NAMED = 5
"""The most classes, or clients, that a sentence names."""
APART = 0.05
"""A mean accuracy of a model's clients that is this far below that of all others concerns the model."""
UNALIKE = 0.1
"""A client whose mean CKA is this far below that of all pairs is an outlier, if no client's is lower."""
OVERFIT = 1.1
"""A test loss this many times its minimum has risen."""
CHANCE = " This can be chance."


@dataclass(frozen=True)
class Finding:
    """A sentence or a few. facts: their numbers by name; shares are 0…1. bad: it may explain a low accuracy."""

    topic: Topic
    text: str
    facts: Mapping[str, object]
    bad: bool = False


@dataclass(frozen=True)
class ClassRow:
    """A class of a client. train: its training samples; before: correct answers in the round before; None: unknown."""

    label: int
    name: str
    samples: int
    correct: int
    answered: int
    train: int | None
    before: int | None

    @property
    def recall(self) -> float | None:
        return self.correct / self.samples if self.samples else None

    @property
    def lost(self) -> bool:
        """Whether the round lost two or more correct answers, and at least half of them."""
        return self.before is not None and self.before >= max(2 * self.correct, self.correct + 2)

    @property
    def gained(self) -> bool:
        return self.before is not None and self.correct >= max(2 * self.before, self.before + 2)


def surely(before: float, after: float, tested: int | None) -> bool:
    """Whether two shares of at least FEW samples differ significantly, at 5 %."""
    return bool(tested and tested >= FEW and abs(standard_errors(before, after, tested)) >= Z)


def is_low(accuracy: Array, client: int, tested: int | None) -> bool:
    """Whether a client is significantly less accurate than the mean of the other clients."""
    others = np.delete(accuracy, client)
    others = others[np.isfinite(others)]
    return bool(tested and others.size and is_fall(others.mean(), accuracy[client], tested))


def class_name(label: int, name: str) -> str:
    """A class in a sentence: class 4, or class 4 (coat)."""
    return f"class {label}" if name == str(label) else f"class {label} ({name})"


def class_rows(
    now: Mapping[int, ClassCounts],
    before: Mapping[int, ClassCounts] | None,
    samples: Samples | None,
    client: int,
) -> tuple[ClassRow, ...]:
    """The classes of a client, those of the lowest recall first, and last those without samples."""
    rows = []
    for label, counts in now.items():
        known = samples if samples is not None and label < len(samples.classes) else None
        old = None if before is None else before.get(label, ClassCounts(counts.samples, 0, 0))
        name, train = (known.classes[label], int(known.train[client][label])) if known else (str(label), None)
        right = old.correct if old is not None and old.samples == counts.samples else None
        rows.append(ClassRow(label, name, *counts, train, right))
    order = sorted(rows, key=lambda row: (row.recall is None, row.recall or 0.0, -row.samples, row.label))
    return tuple(order)


def _result(
    curves: Curves, client: int, model: str, parameters: int | None, tested: int | None
) -> Iterator[Finding]:
    """The accuracy, beside that of all others. curves: up to the round."""
    accuracy = curves.accuracy.after(curves.rounds)
    own, mean = float(accuracy[client]), float(curves["accuracy"][-1])
    who = f"{model}, {parameters:,} parameters" if parameters else model
    facts: dict[str, object] = {"model": model, "parameters": parameters}
    if math.isnan(own):
        text = f"Client {client} ({who}) was not evaluated up to round {curves.rounds}."
        yield Finding("result", text, facts)
        return
    counts = f" ({own * tested:.0f} of {tested} test samples)" if tested else ""
    gap, beside = own - mean, "equal to the mean"
    if abs(gap) >= SEEN:
        beside = f"{_pp(gap)} {'below' if gap < 0 else 'above'} the mean"
    known = accuracy[np.isfinite(accuracy)]
    lower, higher = int((known < own).sum()), int((known > own).sum())
    place = f" Of {len(known)} clients, {lower} {_are(lower)} lower and {higher} {_are(higher)} higher."
    facts |= {"accuracy": own, "mean": mean, "tested": tested, "lower": lower, "higher": higher}
    text = f"Client {client} ({who}): {percent(own)}{counts}, {beside}.{place if len(known) > 1 else ''}"
    yield Finding("result", text, facts)
    if tested and tested < FEW:
        text = f"It has only {tested} test samples: each one changes its accuracy by {_pp(1 / tested)}."
        yield Finding("result", text, {"tested": tested})


def _last_round(
    run: SessionData, round: int, client: int, tested: int | None, classes: Sequence[ClassRow]
) -> Iterator[Finding]:
    """What happened to it in the round, and what the round changed."""
    record, records = run.records[round - 1], run.records[:round]
    happened = incidents(records, client)
    took = round - len(happened.absent)
    facts: dict[str, object] = {"took_part": took, "rounds": round}
    if round in happened.absent:
        last = next((each["round"] for each in reversed(records) if client in each["participants"]), None)
        since = f"It took part in {took} of {round} rounds, most recently in round {last}."
        if last is None:
            since = f"It has not taken part in any of {round} rounds."
        yield Finding("round", f"It was not selected in round {round}. {since}", facts | {"last": last})
    elif happened.absent:
        rarely = bool(2 * took <= np.median(run.curves.upto(round).participated.totals()))
        yield Finding("training", f"It took part in {took} of {round} rounds.", facts, bad=rarely)
    not_finite = "its loss or weights were not finite, so it kept its state from before the round"
    for rounds, what, ever in (
        (happened.diverged, f"it diverged: {not_finite}", "It diverged"),
        (happened.dropped, "its uplink was lost", "Its uplink was lost"),
    ):
        if round in rounds:
            yield Finding("round", f"In round {round}, {what}.", {"round": round}, bad=True)
        if earlier := [each for each in rounds if each < round]:
            text = f"{ever} in {_rounds(len(earlier), 'earlier ')}, most recently in round {earlier[-1]}."
            yield Finding("training", text, {"rounds": len(earlier), "last": earlier[-1]}, bad=True)
    for flight in record["time"]["flights"] if "time" in record else ():
        age, sent = round - flight["dispatch"], f"sent off in round {flight['dispatch']}"
        text = f"The server used its uplink when it was {_rounds(age)} old ({sent})."
        if fate := _FATES.get(flight["fate"]):
            text = f"Its uplink, {sent}, {fate}."
        if flight["client"] == client and (age or fate):
            facts = {"dispatch": flight["dispatch"], "age": age, "fate": flight["fate"]}
            yield Finding("round", text, facts, bad=fate is not None)
    changed = record.get("timeline")
    if changed and client in changed["data"]:
        yield Finding("round", f"At the beginning of round {round}, its data changed.", {}, bad=True)
    if round > 1:
        now, before = (float(run.curves.accuracy.after(each)[client]) for each in (round, round - 1))
        if abs(now - before) >= SEEN:
            verb = "fell" if now < before else "rose"
            counts = f" ({before * tested:.0f} → {now * tested:.0f} of {tested})" if tested else ""
            sure = surely(before, now, tested)
            text = f"In round {round}, it {verb} from {percent(before)} to {percent(now)}{counts}."
            facts = {"before": before, "now": now, "tested": tested, "significant": sure}
            yield Finding("round", text + CHANCE * (not sure), facts, bad=now < before and sure)
    for verb in ("lost", "gained"):
        rows = [row for row in classes if getattr(row, verb)]
        for row in sorted(rows, key=lambda row: -abs(row.correct - (row.before or 0)))[:NAMED]:
            before, right, of = row.before or 0, row.correct, row.samples
            sure = surely(before / of, right / of, of)
            text = (
                f"In round {round}, it {verb} {class_name(row.label, row.name)}: recall {percent(before / of)} → "
                f"{percent(row.recall)} ({before} → {right} of {of}).{CHANCE * (not sure)}"
            )
            facts = {
                "class": row.label,
                "before": before,
                "correct": right,
                "samples": of,
                "significant": sure,
            }
            yield Finding("round", text, facts, bad=verb == "lost" and sure)


_FATES = {
    "late": "arrived after the end of the round and was not used",
    "stale": "was too old and was not used",
    "lost": "was lost, because the client left before it had sent",
    "dropped": "was lost on the wire",
}


def _answers(classes: Sequence[ClassRow]) -> Iterator[Finding]:
    """Recall of the classes, and what the model answers too often or never: its share of answers and of samples."""
    held = [row for row in classes if row.samples]
    tested = sum(row.samples for row in held)
    if held:
        each = [
            f"{class_name(row.label, row.name)} {percent(row.recall)} ({row.correct} of {row.samples})"
            for row in held
        ]
        more = f"; {len(held) - NAMED} more" if len(held) > NAMED else ""
        text = f"Recall, lowest first: {'; '.join(each[:NAMED])}{more}."
        yield Finding("classes", text, {"classes": len(held)})
    often = max(classes, key=lambda row: row.answered - row.samples, default=None)
    if often is not None and often.answered - often.samples >= max(2, tested / 10):
        name = class_name(often.label, often.name)
        true = f"{often.samples} {'is' if often.samples == 1 else 'are'} of this class"
        text = f"It answers {name} for {often.answered} of {tested} test samples; {true}."
        facts = {"class": often.label, "answered": often.answered, "samples": often.samples, "tested": tested}
        sure = surely(often.samples / tested, often.answered / tested, tested)
        yield Finding("classes", text, facts, bad=sure)
    if never := [row for row in held if not row.answered]:
        number_of = sum(row.samples for row in never)
        text = f"It never answers {_classes(never)} ({number_of} of {tested} test samples)."
        where = {"classes": [row.label for row in never], "samples": number_of}
        yield Finding("classes", text, where, bad=surely(number_of / tested, 0.0, tested))
    if unseen := [row for row in held if row.train == 0]:
        number_of, right = sum(row.samples for row in unseen), sum(row.correct for row in unseen)
        tests = f"{number_of} of {tested} test samples ({right} correct)"
        text = f"It has no training samples of {_classes(unseen)}, but {tests}."
        where = {"classes": [row.label for row in unseen], "samples": number_of, "correct": right}
        yield Finding("data", text, where, bad=surely((number_of - right) / tested, 0.0, tested))


def _data(samples: Samples, client: int) -> Iterator[Finding]:
    """How much data it has, and with whom it shares classes."""
    totals, own = samples.train.sum(axis=1), int(samples.train[client].sum())
    found, of = samples.largest(client), len(samples.classes)
    labels = {name: label for label, name in enumerate(samples.classes)}
    named = ", ".join(f"{class_name(labels[name], name)} ({count})" for name, count in found[:NAMED])
    middle = float(np.median(totals))
    text = (
        f"It trains on {own:,} samples of {len(found)} of {of} classes: {named}{_more(found)}. "
        f"The median client has {middle:,g}."
    )
    facts: dict[str, object] = {"train": own, "classes": len(found), "of_classes": of, "median": middle}
    yield Finding("data", text, facts, bad=2 * own <= middle)
    if len(totals) < 2 or not own:
        return
    values, held = overlaps(samples, client), samples.train > 0
    none = [int(each) for each in np.flatnonzero(values == 0.0)]
    near, far = int(np.nanargmax(values)), int(np.nanargmin(values))
    common, of = (held & held[client]).sum(axis=1), int(held[client].sum())
    text = f"Client {near} has the most similar classes: overlap {values[near]:.2f}, {common[near]} of {of} in common."
    if none:
        names = ", ".join(map(str, none[:NAMED])) + _more(none)
        text += f" Client {names} shares" if len(none) == 1 else f" Clients {names} share"
        text += " none of its classes."
    elif far != near:
        text += f" Client {far} has the least: {values[far]:.2f}, {common[far]} in common."
    facts = {
        "nearest": near, "nearest_overlap": float(values[near]), "furthest": far,
        "furthest_overlap": float(values[far]), "without_common_classes": none,
    }  # fmt: skip
    yield Finding("data", text, facts, bad=float(values[near]) == 0.0)


def overlaps(samples: Samples, client: int) -> Array:
    """[N] each client's overlap of classes with one client's: Σ min of shares; NaN: itself, or without samples."""
    totals = samples.train.sum(axis=1, keepdims=True)
    shares = np.divide(samples.train, totals, out=np.zeros(samples.train.shape), where=totals > 0)
    found = np.minimum(shares, shares[client]).sum(axis=1)
    found[totals[:, 0] == 0] = np.nan
    found[client] = np.nan
    return np.asarray(found)


def _models(
    run: SessionData, accuracy: Array, client: int, parameters: Mapping[str, int], tested: Counts | None
) -> Iterator[Finding]:
    """Whether clients with its model do worse than others, over the test samples of the smaller group."""
    names = np.array(run.models[: len(accuracy)])
    model, known = str(names[client]), np.isfinite(accuracy)
    same, rest = names == model, known & (names != model)
    same &= known
    same[client] = False
    facts: dict[str, object] = {"model": model, "same": int(same.sum()), "others": int(rest.sum())}
    parts, bad = [], False
    if same.any() and rest.any():
        own, others, number_of = float(accuracy[same].mean()), float(accuracy[rest].mean()), int(same.sum())
        facts |= {"same_mean": own, "others_mean": others}
        parts.append(
            f"{number_of} other client{'s' * (number_of > 1)} with {model}: {percent(own)} on average. "
            f"{int(rest.sum())} with other models: {percent(others)}."
        )
        fewer = 0 if tested is None else int(min(tested[each].sum() for each in (same, rest)))
        bad = own - others <= -APART and surely(others, own, fewer)
    if model in parameters and len(parameters) > 1:
        least, most = min(parameters.values()), max(parameters.values())
        facts |= {"parameters": parameters[model], "least": least, "most": most}
        parts.append(
            f"Its model has {parameters[model]:,} parameters; the models here have {least:,} to {most:,}."
        )
    if parts:
        yield Finding("model", " ".join(parts), facts, bad)


def _similarity(run: SessionData, found: CkaMeasurement, client: int) -> Iterator[Finding]:
    """The most and the least similar peer in the deepest layer that the client has."""
    for layer in reversed(found.layers):
        if client not in found.clients:
            return
        matrix, row = found.matrix(layer), list(found.clients).index(client)
        if not matrix.size:
            continue
        matrix = matrix.copy()
        np.fill_diagonal(matrix, np.nan)
        own = matrix[row]
        if not np.isfinite(own).any():
            continue
        near, far = (found.clients[int(pick(own))] for pick in (np.nanargmax, np.nanargmin))
        mean, everybody = float(np.nanmean(own)), found.mean(layer)
        rows = [float(np.nanmean(each)) for each in matrix if np.isfinite(each).any()]
        text = (
            f"By CKA of {layer} after round {found.round}, client {near} ({run.models[near]}) is nearest "
            f"({number(float(np.nanmax(own)))}) and client {far} ({run.models[far]}) furthest "
            f"({number(float(np.nanmin(own)))}). Its mean is {number(mean)}, that of all pairs is {number(everybody)}."
        )
        facts = {
            "layer": layer, "round": found.round, "nearest": near, "furthest": far, "mean": mean,
            "mean_of_pairs": everybody, "nearest_cka": float(np.nanmax(own)), "furthest_cka": float(np.nanmin(own)),
        }  # fmt: skip
        yield Finding("similarity", text, facts, mean <= min(rows) and mean <= everybody - UNALIKE)
        return


def _baseline(
    run: SessionData, other: SessionData, shared: int, round: int, client: int, tested: int | None
) -> Iterator[Finding]:
    """The gain over the same client of a session of a baseline, after the last round that both have."""
    at = min(round, other.round)
    if at <= shared or other.curves.clients != run.curves.clients:
        return
    own, theirs = (float(each.curves.accuracy.after(at)[client]) for each in (run, other))
    if math.isnan(own) or math.isnan(theirs):
        return
    gain = own - theirs
    seen = abs(gain) >= SEEN
    verb = f"it {'gains' if gain > 0 else 'loses'} {_pp(gain)}" if seen else "it gains nothing"
    counts = f" ({own * tested:.0f} against {theirs * tested:.0f} of {tested})" if tested else ""
    last = f"after round {at}" if at == round else f"after round {at}, the last of that session"
    text = (
        f"Against {other.method} (session {other.name}) {verb}: {percent(own)} against {percent(theirs)} "
        f"{last}{counts}."
    )
    sure = surely(theirs, own, tested)
    facts = {
        "session": other.name, "method": other.method, "round": at, "gain": gain, "accuracy": theirs,
        "significant": sure,
    }  # fmt: skip
    yield Finding("baseline", text + CHANCE * (seen and not sure), facts, gain <= -SEEN and sure)


def _training(run: SessionData, round: int, client: int, tested: int | None) -> Iterator[Finding]:
    """Its best round, and whether it overfits: by its losses, and by a significant fall of its accuracy."""
    accuracy = run.curves.accuracy.of(client)[:round]
    if np.isfinite(accuracy).any():
        best = int(np.nanargmax(accuracy))
        if accuracy[best] - accuracy[-1] >= SEEN:
            text = f"Its best accuracy was {percent(float(accuracy[best]))} after round {best + 1}."
            yield Finding("training", text, {"best": float(accuracy[best]), "round": best + 1})
    test = client_on_part(run.records[:round], "test", "loss", client)
    trained = run.curves.loss.of(client)[:round]
    both = np.isfinite(test) & np.isfinite(trained)
    if not both.any():
        return
    low, now = int(np.argmin(np.where(both, test, np.inf))), int(np.flatnonzero(both)[-1])
    if test[now] >= OVERFIT * test[low] and trained[now] < trained[low]:
        fell = bool(is_fall(accuracy[low], accuracy[now], tested or 0))
        text = (
            f"{'It overfits: from' if fell else 'From'} round {low + 1} to {now + 1}, its test loss rose from "
            f"{number(float(test[low]))} to {number(float(test[now]))}, and its training loss fell from "
            f"{number(float(trained[low]))} to {number(float(trained[now]))}."
            f"{'' if fell else ' Its accuracy did not fall by more than chance.'}"
        )
        facts = {
            "from_round": low + 1, "to_round": now + 1, "test_loss": [float(test[low]), float(test[now])],
            "training_loss": [float(trained[low]), float(trained[now])], "significant": fell,
        }  # fmt: skip
        yield Finding("training", text, facts, bad=fell)


def _more(every: Sequence[object]) -> str:
    return f", {len(every) - NAMED} more" if len(every) > NAMED else ""


def _rounds(count: int, which: str = "") -> str:
    return f"{count} {which}round{'s' * (count > 1)}"


def _classes(rows: Sequence[ClassRow]) -> str:
    names = [class_name(row.label, row.name) for row in rows[:NAMED]]
    *first, last = names + ([f"{len(rows) - NAMED} more"] if len(rows) > NAMED else [])
    return f"{', '.join(first)} and {last}" if first else last


def _pp(difference: float) -> str:
    """The size of a difference of accuracies: 11.2 pp."""
    return f"{abs(100 * difference):.1f} pp"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


STANDING = ("data", "model", "similarity", "training")
"""The topics that explain only a low accuracy."""
MISSING = {
    "counts": (
        "Recall by class is missing, because the round has no counts by class. New runs count them with "
        "evaluation.classes=true."
    ),
    "samples": "The classes of the clients are missing. `htfl-sim partition {name}` counts them.",
    "changed": (
        "The timeline has changed the data of clients, so their numbers of samples and classes are not known."
    ),
    "cka": "CKA is missing. `htfl-sim checkpoint {name} --cka` computes it from a checkpoint.",
    "baseline": (
        "The gain over {baseline} is missing. Run the same settings and seed with `--method {baseline}` in "
        "this folder."
    ),
}
"""What to do about facts that a session does not have."""


@dataclass(frozen=True)
class Why:
    """What is known about a client after a round. classes: the lowest recall first; empty if not counted."""

    session: str
    client: int
    model: str
    round: int
    findings: tuple[Finding, ...]
    classes: tuple[ClassRow, ...]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `htfl-sim why --json` prints them."""
        return asdict(self)


def why(
    run: SessionData,
    client: int,
    round: int | None = None,
    *,
    cka: CkaMeasurement | None = None,
    baseline: SessionData | None = None,
    shared: int = 0,
    parameters: Mapping[str, int] | None = None,
) -> Why:
    """The findings on a client after a round (None: the last).

    cka: the last measurement up to the round. baseline: a session with the same clients under a baseline method, and
    `shared`: the last round that both have in common. parameters: of each model, if session.json does not say.
    Raises ConfigError for a client or a round that does not exist.
    """
    at = run.round if round is None else round
    if not 1 <= at <= run.round:
        has = f"It has rounds 1 to {run.round}." if run.round else "No round is finished yet."
        raise ConfigError(f"{run.name} has no round {at}. {has}")
    if not 0 <= client < run.curves.clients:
        raise ConfigError(f"{run.name} has no client {client}. It has clients 0 to {run.curves.clients - 1}.")
    curves, known = run.curves.upto(at), tested(run, at)
    samples = None if known is None else Samples.of(run)
    counts = class_counts(run.records[:at], client)
    before = class_counts(run.records[: at - 1], client) if at > 1 else None
    rows = () if counts is None else class_rows(counts, before, samples, client)
    number = sum(row.samples for row in rows) or (None if known is None else int(known[client]))
    sizes = parameters or run.document.get("parameters", {})
    model, accuracy = run.models[client], curves.accuracy.after(at)

    def found() -> Iterator[Finding]:
        yield from _result(curves, client, model, sizes.get(model), number)
        yield from _last_round(run, at, client, number, rows)
        yield from _answers(rows)
        if samples is not None:
            yield from _data(samples, client)
        yield from _models(run, accuracy, client, sizes, known)
        if cka is not None:
            yield from _similarity(run, cka, client)
        if baseline is not None:
            yield from _baseline(run, baseline, shared, at, client, number)
        yield from _training(run, at, client, number)

    low, every = is_low(accuracy, client, number), found()
    first, *rest = (replace(each, bad=each.bad and (low or each.topic not in STANDING)) for each in every)
    if Divergence.of(run.totals, at).untrained:
        failed = f"{run.name} has no score: every client diverged in every round, and kept its first model."
        first = replace(first, text=f"{failed} {first.text}")
    findings = (first, *sorted(rest, key=lambda finding: not finding.bad))
    topics = {finding.topic for finding in findings}
    lacks = {
        "counts": not rows,
        "samples": samples is None and Samples.of(run) is None,
        "changed": samples is None and Samples.of(run) is not None,
        "cka": "similarity" not in topics,
        "baseline": "baseline" not in topics and run.records[at - 1]["method"] != BASELINE,
    }
    missing = (text.format(name=run.name, baseline=BASELINE) for what, text in MISSING.items() if lacks[what])
    return Why(run.name, client, model, at, findings, rows, tuple(missing))
