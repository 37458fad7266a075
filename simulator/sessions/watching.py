"""What is told of a run while it runs: to the session's files, for watchers, and to whoever observes it here."""

import time
from typing import Any

import psutil
import torch

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

ABSENT, WAITING, TRAINING, DONE = "-wtd"
"""A client's letter in `each` of the owner's note: it takes no part in the round, waits, trains, is done."""
MOST_CLIENTS = 10_000
"""Of more clients it is not noted where each is: the note is written twice a second."""
LOOK_SECONDS = 0.5
"""Least time between two looks at how busy the processors are."""
_MIB = 1 << 20


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
                # What waits between two rounds counts for the later one.
                if self._held_since is not None:
                    self._waited += time.perf_counter() - self._held_since
                self._held_since = time.perf_counter() if state == "paused" else None
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

    def _mark(self, letter: str, *clients: int) -> None:
        for client in clients:
            self._each[client] = letter
        if self._clients <= MOST_CLIENTS:
            self._progress["each"] = "".join(self._each)

    def _beat(self, phase: str, done: int, clients: int) -> None:
        self._progress |= {"phase": phase, "done": done, "clients": clients}
        self._store.heartbeat(**self._progress)


class Meter:
    """Processor time and memory of this process, and of its tensors on a GPU.

    The most memory of a round is what Linux counted, if the process never had as much before; else the most seen.
    """

    def __init__(self, device: torch.device) -> None:
        self._gpu = device if device.type == "cuda" else None
        self._process = psutil.Process()
        self._looked, self._used = time.perf_counter(), self._processor_seconds()
        self._before, self._highest, self._ever = self._used, 0, 0

    def begin(self) -> None:
        """A round begins."""
        self._before, self._highest, self._ever = self._processor_seconds(), self._memory(), most_ever()
        if self._gpu is not None:
            torch.cuda.reset_peak_memory_stats(self._gpu)

    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.perf_counter() - self._looked >= LOOK_SECONDS

    def now(self) -> dict[str, Any]:
        """memory: bytes, to the MiB; cpu: processors at work since the last look; gpu_memory: bytes of tensors."""
        looked, used, memory = time.perf_counter(), self._processor_seconds(), self._memory()
        busy = (used - self._used) / max(looked - self._looked, 1e-6)
        self._looked, self._used, self._highest = looked, used, max(self._highest, memory)
        found: dict[str, Any] = {"memory": memory // _MIB * _MIB, "cpu": round(busy, 1)}
        if self._gpu is not None:
            found["gpu_memory"] = torch.cuda.memory_allocated(self._gpu)
        return found

    def of_round(self) -> Taken:
        """Of the round so far, as the ledger's `timing` has it: cpu, in seconds, and the most memory, in bytes."""
        ever = most_ever()
        self._highest = max(self._highest, self._memory(), ever if ever > self._ever else 0)
        found: Taken = {
            "cpu": round(self._processor_seconds() - self._before, 2),
            "memory": self._highest,
        }
        if self._gpu is not None:
            found["gpu_memory"] = torch.cuda.max_memory_allocated(self._gpu)
        return found

    def _processor_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _memory(self) -> int:
        return int(self._process.memory_info().rss)


def most_ever() -> int:
    """The most bytes this process has had; 0 if unknown. `getrusage` begins with what the parent process had."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            kibibytes = next((line.split()[1] for line in file if line.startswith("VmHWM:")), "0")
    except OSError:
        return 0
    return int(kibibytes) * 1024
