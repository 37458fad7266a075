"""The gain of the session shown over its partner: in a sentence, as a map of clients × rounds, and as a line."""

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.significance import FEW
from simulator.results.analysis.client_values import Array, quantiles
from simulator.results.analysis.gain import (
    RoundGain,
    common_rounds,
    gain_after,
    gains_by_round,
    gains_of,
)
from tui.app.charts.chart import Band, Figure, Series
from tui.app.panels.base import PERCENT, marks
from tui.app.panels.clients import listed
from tui.app.view import View
from tui.common.cells import fitting
from tui.common.formatting import points

COUNTED = 100
"""With fewer test samples, one sample is 1 pp or more, and the numbers of correct ones are shown."""
MIDDLE = (0.1, 0.9)
BAND = "middle 80 % of clients"
LEAST = 1.0
"""The smallest range of the map's colors to either side, in pp."""
UNPAIRED = (
    "No session here has the same clients under Standalone. Press A to start one beside this session: it continues "
    "from the round shown, and each client trains alone. B returns to the chart."
)
ITSELF = (
    "This session is Standalone itself. Press A to start another method beside it, or open a session of another "
    "method. B returns to the chart."
)
NO_ROUND = "{name} has no round to compare yet. B returns to the chart."


def rounds(view: View) -> NDArray[np.int_]:
    """[k] the rounds that the session shown can be compared in, from 1."""
    pair = view.paired
    return np.empty(0, int) if pair is None else common_rounds(view.run, pair.other, pair.partner.shared)


def missing(view: View) -> str | None:
    """The sentence in place of the map, with the way to get it; None if there is one."""
    if len(rounds(view)):
        return None
    if view.paired is not None:
        return NO_ROUND.format(name=view.paired.partner.name)
    return ITSELF if view.run.method == "standalone" else UNPAIRED


def at_round(view: View) -> RoundGain | None:
    """The gain in the round shown, or in the last one before it that both have."""
    before = rounds(view)[rounds(view) <= view.shown]
    if view.paired is None or not len(before):
        return None
    return gain_after(view.run, view.paired.other, int(before[-1]))


def sentence(found: RoundGain, counted: bool = True) -> str:
    """How many clients gain, and who loses most: '7 of 10 clients gain; worst −4.1 pp (client 3)'.

    counted: with the correct test samples of this client under both, if it has few: '(client 3: 15 vs 17 of 24)'.
    Without them, the number of its test samples if it is below FEW.
    """
    correct, counts = found.correct, ""
    if counted and correct is not None and correct[2] < COUNTED:
        counts = f": {correct[0]} vs {correct[1]} of {correct[2]}"
    elif correct is not None and correct[2] < FEW:
        counts = f", {correct[2]} samples"
    name = "worst" if found.least < 0 else "least"
    clients = "client gains" if found.clients == 1 else "clients gain"
    of = f"{points(found.least)} pp (client {found.worst}{counts})"
    return f"{found.better} of {found.clients} {clients}; {name} {of}"


def baseline(view: View) -> str:
    """The partner: 'standalone (base)'."""
    partner = view.paired.partner if view.paired else None
    return f"{partner.method} ({partner.name})" if partner else ""


def line(view: View, width: int = 1000) -> str:
    """The sentence for the round shown, with the partner if it fits into `width` cells; "" without a pair."""
    found = at_round(view)
    if found is None:
        return ""
    when = "" if found.round == view.shown else f" after round {found.round}"
    brief = sentence(found, counted=False)
    whole = sentence(found)
    return fitting((f"{whole} over {baseline(view)}{when}", f"{whole}{when}", f"{brief}{when}", brief), width)


def caption(view: View) -> str:
    """The title of the map, whose sentence is below it."""
    return f"gain over {baseline(view)}, pp" if view.paired else "gain over Standalone"


def measured(view: View) -> str:
    """The title of the chart: the mean gain in the round shown, and its best round."""
    found = at_round(view)
    if found is None:
        return caption(view)
    return f"gain over {baseline(view)}: {points(found.mean)} pp after round {found.round}"


def table(view: View) -> tuple[list[int], NDArray[np.int_], Array]:
    """The clients, the rounds, and the gains in pp [clients, rounds]."""
    clients, which = listed(view), rounds(view)
    assert view.paired is not None
    return clients, which, gains_of(view.run, view.paired.other, clients, which).T * PERCENT


def reach(gains: Array) -> tuple[float, float]:
    """The range of the colors: the largest gain or loss shown, to either side."""
    known = np.abs(gains[np.isfinite(gains)])
    most = max(float(known.max(initial=0.0)), LEAST)
    return -most, most


def partner_mean(view: View) -> list[Series]:
    """The mean accuracy of the partner, from the last round on that both have in common; none without a pair."""
    if (pair := view.paired) is None:
        return []
    curves = pair.other.curves
    which = curves.evaluated[curves.evaluated >= pair.partner.shared]
    mean = curves["accuracy"][which - 1] * PERCENT
    return [Series(pair.partner.method, mean, which.astype(float), pinned=True, key="b")]


def figure(view: View) -> Figure:
    def mean_and_band(gains: Array) -> Array:
        """[n, 3] the mean over clients, and the edges of the band."""
        known = np.isfinite(gains)
        sums, counts = np.where(known, gains, 0.0).sum(axis=1), known.sum(axis=1)
        mean = np.divide(sums, counts, out=np.full(len(gains), np.nan), where=counts > 0)
        return np.column_stack([mean, band_of(gains)])

    which = rounds(view)
    assert view.paired is not None
    found = gains_by_round(view.run, view.paired.other, which, mean_and_band).T * PERCENT
    mean, low, high = found if len(which) else np.empty((3, 0))
    x = which.astype(float)
    series = [
        Series("mean gain", mean, x, pinned=True, key="g"),
        Series("no gain", np.zeros(len(x)), x, pinned=True, key="0"),
    ]
    band = Band(BAND, low, high, x)
    return Figure(series, band, marks(view.run), "round", "pp", over="rounds")


def band_of(values: Array) -> Array:
    """[n, 2] the edges of the band over clients [n, k]."""
    return np.stack(quantiles(values, MIDDLE), axis=1)
