"""What a run tells while it runs: one event after the other, for whoever shows its progress."""

from simulator.base.record import Record
from simulator.engine.progress import (
    ClientDiverged,
    ClientTrained,
    EvaluationStarted,
    Event,
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
    "Observer",
    "Record",
    "RoundFinished",
    "RoundStarted",
    "StateChanged",
    "Switched",
    "Warned",
]
