"""When clients are available: in intervals [from, to) of simulated seconds, by seed and client alone."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.rng import numpy_stream
from simulator.base.system_section import SystemConfig
from simulator.clock.devices import client_of, number, rows

HOUR = 3600.0
DAY = 24 * HOUR
_BLOCK = 64
"""Number of intervals to draw at a time."""


class Availability:
    """The times in which each client is available: always, unless a subclass says otherwise."""

    def at(self, client: int, time: float) -> tuple[bool, float]:
        """Whether the client is available at that time, and when that changes. Infinite if it never does."""
        return True, math.inf

    def share(self, client: int) -> float:
        """The share of time in which the client is available."""
        return 1.0

    def next_available(self, client: int, at: float) -> float:
        """The first time ≥ `at` at which the client is available. Infinite if it never is again."""
        available, until = self.at(client, at)
        return at if available else until

    def leaves_at(self, client: int, at: float) -> float:
        """The end of the interval around `at`: `at` itself if the client is away, infinite if it stays."""
        available, until = self.at(client, at)
        return until if available else at


def availability(system: SystemConfig, clients: int, seed: int) -> Availability:
    """The availability of that many clients. Raises ConfigError for a file that cannot be used."""
    match system.availability:
        case "markov":
            return Markov(
                _set(system.availability_on), _set(system.availability_off), system.availability_spread, seed
            )
        case "diurnal":
            return Diurnal(_set(system.availability_hours), system.availability_spread, seed)
        case "intervals":
            return read_intervals(Path(str(system.availability_file)), clients)
    return Availability()


class Markov(Availability):
    """Clients are on and off for exponential times, stationary from the start. A spread changes each one's share."""

    def __init__(self, on: float, off: float, spread: float, seed: int) -> None:
        self._cycle, self._usual, self._spread, self._seed = on + off, on / (on + off), spread, seed
        self._clients: dict[int, _Switches] = {}

    def at(self, client: int, time: float) -> tuple[bool, float]:
        if client not in self._clients:
            share = self.share(client)
            self._clients[client] = _Switches(
                share, self._cycle * share, self._cycle * (1 - share), _stream(self._seed, client)
            )
        return self._clients[client].at(time)

    def share(self, client: int) -> float:
        return _share(self._usual, self._spread, self._seed, client)


class _Switches:
    """The times at which one client goes off and on, drawn in order as far as somebody asks."""

    def __init__(self, share: float, on: float, off: float, stream: np.random.Generator) -> None:
        self._begins_on, self._stream = bool(stream.random() < share), stream
        self._means = (on, off) if self._begins_on else (off, on)
        self._times: list[float] = []

    def at(self, time: float) -> tuple[bool, float]:
        """Whether the client is on at that time, and when that changes."""
        while not self._times or self._times[-1] <= time:
            steps = self._stream.standard_exponential(2 * _BLOCK) * np.tile(self._means, _BLOCK)
            steps[0] += self._times[-1] if self._times else 0.0
            self._times += np.cumsum(steps).tolist()
        place = bisect_right(self._times, time)
        return (place % 2 == 0) == self._begins_on, self._times[place]


class Diurnal(Availability):
    """Each client is available for some hours of each day, from a time of its own on. A spread changes the hours."""

    def __init__(self, hours: float, spread: float, seed: int) -> None:
        self._usual, self._spread, self._seed = hours * HOUR / DAY, spread, seed
        self._clients: dict[int, tuple[float, float]] = {}

    def at(self, client: int, time: float) -> tuple[bool, float]:
        if client not in self._clients:  # when it comes on the first day, and for how many seconds of each
            begins = float(_stream(self._seed, client).uniform(0.0, DAY))
            self._clients[client] = begins, self.share(client) * DAY
        begins, length = self._clients[client]
        if length >= DAY:
            return True, math.inf
        day = math.floor((time - begins) / DAY)
        day += begins + (day + 1) * DAY <= time  # the division may round across a start
        day -= begins + day * DAY > time
        end = begins + day * DAY + length
        return (True, end) if time < end else (False, begins + (day + 1) * DAY)

    def share(self, client: int) -> float:
        return _share(self._usual, self._spread, self._seed, client)


class Intervals(Availability):
    """Each client is available in given intervals, and never again after the last one."""

    def __init__(self, intervals: Sequence[Sequence[tuple[float, float]]]) -> None:
        """`intervals` of each client, ascending and apart."""
        self._starts = [[start for start, _ in each] for each in intervals]
        self._ends = [[end for _, end in each] for each in intervals]
        self._length = max((ends[-1] for ends in self._ends if ends), default=0.0)

    def at(self, client: int, time: float) -> tuple[bool, float]:
        place = bisect_right(self._ends[client], time)  # the first interval that ends later
        if place == len(self._ends[client]):
            return False, math.inf
        start = self._starts[client][place]
        return (True, self._ends[client][place]) if start <= time else (False, start)

    def share(self, client: int) -> float:
        """The share of the time from 0 to the end of the last interval of all clients."""
        return (math.fsum(self._ends[client]) - math.fsum(self._starts[client])) / self._length


def read_intervals(path: Path, clients: int) -> Intervals:
    """The intervals of a CSV file with the columns client, from, and to, in seconds. Raises ConfigError."""
    found: list[list[tuple[float, float]]] = [[] for _ in range(clients)]
    for line, row in rows(path, ("client", "from", "to"), ()):
        where = f"{path}, line {line}"
        client = client_of(row["client"], where)
        if client >= clients:
            raise ConfigError(
                f"{where}: there is no client {client} among {clients} clients. Remove the line."
            )
        start, end = (number(row[column], f"{where}: {column}") for column in ("from", "to"))
        if end <= start:
            raise ConfigError(f"{where}: the interval from {start:g} to {end:g} is empty. Correct its end.")
        found[client].append((start, end))
    for client, intervals in enumerate(found):
        if not intervals:
            raise ConfigError(f"{path} has no interval for client {client}. Add one for each client.")
        intervals.sort()
        for (_, end), (start, _) in pairwise(intervals):
            if start < end:
                raise ConfigError(
                    f"{path}: two intervals of client {client} overlap at {start:g} s. Join them to one."
                )
    return Intervals([_joined(intervals) for intervals in found])


def _joined(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    joined = [intervals[0]]
    for start, end in intervals[1:]:
        if start == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _share(usual: float, spread: float, seed: int, client: int) -> float:
    """The client's share of available time: the usual one, with keyed normal noise on its log-odds."""
    if spread == 0 or usual >= 1:
        return usual
    noise = float(numpy_stream(seed, "system/availability share", client=client).standard_normal())
    return 1 / (1 + (1 - usual) / usual * math.exp(-spread * noise))


def _stream(seed: int, client: int) -> np.random.Generator:
    return numpy_stream(seed, "system/availability", client=client)


def _set(value: float | None) -> float:
    assert value is not None  # the section has checked it
    return value
