"""Plan the points of a study, and run them in order, several at once, until all are done or a stop is requested."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import checkpoints
from checkpoints import POINTS, TUNING, Command, DiskError, Group, SessionReader, SessionUnreadable
from simulator.base.documents import Link
from simulator.base.environment import changed_code
from simulator.base.errors import ConfigError, SessionError, nearest
from simulator.base.extras import install_command
from simulator.base.nested import Raw
from simulator.config.user_files import Files
from simulator.results.analysis.axes import SEEDS, group_label
from simulator.results.analysis.caveats import rows_differ
from simulator.results.analysis.run import SILENT_SECONDS
from simulator.sessions.reader import CheckedReader, unrecorded
from simulator.studies.executor import DIVERGED, REUSED, Ended, Executor, Here, Launch
from simulator.studies.folder import (
    FAILED,
    FINISHED,
    LIVE,
    STARTING,
    STOPPED,
    STUDY,
    WAITING,
    Status,
    as_asked,
    documents,
    read_points,
    read_study,
    refuse_changed,
    run_key,
    session_of,
    status_of,
)
from simulator.studies.study import Point, StudySpec


@dataclass(frozen=True)
class Plan:
    """A study, its folder, and all its points in order."""

    folder: Path
    study: StudySpec
    points: tuple[Point, ...]
    listed: bool
    """Whether the folder already holds exactly this study."""

    @property
    def unbegun(self) -> list[Point]:
        """The points that have no session, neither their own nor one of another point."""
        return [point for point in self.points if not checkpoints.is_session(session_of(self.folder, point))]

    def caveats(self) -> list[str]:
        """One sentence about training and data settings that differ between points although they are not axes."""
        axes = [axis for axis in self.study.over if axis not in SEEDS]
        rows: dict[str, list[Raw]] = {}
        for point in self.points:
            label = group_label(axes, tuple(point.axes.get(axis) for axis in axes))
            rows.setdefault(label, []).append(point.config)
        return rows_differ(rows, axes)

    def open(self, waiting: Callable[[], bool] | None = None, *, steal: bool = False) -> Group:
        """Lock the study's folder, from a dead machine if `steal`, and write the study. Raises Locked and DiskError."""
        files = {} if self.listed else documents(self.study, self.points)
        return Group.open(self.folder, files, waiting=waiting, steal=steal)


def plan(folder: Path, study: StudySpec | None = None, extend: bool = False) -> Plan:
    """Plan `study`, or the one in the folder if it names no Python files. Runs the files of `study`. `extend`: add
    points. Raises ConfigError for invalid settings and for a study that would change an existing one; SessionError if
    a file differs from what a point lists; SessionUnreadable, PresetError, or DiskError.
    """
    sessions_dir = folder.parent
    there = checkpoints.is_group(folder)
    if study is None:
        if not there:
            raise SessionUnreadable(f"there is no study {folder}.")
        study = read_study(folder)
        study.files.confirmed(Files(), folder / STUDY)
    before = read_points(folder) if there else ()
    load(folder, study.files, before)
    if there and (folder / TUNING).exists():
        raise ConfigError(
            f"{folder.name} is a tuning study, and a sweep would run all of its trials to their last rounds. "
            f"Continue it: `htfl-sim tune {folder.name}`."
        )
    if not there:
        return Plan(folder, study, tuple(_points(study, sessions_dir)), listed=False)
    if any(point.files for point in before):
        from simulator.studies.checking import refuse_other  # needs torch

        refuse_other(folder, before)
    if as_asked(folder, study):
        return Plan(folder, study, before, listed=True)
    after = _points(study, sessions_dir)
    refuse_changed(folder, before, after, extend)
    kept = {point.name: point for point in before}
    points = (kept[point.name].placed_as(point) if point.name in kept else point for point in after)
    return Plan(folder, study, tuple(points), listed=False)


def load(folder: Path, files: Files, points: Iterable[Point]) -> None:
    """Run the named files, once they are those that the points list. Raises SessionError, ConfigError."""
    if files != Files():
        from simulator.studies.checking import refuse_other_code  # needs torch

        refuse_other_code(folder, points, files)
        files.load()


