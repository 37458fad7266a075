"""Who received, trained, sent, and waited when: the dispatches of some rounds in simulated seconds."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.base.errors import ConfigError
from simulator.base.record import FlightRecord, Record

Phase = Literal["latency", "down", "compute", "up", "wait"]
PHASES: tuple[Phase, ...] = ("latency", "down", "compute", "up", "wait")
"""The parts of a dispatch, in the order in which they pass."""
LAST = 5
"""The rounds that are shown if none are chosen: so many last ones."""
MOST = 40
"""The clients that are shown, at most."""
_RANGE = re.compile("([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


@dataclass(frozen=True)
class Dispatch:
    """A client's work from its dispatch on. parts: each phase that took time, with its start and end."""

    client: int
    fate: str
    arrives: float
    parts: tuple[tuple[Phase, float, float], ...]

    @property
    def wasted(self) -> bool:
        return self.fate != "used"


@dataclass(frozen=True)
class Timeline:
    """The dispatches that overlap some rounds, the first and last of `rounds`. begins, ends: in seconds. marks: the
    end of each round. clients: those shown, ascending, of `at_work` that worked. dispatches: theirs, by time.
    """

    rounds: tuple[int, int]
    begins: float
    ends: float
    marks: tuple[tuple[int, float], ...]
    clients: tuple[int, ...]
    at_work: int
    dispatches: tuple[Dispatch, ...]

    @property
    def reduced(self) -> str | None:
        """Which clients are shown, in words. None: all that worked."""
        if len(self.clients) == self.at_work:
            return None
        return f"{len(self.clients)} of {self.at_work:,} clients"


def timeline(
    records: Sequence[Record], rounds: int | str | tuple[int, int] | None = None, most: int = MOST
) -> Timeline:
    """The timeline of so many last rounds (`5`), or of a range (`"10-20"`), with up to `most` clients, evenly spaced.

    Raises ConfigError without a clock, and for rounds that are none.
    """
    first, last = window(rounds, len(records))
    times = [(record["round"], record["time"]) for record in records[first - 1 :] if "time" in record]
    if len(times) < len(records) - first + 1 or not times:
        raise ConfigError(
            "A timeline needs the computed clock. Run the session with the devices of its clients: "
            "`system.devices=phone`."
        )
    shown = times[: last - first + 1]
    begins, ends = shown[0][1]["begins"], shown[-1][1]["ends"]
    flights = [flight for _, time in times for flight in time["flights"] if flight["begins"] < ends]
    workers = sorted({flight["client"] for flight in flights})
    clients = tuple(spaced(workers, most))
    marks, chosen = tuple((round, time["ends"]) for round, time in shown), set(clients)
    drawn = [_dispatch(flight) for flight in flights if flight["client"] in chosen]
    ordered = tuple(sorted(drawn, key=lambda each: (each.arrives, each.client)))
    return Timeline((first, last), begins, ends, marks, clients, len(workers), ordered)


def window(rounds: int | str | tuple[int, int] | None, known: int) -> tuple[int, int]:
    """The first and the last round of a choice: so many last ones, 'FIRST-LAST', or a pair. Raises ConfigError."""
    match rounds:
        case None:
            first, last = max(1, known - LAST + 1), known
        case str() if found := _RANGE.fullmatch(rounds.strip()):
            if found[2] is None:
                return window(int(found[1]), known)
            first, last = int(found[1]), int(found[2])
        case int() if rounds > 0:
            first, last = max(1, known - rounds + 1), known
        case (int() as first, int() as last):
            pass
        case _:
            raise ConfigError(f"'{rounds}' is no choice of rounds. Use `rounds=5` or `rounds=10-20`.")
    if not 1 <= first <= last <= known:
        raise ConfigError(f"Rounds {first} to {last} are not there: {known} are finished.")
    return first, last


def spaced(clients: Sequence[int], most: int) -> list[int]:
    """Up to so many of the clients, evenly spaced, with the first and the last one."""
    if len(clients) <= most:
        return list(clients)
    if most == 1:
        return [clients[0]]
    return [clients[math.floor(place * (len(clients) - 1) / (most - 1))] for place in range(most)]


def _dispatch(flight: FlightRecord) -> Dispatch:
    at, parts = flight["begins"], list[tuple[Phase, float, float]]()
    for phase in PHASES:
        seconds = float(flight.get(phase, 0.0))  # earlier versions wrote no wait
        at = flight["arrives"] if phase == "wait" else at
        if seconds > 0 and (phase, flight["fate"]) != ("wait", "lost"):
            parts.append((phase, at, at + seconds))
        at += seconds
    return Dispatch(flight["client"], flight["fate"], flight["arrives"], tuple(parts))
