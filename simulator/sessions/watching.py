"""What is told of a run while it runs: to the session's files, for watchers, and to whoever observes it here."""

import time
from typing import Any

from checkpoints import Store
from simulator.base.record import Taken
from simulator.engine.progress import (
    ClientDiverged,
    ClientStarted,
    ClientTrained,
    EvaluationStarted,
    Event,
    Observer,
    RoundStarted,
    StateChanged,
    Warned,
    unobserved,
)
from simulator.models.federation import Federation
from simulator.sessions.meter import Meter

ABSENT, WAITING, TRAINING, DONE = "-wtd"
"""A client's letter in `each` of the owner's note: it takes no part in the round, waits, trains, is done."""
MOST_CLIENTS = 10_000
"""Of more clients it is not noted where each is: the note is written twice a second."""


class Watching:
    """An observer that notes in the session how far the round has got, and passes every event on."""

    def __init__(self, store: Store, federation: Federation) -> None:
        self._store = store
        self._clients = len(federation.clients)
        self._meter = Meter(federation.device)
        self._progress: dict[str, Any] = {}
        self._each: list[str] = []
        self._held_since: float | None = None
        self._waited = 0.0
        self.observe: Observer = unobserved
        """Whoever observes the run."""

    def __call__(self, event: Event) -> None:
        match event:
            case RoundStarted(round, rounds, participants, finished):
                self._meter.begin()
                self._progress = {"round": round, "rounds": rounds}
                self._each = [ABSENT] * self._clients
                self._mark(WAITING, *participants)
                self._mark(DONE, *finished)
                self._beat("train", len(finished), len(participants))
            case ClientStarted(_, client):
                self._mark(TRAINING, client)
                self._store.heartbeat(**self._progress)
            case ClientTrained(_, client, done, participants, _):
                self._mark(DONE, client)
                self._beat("train", done, participants)
            case EvaluationStarted(_, clients):
                self._beat("evaluate", 0, clients)
            case ClientDiverged(round, client, phase):
                message = f"loss of phase '{phase}' is not finite"
                self._store.event("warning", round=round, client=client, message=message)
            case Warned(message):
                self._store.event("warning", message=message, round=self._progress.get("round", 0))
            case StateChanged(state, _):
                self._count_waiting(state)
                self._store.heartbeat(state, **self._progress)
        self.observe(event)

    def look(self) -> None:
        """Note what the run takes of the machine now, and pass on what the store has found amiss."""
        if self._meter.due():
            self._progress |= self._meter.now()
            self._store.heartbeat(**self._progress)
        for message in self._store.take_warnings():
            self.observe(Warned(message))

    def took(self) -> Taken:
        """What the round took besides its seconds, for its record: how long it was held, processors, memory."""
        waited, self._waited = self._waited, 0.0
        return {"waited": waited, **self._meter.of_round()}

    def _count_waiting(self, state: str) -> None:
        """How long the run is paused; what waits between two rounds counts for the later one."""
        if self._held_since is not None:
            self._waited += time.perf_counter() - self._held_since
        self._held_since = time.perf_counter() if state == "paused" else None

    def _mark(self, letter: str, *clients: int) -> None:
        for client in clients:
            self._each[client] = letter
        if self._clients <= MOST_CLIENTS:
            self._progress["each"] = "".join(self._each)

    def _beat(self, phase: str, done: int, clients: int) -> None:
        self._progress |= {"phase": phase, "done": done, "clients": clients}
        self._store.heartbeat(**self._progress)
