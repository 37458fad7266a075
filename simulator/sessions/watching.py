"""What is told of a run while it runs: to the session's files, for watchers, and to whoever observes it here."""

from typing import Any

from checkpoints import Store
from simulator.progress import (
    ClientDiverged,
    ClientTrained,
    EvaluationStarted,
    Event,
    Observer,
    RoundStarted,
    StateChanged,
    Warned,
    unobserved,
)


class Watching:
    """An observer that notes in the session how far the round has got, and passes every event on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._progress: dict[str, Any] = {}
        self.observe: Observer = unobserved
        """Whoever observes the run."""

    def __call__(self, event: Event) -> None:
        match event:
            case RoundStarted(round, rounds, participants):
                self._progress = {"round": round, "rounds": rounds}
                self._beat("train", 0, len(participants))
            case ClientTrained(_, _, done, participants, _):
                self._beat("train", done, participants)
            case EvaluationStarted(_, clients):
                self._beat("evaluate", 0, clients)
            case ClientDiverged(round, client, phase):
                message = f"loss of phase '{phase}' is not finite"
                self._store.event("warning", round=round, client=client, message=message)
            case Warned(message):
                self._store.event("warning", message=message, round=self._progress.get("round", 0))
            case StateChanged(state, _):
                self._store.heartbeat(state, **self._progress)
        self.observe(event)

    def tell_warnings(self) -> None:
        """Pass on what the store has found amiss since the last call."""
        for message in self._store.take_warnings():
            self.observe(Warned(message))

    def _beat(self, phase: str, done: int, clients: int) -> None:
        self._progress |= {"phase": phase, "done": done, "clients": clients}
        self._store.heartbeat(**self._progress)
