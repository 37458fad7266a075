"""Why a client does as it does after a round, in sentences with numbers.

    found = why(run, 6, 12, cka=run.ledger.measured[-1])
    for each in found.findings: print(each.text)

The first finding is the client's accuracy. Findings that may explain a low one follow, then all others. What holds in
every round (data, model, similarity, training) explains only an accuracy that is significantly below that of the other
clients. Facts that a session does not have are in `missing`, each with what to do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from simulator.base.errors import ConfigError
from simulator.results.analysis import why_parts
from simulator.results.analysis.cka import CkaMeasurement
from simulator.results.analysis.classes import class_counts
from simulator.results.analysis.divergence import Divergence
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import Samples, tested
from simulator.results.analysis.why_parts import ClassRow, Finding

STANDING = ("data", "model", "similarity", "training")
"""The topics that explain only a low accuracy."""
NO_CLASSES = (
    "Recall by class is missing, because the round has no counts by class. New runs count them with "
    "evaluation.classes=true."
)
NO_SAMPLES = "The classes of the clients are missing. `htfl-sim partition {name}` counts them."
OTHER_DATA = (
    "The timeline has changed the data of clients, so their numbers of samples and classes are not known."
)
NO_CKA = "CKA is missing. `htfl-sim checkpoint {name} --cka` computes it from a checkpoint."
NO_BASELINE = (
    "The gain over {baseline} is missing. Run the same settings and seed with `--method {baseline}` in "
    "this folder."
)


@dataclass(frozen=True)
class Why:
    """What is known about a client after a round. classes: those of the lowest recall first; empty if not counted."""

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
    rows = () if counts is None else why_parts.class_rows(counts, before, samples, client)
    number = sum(row.samples for row in rows) or (None if known is None else int(known[client]))
    sizes = parameters or run.document.get("parameters", {})
    model, accuracy = run.models[client], curves.accuracy.after(at)

    def found() -> Iterator[Finding]:
        yield from why_parts.result(curves, client, model, sizes.get(model), number)
        yield from why_parts.last_round(run, at, client, number, rows)
        yield from why_parts.answers(rows)
        if samples is not None:
            yield from why_parts.data(samples, client)
        yield from why_parts.models(run, accuracy, client, sizes, known)
        if cka is not None:
            yield from why_parts.similarity(run, cka, client)
        if baseline is not None:
            yield from why_parts.baseline(run, baseline, shared, at, client, number)
        yield from why_parts.training(run, at, client, number)

    low = why_parts.is_low(accuracy, client, number)
    first, *rest = (
        each if low or each.topic not in STANDING else replace(each, bad=False) for each in found()
    )
    if Divergence.of(run.totals, at).untrained:
        failed = f"{run.name} has no score: every client diverged in every round, and kept its first model."
        first = replace(first, text=f"{failed} {first.text}")
    findings = (first, *sorted(rest, key=lambda finding: not finding.bad))
    missing = tuple(_missing(run, at, findings, bool(rows), samples))
    return Why(run.name, client, model, at, findings, rows, missing)


def _missing(
    run: SessionData, round: int, findings: tuple[Finding, ...], counted: bool, samples: Samples | None
) -> Iterator[str]:
    topics = {finding.topic for finding in findings}
    if not counted:
        yield NO_CLASSES
    if samples is None:
        yield (OTHER_DATA if Samples.of(run) is not None else NO_SAMPLES).format(name=run.name)
    if "similarity" not in topics:
        yield NO_CKA.format(name=run.name)
    if "baseline" not in topics and run.records[round - 1]["method"] != BASELINE:
        yield NO_BASELINE.format(baseline=BASELINE)