def _points(study: StudySpec, sessions_dir: Path) -> list[Point]:
    """The points of a study and the files that each needs. The study's files are loaded already."""
    found = study.points(sessions_dir)  # refused before torch is imported

    from simulator.studies.checking import needed, refuse_unnamed

    points = [replace(point, files=needed(point.config)) for point in found]
    refuse_unnamed(study, points)
    return points


HERE, RAY, SLURM = "here", "ray", "slurm"
NAMES = (HERE, RAY, SLURM)


def checked(name: str) -> str:
    """The name of a backend. Raises ConfigError with the nearest name for an unknown one."""
    if name not in NAMES:
        raise ConfigError(f"`on='{name}'` is unknown.{nearest(name, NAMES)} There are {', '.join(NAMES)}.")
    return name


def backend(name: str) -> type[Executor]:
    """The backend of that name. Raises ConfigError for an unknown name, or if this machine cannot use it."""
    match checked(name):
        case "ray":
            try:
                from simulator.studies.on_ray import OnRay
            except ImportError as missing:
                raise ConfigError(
                    f"a sweep on Ray needs Ray, which is not installed ({missing}). Install it: "
                    f"`{install_command('ray')}`, or leave out `on` to run the points on this machine."
                ) from missing
            return OnRay
        case "slurm":
            raise ConfigError(
                "Slurm runs these points itself. `htfl-sim sweep STUDY … --on slurm` writes the script to submit."
            )
    return Here


POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""Seconds between two readings of the running points' files."""
ATTEMPTS = 3
"""How often a point may lose its node in one sweep."""

Observer = Callable[[Sequence[Status]], None]


@dataclass(frozen=True)
class SweepResult:
    """The end of a sweep: every point, in order, and the reason of a stop, if any."""

    statuses: tuple[Status, ...]
    reason: str | None = None

    @property
    def failed(self) -> list[Status]:
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
    """Run the points of a study until all are done or `stop` returns a reason.

    On this machine, `jobs` points run at once (default: one). On another backend, as many run as fit, at most `jobs`.
    `waiting` is asked whether to wait for points that a dead sweep left running. `say` receives notes about settings
    without effect, and warnings of points. `steal` takes the study over from a dead machine. Raises ConfigError if the
    backend cannot run the points, SessionError if other code made the finished ones and `launch.allow_inexact` is not
    set, Locked while another sweep runs the study, and DiskError.
    """
    kind = backend(on)
    launch = launch if on == HERE else replace(launch, reuse=False)
    left = [point for point in planned.points if status_of(planned.folder, point).state != FINISHED]
    finished = [each for each in planned.points if each not in left]
    if left:
        otherwise = "use `allow_inexact=True` to run the other points with this code"
        check_code(planned.folder, finished, say, None if launch.allow_inexact else otherwise)
    with (kind if left else Here)(left, launch, jobs) as there, planned.open(waiting, steal=steal) as group:
        for warning in there.warnings:
            say(warning)
        outcome = Sweep(group, planned, planned.points, there, launch, observe, say).run(stop)
        group.close("stopped" if outcome.reason or outcome.failed else "finished")
        return outcome


