"""Sessions as they were at the same simulated time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.units import seconds_of, span
from simulator.results.analysis.ledger import Ledger, Lines
from simulator.results.analysis.run import SessionData


def moment(time: float | str) -> float:
    """A simulated time in seconds, from seconds or text such as '2h'. Raises ConfigError."""
    try:
        seconds = seconds_of(time)
    except ValueError as fault:
        raise ConfigError(f"at_time: {fault}.") from fault
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise ConfigError(f"at_time is {time!r}, and a simulated time is above 0. An example: `at_time=2h`.")
    return float(seconds)


def at_moment(runs: Sequence[SessionData], seconds: float) -> tuple[list[SessionData], list[str]]:
    """The sessions with only the rounds that had ended by this simulated time, and notes on those that are left out.

    A session that ends before is left out, because nobody knows its accuracy at that time. So is one whose first round
    ends later. Raises ConfigError if a session has no clock, or if no session is left.
    """
    found, short, late = list[SessionData](), list[str](), list[str]()
    for run in runs:
        clock = run.totals["simulated_seconds"]
        if np.isnan(clock).any():
            raise ConfigError(
                f"{run.name} has no computed clock, so it has no simulated time. Run it with "
                "`system.devices=phone`, or leave out `at_time`."
            )
        ended = int(np.searchsorted(clock, seconds, side="right"))
        if not clock.size or clock[-1] < seconds:
            short.append(f"{run.name} ({span(float(clock[-1])) if clock.size else 'no round'})")
        elif not ended:
            late.append(f"{run.name} (first round: {span(float(clock[0]))})")
        else:
            found.append(replace(run, ledger=_first(run.ledger, ended)))
    notes = [
        f"Left out, because they {why} {span(seconds)} of simulated time: {', '.join(names)}."
        for why, names in (("end before", short), ("have no round by", late))
        if names
    ]
    if not found:
        raise ConfigError(f"No session can be compared. {' '.join(notes)} Choose another `at_time`.")
    return found, notes


def _first(ledger: Ledger | Lines, rounds: int) -> Ledger | Lines:
    if isinstance(ledger, Lines):
        return replace(ledger, lines=ledger.lines[:rounds])
    return Ledger.of(ledger.records[:rounds])
