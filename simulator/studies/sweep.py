"""Running the points of a study: so many at once, in order, until all are done or a stop is wanted.

What carries them out, and where, is a `Executor`'s.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from checkpoints import Command, DiskError, Group, SessionReader, SessionUnreadable
from simulator.studies.backends import HERE, backend
from simulator.studies.children import Here
from simulator.studies.executor import Ended, Executor, Launch
from simulator.studies.plan import Plan
from simulator.studies.status import FAILED, FINISHED, LIVE, STARTING, STOPPED, WAITING, Status
from simulator.studies.study import Point

POLL_SECONDS = 0.1
"""How often signals, commands and ended processes are looked for."""
LOOK_SECONDS = 1.0
"""How often the files of the points at work are read."""
STILL_SECONDS = 10.0
"""After so long without a heartbeat whoever has a session on another machine is taken to be gone."""
ATTEMPTS = 3
"""So many times a point may lose who carries it out, in one sweep."""

Observer = Callable[[Sequence[Status]], None]


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended: every point, in order, and what asked for a stop, if anything did."""

    statuses: tuple[Status, ...]
    reason: str | None = None

    @property
    def failed(self) -> list[Status]:
        """The points that failed."""
        return [status for status in self.statuses if status.state == FAILED]


def sweep(
    planned: Plan,
    launch: Launch,
    jobs: int | None = None,
    observe: Observer = lambda statuses: None,
    stop: Callable[[], str | None] = lambda: None,
    waiting: Callable[[], bool] = lambda: True,
    on: str = HERE,
    say: Callable[[str], None] = lambda warning: None,
    *,
    steal: bool = False,
) -> SweepResult:
    """Run the points of a study until all are done or `stop` gives a reason.

    On this machine `jobs` at once, by default one; `on` another place as many as there is room for, or `jobs` of them.
    While what a sweep that died began is still at work, `waiting` is asked whether to wait for it; `say` is told what
    changes nothing there. `steal` takes the study over from a dead machine. Raises
    ConfigError where they cannot be carried out there, Locked where another sweep runs
    the study, and DiskError.
    """
    kind = backend(on)
    left = [point for point in planned.points if _now(planned.folder, point).state != FINISHED]
    with (kind if left else Here)(left, launch, jobs) as there, planned.open(waiting, steal=steal) as group:
        for warning in there.warnings:
            say(warning)
        outcome = Sweep(group, planned.points, there.executor(group), observe).run(stop)
        group.close("stopped" if outcome.reason or outcome.failed else "finished")
        return outcome


