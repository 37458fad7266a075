"""Running the points of a study: so many at once, each a process, in order, until all are done or a stop is wanted."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import checkpoints
from checkpoints import Command, DiskError, Group, SessionReader, SessionUnreadable
from simulator.studies.children import Children, Ended, Launch, share_of_cores
from simulator.studies.plan import Plan
from simulator.studies.status import FAILED, FINISHED, LIVE, STARTING, STOPPED, WAITING, Status
from simulator.studies.study import Point

POLL_SECONDS = 0.1
"""How often signals, commands and ended processes are looked for."""
LOOK_SECONDS = 1.0
"""How often the files of the points at work are read."""

Observer = Callable[[Sequence[Status]], None]


@dataclass(frozen=True)
class Outcome:
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
    jobs: int = 1,
    observe: Observer = lambda statuses: None,
    stop: Callable[[], str | None] = lambda: None,
    waiting: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Run the points of a study, `jobs` at once, until all are done or `stop` gives a reason.

    While what a sweep that died began is still at work, `waiting` is asked whether to wait for it. Raises Locked where
    another sweep runs the study, and DiskError.
    """
    with planned.open(waiting) as group:
        outcome = Sweep(group, planned.points, launch, jobs, observe).run(stop)
        group.close("stopped" if outcome.reason or outcome.failed else "finished")
        return outcome


