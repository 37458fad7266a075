"""Runs a session: computes rounds, commits each to the session directory, and follows commands between them."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, cast

import checkpoints
from checkpoints import Command, Store, TooLarge
from simulator import runners
from simulator.base.documents import Change, Document, Entry, Event, Node, Report
from simulator.base.errors import ConfigError, DataError, MachinesLost, SessionError
from simulator.base.record import Notice, Record
from simulator.base.sections import RuntimeConfig, WatchConfig
from simulator.config import Config
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import Noticed, Observer, RoundFinished, StateChanged, Switch, unobserved
from simulator.methods import registry
from simulator.metrics.watchers import Watchers
from simulator.runners.base import POLL_SECONDS, Decision, LocalUpdate, RoundInterrupted
from simulator.sessions import history, metadata, states
from simulator.sessions.committing import Commits, too_large, with_finite_record
from simulator.sessions.history import (
    asked_for,
    begun_after,
    differences,
    history_entry,
    overrides,
    settings_in_force,
    watching_since,
)
from simulator.sessions.reader import CheckedReader, unrecorded
from simulator.sessions.steering import Steering
from simulator.sessions.watching import Watching

BY_WATCHER = "watcher "
"""How the reason of a stop by a watcher begins."""
OLD_CUDA_PRECISION = "float32, convolutions in tf32"
"""The precision on CUDA before `training.precision` existed."""


def record_nodes(store: Store, round: int, found: Sequence[Node]) -> None:
    """Write an event with each other machine's environment and number of clients at a time, if there are any."""
    if found:
        store.event("nodes", round=round, nodes=[*found])


@dataclass(frozen=True)
class RunOutcome:
    """How a call of `run` ended, after which round, and why. A paused session is still open."""

    state: Literal["finished", "stopped", "paused"]
    round: int
    reason: str | None = None

    @property
    def by_watcher(self) -> bool:
        """Whether a watcher stopped the run."""
        return self.state == "stopped" and (self.reason or "").startswith(BY_WATCHER)