class Sweep:
    """One sweep over a study's points, by the holder of the folder's lock."""

    def __init__(
        self,
        group: Group,
        planned: Plan,
        points: Sequence[Point],
        executor: Executor,
        launch: Launch,
        observe: Observer,
        say: Callable[[str], None] = lambda warning: None,
    ) -> None:
        """Run these points of the plan. `observe` receives all of them at changes, and `say` their warnings.

        Identical points wait for the first of them, unless `launch.reuse` is False. Links are written into the plan.
        """
        self._upto = launch.upto
        self._group, self._planned = group, planned
        self._points = {point.name: point for point in points}
        self._executor, self._observe, self._say = executor, observe, say
        self._statuses = {point.name: status_of(group.folder, point, launch.last) for point in points}
        # Points that an earlier sweep stopped, lost, or failed at start again.
        self._open = [name for name, status in self._statuses.items() if not self._is_done(status)]
        for name in self._open:
            if executor.takes_over or self._statuses[name].state not in LIVE:
                self._change(name, state=WAITING)
        self._lost: Counter[str] = Counter()
        """How often each point has lost its node."""
        self._beats: dict[str, tuple[object, float]] = {}
        """Sessions that other processes hold: the last heartbeat from another machine, and when it arrived."""
        self._looked = 0.0
        self._reason: str | None = None
        self._paused = False
        self._asked: list[Command] = []
        """Commands without an effect yet."""
        self._held: set[str] = set()
        """Points whose sessions were asked to pause."""
        self._twins: dict[str, str] = {}
        """For each point, the first point with its settings."""
        firsts: dict[bytes, str] = {}
        for name in self._open if launch.reuse is not False else ():
            if (wanted := run_key(self._points[name])) is not None:
                self._twins[name] = firsts.setdefault(wanted, name)

    def run(self, stop: Callable[[], str | None]) -> SweepResult:
        """Until all points are done, or `stop` or a command stops them. All points have ended then."""
        with self._executor.at(self._group):
            while True:
                self._heed(stop())
                for name, how in self._executor.ended().items():
                    self._end(name, how)
                self._begin()
                self._look()
                self._observe(tuple(self._statuses.values()))
                if not self._executor.running and (self._reason or not self._unfinished()):
                    break
                time.sleep(POLL_SECONDS)
        self._answer_all("applied", "every point has stopped")
        return SweepResult(tuple(self._statuses.values()), self._reason)

    def _unfinished(self) -> bool:
        return any(self._statuses[name].state in (WAITING, *LIVE) for name in self._open)

    def _heed(self, signalled: str | None) -> None:
        for command in self._group.commands():
            self._receive(command)
        stopping = signalled or ("stop" if any(each.kind == "stop" for each in self._asked) else None)
        if stopping and not self._reason:
            self._reason = stopping
            self._executor.stop()
        if not self._reason:
            self._pause_points()
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
                self._answer_all("refused", "a resume came before it had an effect")
                self._paused = False
                for name in self._held:
                    self._executor.tell(name, "resume")
                self._held.clear()
                self._group.answer(command, "applied", "its points continue")
            case "stop":
                self._asked.append(command)
            case _:
                self._group.answer(
                    command, "refused", "a study takes pause, resume and stop; name one of its sessions"
                )

    def _pause_points(self) -> None:
        """While paused: ask every running point to pause, and report when all have paused."""
        if not self._paused:
            return
        states = {name: self._executor.state(name) for name in self._executor.running}
        ready = {name for name, state in states.items() if state is not None}
        for name in ready - self._held:
            self._executor.tell(name, "pause")
        self._held |= ready
        if all(state == "paused" for state in states.values()):
            self._answer_all("applied", "no point trains")

    def _answer_all(self, outcome: Literal["applied", "refused"], message: str) -> None:
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
            if self._reason or self._paused or len(self._executor.running) >= self._executor.room:
                return
            if self._statuses[name].state != WAITING:
                continue
            first = self._twins.get(name, name)
            if first != name and self._statuses[first].state in (WAITING, *LIVE):
                continue
            self._change(name, state=STARTING)
            try:
                self._executor.start(self._points[name])
            except OSError as error:
                self._change(name, state=FAILED, reason=f"no process for it: {error.strerror or error}")

    def _end(self, name: str, how: Ended) -> None:
        self._held.discard(name)
        for line in how.words.splitlines():
            if line.startswith("warning: "):
                self._say(f"{name}: {line.removeprefix('warning: ')}")
        before = self._statuses[name]
        if how.lost:  # discard progress that was not copied back
            before = Status(name, before.rounds, seconds=before.seconds, last=before.last)
        if how.code == REUSED:
            self._link(name, json.loads(how.words.splitlines()[-1]))
        status = self._statuses[name] = before.read(self._folder(name))
        if self._is_done(status):
            return
        if how.lost and not self._reason:
            self._lost[name] += 1
            if (times := self._lost[name]) < ATTEMPTS:
                self._change(name, state=WAITING, reason=f"{how.words}; it starts again")
                self._observe(tuple(self._statuses.values()))  # before the session is read
            else:
                self._change(name, state=FAILED, reason=f"{how.words}, as {times - 1} times before it")
        elif how.code == 0 or (self._reason and (how.lost or how.code == -signal.SIGTERM)):
            self._change(name, state=STOPPED if status.round or status.state == STOPPED else WAITING)
        else:
            self._change(name, state=FAILED, reason=_reason(how))
            self._statuses[name] = replace(self._statuses[name], diverged=how.code == DIVERGED)

    def _link(self, name: str, link: Link) -> None:
        """Record that a point uses another session."""
        self._points[name] = replace(self._points[name], link=link)
        points = [self._points.get(point.name, point) for point in self._planned.points]
        self._group.write({POINTS: documents(self._planned.study, points)[POINTS]})

    def _look(self) -> None:
        """Read the progress of running points again, here or in another process."""
        if (now := time.monotonic()) - self._looked < LOOK_SECONDS:
            return
        self._looked, at_work = now, set(self._executor.running)
        for name in self._open:
            status = self._statuses[name]
            if name in at_work:
                read = self._executor.read(status)
                # Before its process opens the session, and after it closes it, the files show the previous state.
                self._statuses[name] = read if read.state in LIVE else replace(read, state=status.state)
            elif status.state in LIVE:
                read = status.read(self._folder(name))
                unowned = read.state not in (*LIVE, FINISHED, FAILED) or self._is_silent(name)
                self._statuses[name] = replace(read, state=WAITING) if unowned else read

    def _is_silent(self, name: str) -> bool:
        """Whether the heartbeat of a session's holder on another machine has stopped for too long."""
        try:
            beat = SessionReader(self._folder(name)).heartbeat()
        except (SessionUnreadable, DiskError):
            return False
        now = time.monotonic()
        if name not in self._beats or self._beats[name][0] != beat:
            self._beats[name] = beat, now
        return beat is not None and now - self._beats[name][1] >= SILENT_SECONDS

    def _is_done(self, status: Status) -> bool:
        """Whether a point has its last round, or a checkpoint at the round up to which it is to run."""
        if status.state == FINISHED or self._upto is None:
            return status.state == FINISHED
        return status.state == STOPPED and status.round >= min(self._upto, status.rounds)

    def _change(self, name: str, state: str, reason: str = "") -> None:
        self._statuses[name] = replace(self._statuses[name], state=state, reason=reason)

    def _folder(self, name: str) -> Path:
        return session_of(self._group.folder, self._points[name])