class Sweep:
    """One run over a study's points, by the owner of its folder."""

    def __init__(
        self, group: Group, points: Sequence[Point], launch: Launch, jobs: int, observe: Observer
    ) -> None:
        """`observe` is told of all points whenever anything may have changed."""
        self._group = group
        self._points = {point.name: point for point in points}
        self._launch, self._jobs, self._observe = launch, jobs, observe
        self._statuses = {
            point.name: Status(point.name, point.rounds).read(self._folder(point.name)) for point in points
        }
        # What an earlier sweep stopped, lost or failed at is taken up again.
        self._open = [name for name, status in self._statuses.items() if status.state != FINISHED]
        for name in self._open:
            if self._statuses[name].state not in LIVE:
                self._change(name, state=WAITING)
        self._looked = 0.0
        self._reason: str | None = None
        self._paused = False
        self._asked: list[Command] = []
        """Commands that wait until they have taken hold."""
        self._held: set[str] = set()
        """Points whose sessions were asked to pause."""

    def run(self, stop: Callable[[], str | None]) -> Outcome:
        """Run until nothing is left to do, or until `stop` gives a reason, or the command `stop` is given.

        All processes have ended when this returns, also when it raises.
        """
        with Children(self._group.folder, self._group.descriptor, self._launch) as children:
            while True:
                self._heed(children, stop())
                for name, how in children.ended().items():
                    self._end(name, how)
                self._begin(children)
                self._look(children)
                self._observe(tuple(self._statuses.values()))
                if not children and (self._reason or not self._unfinished()):
                    break
                time.sleep(POLL_SECONDS)
        self._settle("applied", "every point has stopped")
        return Outcome(tuple(self._statuses.values()), self._reason)

    def _unfinished(self) -> bool:
        """Whether any point is still to be begun, or is at work in another process's hands."""
        return any(self._statuses[name].state in (WAITING, *LIVE) for name in self._open)

    def _heed(self, children: Children, signalled: str | None) -> None:
        for command in self._group.commands():
            self._receive(command)
        stopping = signalled or ("stop" if any(each.kind == "stop" for each in self._asked) else None)
        if stopping and not self._reason:
            self._reason = stopping
            children.stop()
        if not self._reason:
            self._hold(children)
        done = sum(status.state == FINISHED for status in self._statuses.values())
        self._group.note(self._phase(children), done=done, points=len(self._points))

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
                self._ask_sessions("resume", self._held)
                self._held.clear()
                self._group.answer(command, "applied", "its points go on")
            case "stop":
                self._asked.append(command)
            case _:
                self._group.answer(
                    command, "refused", "a study takes pause, resume and stop; name one of its sessions"
                )

    def _hold(self, children: Children) -> None:
        """While paused: have every point at work pause, and say so when all have."""
        if not self._paused:
            return
        ready = {name for name in children.names() if checkpoints.is_session(self._folder(name))}
        self._ask_sessions("pause", ready - self._held)
        self._held |= ready
        if all(self._state(name) == "paused" for name in children.names()):
            self._settle("applied", "no point trains")

    def _ask_sessions(self, kind: str, names: set[str]) -> None:
        for name in names:
            with suppress(SessionUnreadable, DiskError):  # it has ended meanwhile, or will say what is amiss
                checkpoints.post(self._folder(name), kind)

    def _settle(self, outcome: Literal["applied", "refused"], message: str) -> None:
        for command in self._asked:
            self._group.answer(command, outcome, message)
        self._asked.clear()

    def _phase(self, children: Children) -> str:
        if self._reason:
            return "stopping"
        if not self._paused:
            return "running"
        return "pausing" if self._asked else "paused"

    def _begin(self, children: Children) -> None:
        for name in self._open:
            if self._reason or self._paused or len(children) >= self._jobs:
                return
            if self._statuses[name].state != WAITING:
                continue
            point = self._points[name]
            self._change(name, state=STARTING)
            try:
                children.start(point, self._workers(point))
            except OSError as error:
                self._change(name, state=FAILED, reason=f"no process for it: {error.strerror or error}")

    def _workers(self, point: Point) -> int | None:
        runtime = point.config["runtime"]
        if self._launch.workers is not None or runtime["workers"] is not None:
            return None
        return share_of_cores(self._jobs, runtime["threads_per_client"])

    def _end(self, name: str, how: Ended) -> None:
        """What became of a point whose process has ended."""
        self._held.discard(name)
        status = self._statuses[name] = self._statuses[name].read(self._folder(name))
        if status.state == FINISHED:
            return
        if how.code == 0 or (self._reason and how.code == -signal.SIGTERM):
            self._change(name, state=STOPPED if status.round or status.state == STOPPED else WAITING)
        else:
            self._change(name, state=FAILED, reason=_reason(how))

    def _look(self, children: Children) -> None:
        """Read anew how far the points at work are, here or in the hands of another process."""
        if (now := time.monotonic()) - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for name in self._open:
            status = self._statuses[name]
            if name in children:
                read = status.read(self._folder(name))
                # Before its owner has opened it, and when it has let go, the files say how it was left.
                self._statuses[name] = read if read.state in LIVE else replace(read, state=status.state)
            elif status.state in LIVE:
                read = status.read(self._folder(name))
                unowned = read.state not in (*LIVE, FINISHED, FAILED)
                self._statuses[name] = replace(read, state=WAITING) if unowned else read

    def _state(self, name: str) -> str | None:
        with suppress(SessionUnreadable, DiskError):
            return SessionReader(self._folder(name)).state()
        return None

    def _change(self, name: str, state: str, reason: str = "") -> None:
        self._statuses[name] = replace(self._statuses[name], state=state, reason=reason)

    def _folder(self, name: str) -> Path:
        return self._group.folder / name


def _reason(how: Ended) -> str:
    """Why a process failed, by its last words, or the signal that killed it."""
    if how.code < 0:
        try:
            by = signal.Signals(-how.code).name
        except ValueError:
            by = f"signal {-how.code}"
        out_of_memory = ", perhaps for want of memory" if how.code == -signal.SIGKILL else ""
        return f"killed by {by}{out_of_memory}; the sweep, asked for again, goes on with it"
    errors = [line for line in how.words.splitlines() if line.startswith("error: ")]
    words = errors or how.words.splitlines()
    return words[-1].removeprefix("error: ") if words else f"its process ended with exit code {how.code}"