class Session:
    """The owner of a session directory: runs rounds, commits each before the next begins, and answers commands."""

    def __init__(
        self, config: Config, folder: Path, built: Built, store: Store, state: State, history: list[Entry]
    ) -> None:
        self.config = config
        self.folder = folder
        self._built = built
        self._store = store
        self._state = state
        self._history = history
        self._new, self._exact = False, True
        """Whether this process made the session, and whether other machines must give the same bits as this one."""
        self._steering = Steering(store, self._checked)
        self._commits = Commits(store, state.round)
        self._begun = state.round  # the last round that began; a switch applies after it
        self._applied: list[Command] = []  # switches in force that are not in a checkpoint yet
        self._phase = "running"
        self._watching = Watching(store, built.federation)
        tested = [len(client.test) for client in built.data.clients]
        self._noticing = Noticing(store, config.watch, tested)
        self._noticed: str | None = None  # why a watcher wants the run to stop
        self.warnings: list[str] = []  # faults of the session's files that opening it found

    @classmethod
    def create(
        cls,
        config: Config,
        folder: Path,
        data_dir: Path,
        *,
        workers: int | None = None,
        allow_inexact: bool = False,
        look: Callable[[Document], Sequence[str]] = lambda document: (),
    ) -> "Session":
        """Make a session in a new or empty `folder`, and own it.

        `workers`: clients that train at a time on this machine. `allow_inexact` permits machines whose bits differ.
        `look` receives session.json and returns warnings. Raises ConfigError or DataError before anything is written,
        SessionUnreadable, DiskError.
        """
        metadata.refuse_taken(folder)
        here = config if workers is None else config.with_(runtime__workers=workers)
        built = build(here, data_dir)
        config, here = (metadata.on_device(each.begun(), built) for each in (config, here))
        with ExitStack() as failing:
            failing.callback(built.engine.close)
            found = built.engine.open(exact=not allow_inexact)
            state = built.engine.initial_state()
            facts = metadata.of_new(config, built, None)
            said = look(cast(Document, facts))
            store = Store.create(folder, facts, metadata.retention(config))
            failing.callback(store.close, "stopped")
            store.event("started", method=config.method.name, round=0)
            for sentence in said:
                store.warn(sentence, round=0)
            record_nodes(store, 0, found)
            session = cls(here, folder, built, store, state, [history_entry(config, 1)])
            session._new, session._exact = True, not allow_inexact
            session.warnings = store.take_warnings()
            failing.pop_all()
            return session

    @classmethod
    def resume(
        cls,
        folder: Path,
        data_dir: Path,
        *,
        workers: int | None = None,
        device: str | None = None,
        settings: Sequence[str] = (),
        allow_inexact: bool = False,
        steal: bool = False,
    ) -> "Session":
        """Own an existing session at its last checkpoint; arguments replace the recorded machine settings.

        Raises SessionError if data or plugin differ, or bits would and `allow_inexact` is not set; SessionUnreadable
        for a session that is locked, damaged, or of another version; ConfigError.
        """
        reader = CheckedReader(folder)
        config, history = metadata.current(reader, overrides(workers, device, settings, folder))
        built = build(config, data_dir, begun_after(history))
        metadata.check_data(reader, config, built.data)
        changes = metadata.changes(reader, config, built, history)
        changes += other_bits(reader, config, on_cuda=built.federation.device.type == "cuda")
        if changes and not allow_inexact:
            raise SessionError(
                f"{folder}: resumed here the result would no longer be bit-identical ({'; '.join(changes)}). "
                f"{metadata.go_back(reader, changes)}, or use `allow_inexact=True`; the session will record it."
            )
        with ExitStack() as failing:
            failing.callback(built.engine.close)
            found = built.engine.open(exact=not allow_inexact)
            store = Store.open(
                folder, retention=metadata.retention(config, reader.document["parent"]), steal=steal
            )
            failing.callback(store.close, "stopped")
            session = cls(config, folder, built, store, built.engine.initial_state(), history)
            session._exact = not allow_inexact
            session._restore()
            if session._noticing.on:
                done = reader.records()[: session.round]
                session._noticing.catch_up(done, session._history, reader.events())
            session._steering.refuse_stale()
            if said := unrecorded(reader):
                store.warn(said, round=session.round)
            session.warnings = store.take_warnings()
            changes += [f"node {place['node']}: {each}" for place in found for each in place["inexact"]]
            store.event("resumed", method=config.method.name, round=session.round, inexact=changes)
            record_nodes(store, session.round, found)
            failing.pop_all()
            return session

    @property
    def report(self) -> Report | None:
        return self._built.data.report

    @property
    def round(self) -> int:
        """The last finished round; 0 before the first."""
        return self._state.round

    @property
    def rounds(self) -> int:
        """The last round under the settings requested so far."""
        return (self._steering.planned(self.round) or self.config).rounds

    @property
    def finished(self) -> bool:
        """Whether all rounds have run, under the settings requested so far."""
        return history.finished(self._steering.planned(self.round) or self.config, self.round, self.record)

    @property
    def goal_reached(self) -> str | None:
        """Why the run is finished before its last round, in words."""
        return history.reason_to_end(self.config, self.round, self.record)

    @property
    def record(self) -> Record | None:
        """The ledger's record of the last round."""
        return self._state.record

    def run(
        self,
        observe: Observer = unobserved,
        stop: Callable[[], str | None] = lambda: None,
        checkpoint: Callable[[], bool] = lambda: False,
        upto: int | None = None,
    ) -> RunOutcome:
        """Run rounds until the last one, a stop, or round `upto`, after which the session stays open.

        It stops when `stop` returns a reason, at the command `stop`, at a watcher's, or, with
        `training.on_divergence`, after a round in which a client diverged. `stop` and `checkpoint` are asked between
        clients; finished clients are kept.
        """
        self._watching.observe = observe
        self._steering.heed(stop, checkpoint)
        opened = True
        while True:
            self._between_rounds()
            if self.finished:
                return self._end("finished", self.goal_reached)
            # A resume ignores an earlier divergence or watcher's stop, which the user has seen.
            reason = self._steering.stop_reason or (None if opened else self._divergence() or self._noticed)
            if reason is not None:
                return self._end("stopped", reason)
            if upto is not None and self.round >= upto:
                self._checkpoint()
                self._enter("paused")
                return RunOutcome("paused", self.round)
            kept = (
                states.load_unfinished(self._store, self._history, self._state, self._built) if opened else {}
            )
            opened = False
            try:
                self._round(kept)
            except RoundInterrupted as left:
                self._keep(left.updates)
            except (ConfigError, DataError) as refused:
                if self._unbegun and not isinstance(refused, MachinesLost):  # its name is free again
                    self.close()
                    checkpoints.remove(self.folder)
                raise

    def close(self) -> None:
        """Release the session directory. Does nothing in a fork of the process that owns it."""
        if self._store.forked:
            return
        self._built.engine.close()
        self._store.close("finished" if self.finished else "stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _unbegun(self) -> bool:
        """Whether this process made the session, and no client has finished in it."""
        return self._new and self._store.round is None and self._store.unfinished_round() is None

    def _restore(self) -> None:
        reader = CheckedReader(self.folder)
        if not reader.rounds():
            return
        manifest = reader.manifest()
        if manifest.history != self._history:
            raise SessionError(f"{self.folder} was changed by another program just now; resume it again.")
        self._state = states.restore(reader, manifest, self._built, exact=self._exact)
        self._commits.restored(manifest)
        self._begun = manifest.round

    def _round(self, kept: dict[int, LocalUpdate]) -> None:
        """Run one round. Write a checkpoint if it is due, and otherwise only a line in the ledger."""
        steering = self._steering
        self._begun = self.round + 1
        state = self._built.engine.round(
            self._state,
            self._watching,
            self._between_clients,
            kept,
            measure=lambda: bool(steering.measuring),
        )
        before, (self._state, lost) = self._state, with_finite_record(state)
        for place, number in lost.items():
            self._store.warn(
                f"Round {self.round}: {place} is {number}, which is no number; it is recorded as null.",
                round=self.round,
            )
        record = self._state.record
        assert record is not None
        record["timing"] = {**record["timing"], **self._watching.took()}
        noticed = self._noticing.look(record)
        due = self.round % self.config.checkpoint.every == 0 or self.finished or self._store.checkpoint_due
        try:
            if due or self._applied or steering.measuring:
                self._commit()
            else:
                self._store.append(record)
        except TooLarge as fault:
            self._state = before
            self._checkpoint()
            raise too_large(fault, record, None if self._unbegun else self.folder) from fault
        steering.answer(steering.measuring, "measured and kept", self.round)
        self._watching.look()
        self._watching(RoundFinished(record))
        for each in noticed:
            self._watching(each)
        stops = [each for each in noticed if each.action == "stop"]
        self._noticed = f"{BY_WATCHER}{stops[0].watcher}: {stops[0].message}" if stops else None
        if any(each.action == "pause" for each in noticed):
            steering.paused = True

    def _between_rounds(self) -> None:
        """Carry out commands between rounds, and wait while the run is paused."""
        while True:
            self._heed(())
            for command, config in () if self.finished else self._steering.take_changes(self.round):
                self._switch(command, config)
            held = self._steering.paused and not self.finished and self._steering.stop_reason is None
            self._enter("paused" if held else "running")
            if not held:
                return
            time.sleep(POLL_SECONDS)

    def _divergence(self) -> str | None:
        """The reason to stop, if a client diverged in the last round and the settings stop a run for that."""
        record = self._state.record
        if record is None or self.config.training.on_divergence == "continue" or not record.get("diverged"):
            return None
        return f"divergence of client {', '.join(map(str, record['diverged']))}"

    def _between_clients(self, updates: Sequence[LocalUpdate], running: int) -> Decision:
        """Carry out commands, and decide whether the next client may start."""
        self._heed(updates)
        if self._steering.stop_reason is not None:
            self._enter("stopping")
            return "leave"
        if self._steering.paused:
            self._enter("pausing" if running else "paused")
            return "hold"
        self._enter("running")
        return "go"

    def _heed(self, updates: Sequence[LocalUpdate]) -> None:
        """Read commands and signals. If a checkpoint is requested, write it with the round's finished clients."""
        self._steering.read()
        self._watching.look()
        if not self._steering.save:
            return
        self._checkpoint()
        if updates:
            self._keep(updates)
        kept = f"round {self.round}" + (f" and {len(updates)} clients of the next" if updates else "")
        self._steering.answer(self._steering.saving, f"kept: {kept}", self.round)
        self._steering.save = False

    def _enter(self, phase: str) -> None:
        """Announce a new phase once. Answer its commands afterwards, so that their senders already see it."""
        if phase != self._phase:
            before, self._phase = self._phase, phase
            if phase == "paused":
                self._store.event("paused", round=self.round)
            elif before == "paused":
                self._store.event("continued", round=self.round)
            self._watching(StateChanged(phase, self.round))
        self._steering.answer(self._steering.resuming, "training continues")
        if phase == "paused":
            self._steering.answer(self._steering.pausing, "no client trains", self.round)

    def _checked(self, command: Command, before: Config | None, may_wait: bool) -> Config:
        """The configuration after a switch, checked against the models. Raises ConfigError, also if it is too late."""
        far = (0, None) if may_wait else (self._begun, self.record)
        config = asked_for(before or self.config, command.arguments, *far)
        built = rebuild(self._built, config)
        built.engine.close()
        metadata.check_recordable(config, built)
        return config

    def _switch(self, command: Command, config: Config) -> None:
        """Continue with other settings, from a checkpoint of exactly this round."""
        self._checkpoint()
        before = self.config
        begun = self.round if config.method.name != before.method.name else None
        built = rebuild(self._built, config, begun)
        # Open the new machines before the old ones are released: they may be the same.
        found = built.engine.open(exact=self._exact)
        taken, adopted = built.engine.take_over(self._state, self._built.method)
        dropped, self._state = len(self._state.in_flight) - len(taken.in_flight), taken
        self._built.engine.close()
        self._built, self.config = built, config
        self._commits.taken_over()
        changes = differences(before, config)
        about: Change = {
            "before": before.method.name,
            "changes": changes,
            "adopted": adopted,
            "command": command.id,
        }
        files: Change = {
            "plugin": registry.recorded(config.method.name),
            "files": metadata.recorded_files(config),
            "method_files": metadata.files_of_method(config.method.name),
        }
        self._history.append(history_entry(config, self.round + 1, {**files, **about}))
        if config.watch != before.watch:
            self._noticing.begin(config.watch)
            if self._noticing.on:
                self._noticing.catch_up(CheckedReader(self.folder).records(), self._history)
        self._applied.append(command)
        lost = {"dropped_uplinks": dropped} if dropped else {}
        self._store.event("switched", round=self.round, method=config.method.name, **about, **lost)
        record_nodes(self._store, self.round, found)
        self._watching(
            Switch(self.round + 1, config.method.name, before.method.name, tuple(changes), adopted)
        )

    def _checkpoint(self) -> None:
        """Make a checkpoint of the last finished round, unless there is one."""
        if self.round > self._commits.round:
            self._commit()

    def _commit(self) -> None:
        applied = [command.id for command in self._applied]
        self._state = self._commits.commit(self._state, self._history, applied)
        self._steering.answer(self._applied, f"in force since round {self.round}", self.round)

    def _keep(self, updates: Sequence[LocalUpdate]) -> None:
        """Save the finished clients of the current round, and a checkpoint of the state before it."""
        self._checkpoint()
        if updates:
            states.save_unfinished(self._store, self.round + 1, self._history, updates)

    def _end(self, how: Literal["finished", "stopped"], reason: str | None) -> RunOutcome:
        self._checkpoint()
        self._steering.end(f"the run has {how}", self.round)
        self._store.event("stopped", round=self.round, reason=reason or how)
        self._built.engine.close()
        self._store.close(how)
        return RunOutcome(how, self.round, reason)


class Noticing:
    """Shows each new record to the watchers. Writes their notices into the record and the events."""

    def __init__(self, store: Store, settings: WatchConfig, tested: Sequence[int]) -> None:
        """tested: each client's number of test samples."""
        self._store = store
        self._tested = tested
        self._told: set[tuple[int, str, tuple[int, ...]]] = set()
        self.begin(settings)

    @property
    def on(self) -> bool:
        return self._watchers is not None

    def begin(self, settings: WatchConfig) -> None:
        """Watch with these settings from round 1 on, or after `catch_up`."""
        self._settings = settings
        self._watchers = Watchers(settings, self._tested) if settings.watchers else None

    def catch_up(
        self, records: Sequence[Record], history: Sequence[Entry], events: Sequence[Event] = ()
    ) -> None:
        """Show the watchers the finished rounds, without new notices. They forget where watchers were switched.

        events: this session's. Their notices are not written again if their round was lost and runs again.
        """
        if self._watchers is None:
            return
        since = watching_since(history)
        for record in records:
            if record["round"] == since:
                self._watchers.forget()
            self._watchers.after(record)
        if since > len(records):
            self._watchers.forget()
        for event in events:
            if event["event"] == "noticed":
                self._told.add((event["round"], event["watcher"], tuple(event["clients"])))

    def look(self, record: Record) -> list[Noticed]:
        """The notices after this round. They are added to its record, and written before the round is committed."""
        found = self._watchers.after(record) if self._watchers is not None else []
        if found:
            record["watch"] = found
        return [self._noticed(notice, record["round"]) for notice in found]

    def _noticed(self, notice: Notice, round: int) -> Noticed:
        watcher, clients = notice["watcher"], tuple(notice["clients"])
        action = self._settings.action(watcher)
        if (round, watcher, clients) not in self._told:
            self._store.event("noticed", round=round, **notice, action=action)
            self._told.add((round, watcher, clients))
        return Noticed(round, watcher, notice["message"], clients, action)


def other_bits(session: CheckedReader, config: Config, on_cuda: bool) -> list[str]:
    """Changes of the settings in force that change the bits, such as 'precision float32 → bf16'."""
    history = session.manifest().history if session.rounds() else []
    raw = settings_in_force(session.document, history)
    then = raw["training"].get("precision", OLD_CUDA_PRECISION if on_cuda else "float32")
    now = config.training.precision
    ways = [_sums(RuntimeConfig.model_validate(raw.get("runtime", {}))), _sums(config.runtime)]
    return [
        f"{fact} {before} → {after}"
        for fact, before, after in (("precision", then, now), ("clients", *ways))
        if before != after
    ]


def _sums(settings: RuntimeConfig) -> str:
    return runners.get(settings.runner).sums(settings)