def check_code(
    study: Path, finished: Sequence[Point], say: Callable[[str], None], otherwise: str | None
) -> None:
    """Say of the first finished point without hashes of the code that made it that it has none.

    otherwise: what to do if that code is gone. Unless it is None, raises SessionError if it is not the present code.
    """
    sessions = {point.name: CheckedReader(session_of(study, point)) for point in finished}
    if sentence := next(filter(None, map(unrecorded, sessions.values())), None):
        say(sentence)
    for name, session in sessions.items() if otherwise else ():
        document = session.document
        if differs := changed_code(document["environment"], document.get("method_files", {})):
            raise SessionError(
                f"Point {name} of study {study.name} was made with other code ({'; '.join(differs)}). Go back to what "
                f"it was made with, or {otherwise}."
            )


def _reason(how: Ended) -> str:
    """Why a process failed: the end of its stderr, or the signal that killed it."""
    if how.code < 0:
        try:
            by = signal.Signals(-how.code).name
        except ValueError:
            by = f"signal {-how.code}"
        out_of_memory = ", perhaps because memory ran out" if how.code == -signal.SIGKILL else ""
        return f"killed by {by}{out_of_memory}; run the sweep again to continue it"
    errors = [line for line in how.words.splitlines() if line.startswith("error: ")]
    words = errors or how.words.splitlines()
    return words[-1].removeprefix("error: ") if words else f"its process ended with exit code {how.code}"
