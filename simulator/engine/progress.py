"""What a run tells whoever watches it: plain facts, as they happen, on the thread that runs the rounds."""

from collections.abc import Callable
from dataclasses import dataclass

from simulator.base.record import Record


@dataclass(frozen=True)
class RoundStarted:
    """Round t of T began with these participants; `finished` are those that an earlier attempt at it has trained."""

    round: int
    rounds: int
    participants: tuple[int, ...]
    finished: tuple[int, ...] = ()


@dataclass(frozen=True)
class ClientStarted:
    """A participant began its local update; as many are at work at a time as there are workers."""

    round: int
    client: int


@dataclass(frozen=True)
class ClientTrained:
    """A participant finished its local update; `done` of `participants` have. No loss: the round had no training."""

    round: int
    client: int
    done: int
    participants: int
    loss: float | None


@dataclass(frozen=True)
class ClientDiverged:
    """A participant's loss was no longer finite: its update is left out and its state stays as it was."""

    round: int
    client: int
    phase: str


@dataclass(frozen=True)
class EvaluationStarted:
    """The clients' models are being evaluated."""

    round: int
    clients: int


@dataclass(frozen=True)
class StateChanged:
    """The run is 'running', 'pausing', 'paused' or 'stopping' from now on; `round` is the last one finished."""

    state: str
    round: int


@dataclass(frozen=True)
class Switch:
    """From `from_round` on the method, or the settings, are others; `adopted`: what became of the server's state."""

    from_round: int
    method: str
    before: str
    changes: tuple[str, ...]
    adopted: str | None


@dataclass(frozen=True)
class Warned:
    """Something is amiss, as a sentence; the run goes on, and the session's events tell of it too."""

    message: str


@dataclass(frozen=True)
class Noticed:
    """A watcher noticed something after a round; `action`: 'log', or what follows, 'pause' or 'stop'."""

    round: int
    watcher: str
    message: str
    clients: tuple[int, ...]
    action: str


@dataclass(frozen=True)
class RoundFinished:
    """The round's ledger record, as committed."""

    record: Record


Event = (
    RoundStarted
    | ClientStarted
    | ClientTrained
    | ClientDiverged
    | EvaluationStarted
    | StateChanged
    | Switch
    | Warned
    | Noticed
    | RoundFinished
)
Observer = Callable[[Event], None]


def unobserved(event: Event) -> None:
    """An observer that does nothing."""
