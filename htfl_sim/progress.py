"""The events of a running session, in order, for progress displays."""

from simulator.base.record import Record
from simulator.engine.progress import (
    ClientDiverged,
    ClientTrained,
    EvaluationStarted,
    Event,
    Noticed,
    Observer,
    RoundFinished,
    RoundStarted,
    StateChanged,
    Switched,
    Warned,
)

__all__ = [
    "ClientDiverged",
    "ClientTrained",
    "EvaluationStarted",
    "Event",
    "Noticed",
    "Observer",
    "Record",
    "RoundFinished",
    "RoundStarted",
    "StateChanged",
    "Switched",
    "Warned",
]
