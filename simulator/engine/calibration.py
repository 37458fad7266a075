"""How fast this machine trains each architecture: the counted operations of its clients over measured seconds.

One client of each architecture takes part in rounds of the run's method: the one with the median number of training
samples. Its whole work is timed, from the downlink to the uplink, so that what a step leaves out counts as well: copies
of the weights, the first step of each phase, and passes that train nothing.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.sample import Sample, SampledRound
from simulator.models.federation import ClientInfo, Federation
from simulator.training.client import shown_in

WARM_UP = 2
"""Rounds that are not timed: operations are counted in them, and before the first one, some servers have nothing."""
DIGITS = 4
"""Significant digits of a rate or factor. Measurements are not more exact."""


@dataclass(frozen=True)
class Measured:
    """The timed dispatches of the client that stands for an architecture."""

    client: ClientInfo
    flops: tuple[int, ...]
    """Operations of each dispatch."""
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """FLOP/s, the median over the dispatches. Raises ConfigError if it cannot be computed."""
        return _rate(self.flops, self.seconds, f"the architecture {self.client.architecture}")


@dataclass(frozen=True)
class Calibration:
    """What was measured: each architecture, in the order of its first client, and the server."""

    measured: tuple[Measured, ...]
    flops: float
    """FLOP/s of the machine: the operations of all clients over the seconds that they take here."""
    server: float | None
    """FLOP/s of the server's own training. None: it has no counted operations."""

    @property
    def utilization(self) -> dict[str, float]:
        """The factor on `flops` for each architecture."""
        return {each.client.architecture: rounded(each.rate / self.flops) for each in self.measured}


def calibrated(
    config: Config,
    built: Built,
    passes: int,
    timer: Callable[[], float] = time.perf_counter,
    between: Callable[[], object] = lambda: None,
) -> Calibration:
    """Measure each architecture in so many rounds, after a warm-up. `between` is called after each of these.

    The architectures take turns, so that what else the machine does disturbs all alike. Raises ConfigError.
    """
    chosen = _median_clients(built.federation)
    sample = Sample(config, built, [client.id for client in chosen.values()], timer)
    for _ in range(WARM_UP):
        sample.round()
    rounds = list[SampledRound]()
    for _ in range(passes):
        rounds.append(sample.round())
        between()
    flops, seconds = defaultdict[int, list[int]](list), defaultdict[int, list[float]](list)
    for each in rounds:
        for update, took in zip(each.updates, each.seconds, strict=True):
            flops[update.client.id].append(update.flops)
            seconds[update.client.id].append(took)
    measured = {
        name: Measured(client, tuple(flops[client.id]), tuple(seconds[client.id]))
        for name, client in chosen.items()
    }
    served = [each.server_flops for each in rounds]
    server = _rate(served, [each.server_seconds for each in rounds], "the server") if any(served) else None
    return Calibration(
        tuple(measured.values()), rounded(_of_all(built.federation, measured)), server and rounded(server)
    )


def rounded(value: float) -> float:
    """The value with the digits that a measurement has."""
    return float(f"{value:.{DIGITS}g}")


def _median_clients(federation: Federation) -> dict[str, ClientInfo]:
    """Of each architecture, a client with the median number of samples; an unseen one only if there is no other."""
    of: dict[str, list[ClientInfo]] = defaultdict(list)
    for client in federation.seen:
        of[client.architecture].append(client)
    for client in federation.clients:
        of[client.architecture] = of[client.architecture] or [client]
    return {
        name: sorted(clients, key=lambda client: (client.samples, client.id))[(len(clients) - 1) // 2]
        for name, clients in of.items()
    }


def _of_all(federation: Federation, measured: dict[str, Measured]) -> float:
    """FLOP/s of all clients together: of each, the work of its architecture, scaled to its samples in training."""
    flops = seconds = 0.0
    for client in federation.clients:
        one = measured[client.architecture]
        shown, of_one = (shown_in(each.samples, federation.training) for each in (client, one.client))
        work = median(one.flops) * shown / of_one
        flops += work
        seconds += work / one.rate
    return flops / seconds


def _rate(flops: Sequence[int], seconds: Sequence[float], what: str) -> float:
    found = median(work / took if took > 0 else math.inf for work, took in zip(flops, seconds, strict=True))
    if not (math.isfinite(found) and found > 0):
        raise ConfigError(
            f"The FLOP/s of {what} cannot be computed: {median(flops):g} counted FLOPs in {median(seconds):g} s. "
            "Use a method that trains, or more samples."
        )
    return found
