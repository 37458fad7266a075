"""The gains of a session's clients over a partner, round by round: what the app draws while both may still run.

found = gain_after(run, partner, round)        # how many clients gain, and who loses most
gains_of(run, partner, [0, 3], [1, 2, 5])      # [rounds, clients] the differences, 0…1
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.results.analysis.client_values import CELLS
from simulator.results.analysis.curves import Array
from simulator.results.analysis.gain import EQUAL
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import FEW, tested


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
    """The gains after a round; None where no client has any, or where the clients differ in number.

    The worst client is chosen among those with FEW test samples or more, if there are any.
    """
    if not 1 <= round <= min(run.round, partner.round) or run.curves.clients != partner.curves.clients:
        return None
    gains = client_gains(run, partner, round)
    known = gains[np.isfinite(gains)]
    if not len(known):
        return None
    samples = tested(run, round)
    ranked = gains if samples is None else np.where(samples < FEW, np.nan, gains)
    ranked = ranked if np.isfinite(ranked).any() else gains
    client = int(np.nanargmin(ranked))
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


def _settled(gains: Array) -> Array:
    """The differences, with 0 for those that differ from it by rounding alone."""
    return np.where(np.abs(gains) < EQUAL, 0.0, gains)