class Sweep:
    """One run over a study's points, by the owner of its folder."""

    def __init__(self, group: Group, points: Sequence[Point], executor: Executor, observe: Observer) -> None:
        """`observe` is told of all points whenever anything may have changed."""
        self._group = group
        self._points = {point.name: point for point in points}
        self._executor, self._observe = executor, observe
        self._statuses = {point.name: _now(group.folder, point) for point in points}
        # What an earlier sweep stopped, lost or failed at is taken up again.
        self._open = [name for name, status in self._statuses.items() if status.state != FINISHED]
        for name in self._open:
            if executor.takes_over or self._statuses[name].state not in LIVE:
                self._change(name, state=WAITING)
        self._lost: Counter[str] = Counter()
        """How often each point has lost who carried it out."""
        self._beats: dict[str, tuple[object, float]] = {}
        """Of sessions in others' hands: the last heartbeat from another machine, and when it was new."""
        self._looked = 0.0
        self._reason: str | None = None
        self._paused = False
        self._asked: list[Command] = []
        """Commands that wait until they have taken hold."""
        self._held: set[str] = set()
        """Points whose sessions were asked to pause."""

    def run(self, stop: Callable[[], str | None]) -> SweepResult:
        """Run until nothing is left to do, or until `stop` gives a reason, or the command `stop` is given.

        No point is at work any more when this returns, also when it raises.
        """
        with self._executor:
            while True:
                self._heed(stop())
                for name, how in self._executor.ended().items():
                    self._end(name, how)
                self._begin()
                self._look()
                self._observe(tuple(self._statuses.values()))
                if not self._executor and (self._reason or not self._unfinished()):
                    break
                time.sleep(POLL_SECONDS)
        self._settle("applied", "every point has stopped")
        return SweepResult(tuple(self._statuses.values()), self._reason)

    def _unfinished(self) -> bool:
        """Whether any point is still to be begun, or is at work in another process's hands."""
        return any(self._statuses[name].state in (WAITING, *LIVE) for name in self._open)

    def _heed(self, signalled: str | None) -> None:
        for command in self._group.commands():
            self._receive(command)
        stopping = signalled or ("stop" if any(each.kind == "stop" for each in self._asked) else None)
        if stopping and not self._reason:
            self._reason = stopping
            self._executor.stop()
        if not self._reason:
            self._hold()
        done = sum(status.state == FINISHED for status in self._statuses.values())
        self._group.note(self._phase(), done=done, points=len(self._points))

    def _receive(self, command: Command) -> None:
        match command.kind:
            case "pause" if self._paused:
                self._group.answer(command, "refused", "it is paused already")
            case "resume" if not self._paused:
                self._group.answer(command, "refused", "it is not paused")
            case "pause":
                self._paused = True
                self._asked.append(command)
            case "resume":
                self._settle("refused", "a resume came before it took hold")
                self._paused = False
                for name in self._held:
                    self._executor.tell(name, "resume")
                self._held.clear()
                self._group.answer(command, "applied", "its points go on")
            case "stop":
                self._asked.append(command)
            case _:
                self._group.answer(
                    command, "refused", "a study takes pause, resume and stop; name one of its sessions"
                )

    def _hold(self) -> None:
        """While paused: have every point at work pause, and say so when all have."""
        if not self._paused:
            return
        states = {name: self._executor.state(name) for name in self._executor.names()}
        ready = {name for name, state in states.items() if state is not None}
        for name in ready - self._held:
            self._executor.tell(name, "pause")
        self._held |= ready
        if all(state == "paused" for state in states.values()):
            self._settle("applied", "no point trains")

    def _settle(self, outcome: Literal["applied", "refused"], message: str) -> None:
        for command in self._asked:
            self._group.answer(command, outcome, message)
        self._asked.clear()

    def _phase(self) -> str:
        if self._reason:
            return "stopping"
        if not self._paused:
            return "running"
        return "pausing" if self._asked else "paused"

    def _begin(self) -> None:
        for name in self._open:
            if self._reason or self._paused or len(self._executor) >= self._executor.room:
                return
            if self._statuses[name].state != WAITING:
                continue
            self._change(name, state=STARTING)
            try:
                self._executor.start(self._points[name])
            except OSError as error:
                self._change(name, state=FAILED, reason=f"no process for it: {error.strerror or error}")

    def _end(self, name: str, how: Ended) -> None:
        """What became of a point that is at work no longer."""
        self._held.discard(name)
        before = self._statuses[name]
        if how.lost:  # with what has not been brought back
            before = Status(name, before.rounds, seconds=before.seconds)
        status = self._statuses[name] = before.read(self._folder(name))
        if status.state == FINISHED:
            return
        if how.lost and not self._reason:
            self._lost[name] += 1
            if (times := self._lost[name]) < ATTEMPTS:
                self._change(name, state=WAITING, reason=f"{how.words}; it is begun again")
                self._observe(tuple(self._statuses.values()))  # before it is
            else:
                self._change(name, state=FAILED, reason=f"{how.words}, as {times - 1} times before it")
        elif how.code == 0 or (self._reason and (how.lost or how.code == -signal.SIGTERM)):
            self._change(name, state=STOPPED if status.round or status.state == STOPPED else WAITING)
        else:
            self._change(name, state=FAILED, reason=_reason(how))

    def _look(self) -> None:
        """Read anew how far the points at work are, here or in the hands of another process."""
        if (now := time.monotonic()) - self._looked < LOOK_SECONDS:
            return
        self._looked, at_work = now, set(self._executor.names())
        for name in self._open:
            status = self._statuses[name]
            if name in at_work:
                read = self._executor.read(status)
                # Before its owner has opened it, and when it has let go, the files say how it was left.
                self._statuses[name] = read if read.state in LIVE else replace(read, state=status.state)
            elif status.state in LIVE:
                read = status.read(self._folder(name))
                unowned = read.state not in (*LIVE, FINISHED, FAILED) or self._is_still(name)
                self._statuses[name] = replace(read, state=WAITING) if unowned else read

    def _is_still(self, name: str) -> bool:
        """Whether the heartbeat of whoever has a point's session on another machine has stood still for so long."""
        try:
            beat = SessionReader(self._folder(name)).heartbeat()
        except (SessionUnreadable, DiskError):
            return False
        now = time.monotonic()
        if name not in self._beats or self._beats[name][0] != beat:
            self._beats[name] = beat, now
        return beat is not None and now - self._beats[name][1] >= STILL_SECONDS

    def _change(self, name: str, state: str, reason: str = "") -> None:
        self._statuses[name] = replace(self._statuses[name], state=state, reason=reason)

    def _folder(self, name: str) -> Path:
        return self._group.folder / name


def _now(study: Path, point: Point) -> Status:
    return Status(point.name, point.rounds).read(study / point.name)


def _reason(how: Ended) -> str:
    """Why a process failed, by its last words, or the signal that killed it."""
    if how.code < 0:
        try:
            by = signal.Signals(-how.code).name
        except ValueError:
            by = f"signal {-how.code}"
        out_of_memory = ", perhaps for want of memory" if how.code == -signal.SIGKILL else ""
        return f"killed by {by}{out_of_memory}; run the sweep again to continue it"
    errors = [line for line in how.words.splitlines() if line.startswith("error: ")]
    words = errors or how.words.splitlines()
    return words[-1].removeprefix("error: ") if words else f"its process ended with exit code {how.code}"
