"""The gains of a session's clients over a partner, round by round: what the app draws while both may still run.

found = gain_after(run, partner, round)        # how many clients gain, and who loses most
verdict(runs, others, round)                   # "−0.8 pp at round 12, 1 of 10 clients loses, within noise (…)"
gains_of(run, partner, [0, 3], [1, 2, 5])      # [rounds, clients] the differences, 0…1
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.base.units import points
from simulator.results.analysis.averages import paired
from simulator.results.analysis.axes import seeds_of
from simulator.results.analysis.client_values import CELLS, Array
from simulator.results.analysis.gain import EQUAL, same_clients
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import tested


@dataclass(frozen=True)
class Worst:
    """The client with the lowest gain, 0…1. correct: its correct test samples, under the session and under the partner,
    and their number; None if it is not known."""

    client: int
    gain: float
    correct: tuple[int, int, int] | None


@dataclass(frozen=True)
class RoundGain:
    """A round of a session less the same round of its partner. mean: over the clients whose gains are known, 0…1."""

    round: int
    clients: int
    better: int
    worse: int
    mean: float
    worst: Worst


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
    samples = tested(run, round)
    client = int(np.nanargmin(gains))
    correct = None
    if samples is not None:
        number = int(samples[client])
        own, other = (each.curves.accuracy.after(round)[client] for each in (run, partner))
        correct = int(np.rint(own * number)), int(np.rint(other * number)), number
    return RoundGain(
        round=round,
        clients=len(known),
        better=int((known > 0).sum()),
        worse=int((known < 0).sum()),
        mean=math.fsum(known) / len(known),
        worst=Worst(client, float(gains[client]), correct),
    )


def gains_of(
    run: SessionData, partner: SessionData, clients: Sequence[int], rounds: NDArray[np.int_]
) -> Array:
    """[k, c] the gains of some clients after some rounds that both have."""
    own, other = (each.curves.accuracy.select(clients)[rounds - 1] for each in (run, partner))
    return _settled(own - other)


def gains_by_round(
    run: SessionData, partner: SessionData, rounds: NDArray[np.int_], reduce: Callable[[Array], Array]
) -> Array:
    """[k, …] what `reduce` makes of the gains [b, N] of b of the rounds, which both have. The table stays small."""
    clients = np.arange(run.curves.clients)
    step = max(1, CELLS // max(1, len(clients)))
    pieces = []
    for row in range(0, int(rounds.max(initial=0)), step):
        chosen = rounds[(rounds > row) & (rounds <= row + step)] - 1 - row
        if len(chosen):
            own, other = (
                each.curves.accuracy.select(clients, row, row + step)[chosen] for each in (run, partner)
            )
            pieces.append(reduce(_settled(own - other)))
    return np.concatenate(pieces or [reduce(np.empty((0, 0)))])


def verdict(runs: Sequence[SessionData], others: Sequence[SessionData], round: int) -> str | None:
    """What is known of the mean accuracy of runs less that of others, after a round that all have; None: nothing.

    Runs are paired by seed. The test is Student's paired t at 5 %: over the seeds, or over a single pair's clients.
    A client loses if the mean of its differences over the pairs is below 0.
    """
    runs, others = ([each for each in side if each.round >= round] for side in (runs, others))
    by_seeds = {seeds_of(each.config): each for each in others}
    pairs = [(run, by_seeds[key]) for run in runs if (key := seeds_of(run.config)) in by_seeds]
    if not pairs and len(runs) == len(others) == 1:
        pairs = [(runs[0], others[0])]
    if not pairs:
        return None
    means = [
        [float(each.curves["accuracy"][round - 1]) for each in side] for side in zip(*pairs, strict=True)
    ]
    own, other = (dict(enumerate(each)) for each in means)
    found = paired(own, other)
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
            paired(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0)),
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
