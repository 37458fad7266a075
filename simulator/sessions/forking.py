"""Branching a session: a new one that goes on from any round of its parent, which is only read and may be live.

A round without a checkpoint is run again from the nearest one before, and must give what the ledger says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Damaged, Store
from simulator.base.documents import Change, Entry, Parent
from simulator.base.environment import changed_code
from simulator.base.errors import ConfigError, SessionError
from simulator.base.nested import Raw
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import Observer, unobserved
from simulator.sessions import metadata, states
from simulator.sessions.committing import Commits, with_finite_record
from simulator.sessions.history import (
    SETTINGS,
    begun_after,
    changed_settings,
    differences,
    entries_to,
    history_entry,
    next_change,
    reached,
    settings_in_force,
)
from simulator.sessions.reader import CheckedReader, parent_folder, unrecorded


@dataclass(frozen=True)
class Source:
    """A session, as far as its states need it."""

    session: CheckedReader
    records: list[Record]
    history: list[Entry]
    config: Config
    built: Built

    @classmethod
    def read(cls, folder: Path, at_round: int, runtime: Raw, data_dir: Path) -> "Source":
        """The session, its data and its models; `runtime` is laid over its own. Raises ConfigError, SessionError."""
        session = CheckedReader(folder)
        records = session.records()
        session.check_round(at_round)
        given = {key: value for key, value in runtime.items() if value is not None}
        config, history = metadata.current(session, {"runtime": given}, at_round)
        built = build(config, data_dir, runs=False)
        metadata.check_data(session, config, built.data)
        return cls(session, records, history, config, built)

    def config_after(self, round: int) -> Config:
        """The settings that round t ended with."""
        return _under(self.session, self.config, self.history_to(round))

    def begun_after(self, round: int) -> int:
        """The round after which the method that round t ended with began."""
        return begun_after(self.history_to(round))

    def state_after(self, at_round: int, allow_inexact: bool, observe: Observer) -> tuple[State | None, int]:
        """The state after a round, and how many rounds were run for it; None if its checkpoint is kept as it is."""
        kept = [round for round in self.session.rounds() if round <= at_round]
        if at_round in (0, *kept[-1:]):
            return None, 0
        nearest = kept[-1] if kept else 0
        self._refuse_inexact(nearest, at_round, allow_inexact)
        if not kept and self.session.document["parent"]:
            raise SessionError(
                f"{self.session.folder} keeps no checkpoint up to round {at_round}. {self._otherwise(at_round)}"
            )
        built = rebuild(self.built, self.config_after(nearest), self.begun_after(nearest))
        state = self.load(nearest, built, allow_inexact)
        for round in range(nearest + 1, at_round + 1):
            # In turn: what one takes over, the next may take over from it.
            for entry in (each for each in self.history[1:] if each["from_round"] == round):
                following = rebuild(
                    built, _under(self.session, self.config, [entry]), self.begun_after(round)
                )
                state, _ = following.engine.take_over(state, built.method)
                built.engine.close()
                built = following
            state, _ = with_finite_record(built.engine.round(state, observe))
            self._compare(state, allow_inexact)
        built.engine.close()
        return state, at_round - nearest

    def load(self, round: int, built: Built, allow_inexact: bool) -> State:
        """A checkpoint's state; before round 1, the initial one."""
        if round == 0:
            return built.engine.initial_state()
        state = states.restore(self.session, self.session.manifest(round), built, exact=not allow_inexact)
        if self.session.alive():  # its owner may retire the checkpoint while rounds are run from it
            state = states.in_memory(state)
        return state

    def history_to(self, round: int) -> list[Entry]:
        """The history as it stood after a round."""
        entries = entries_to(self.history, round)
        return entries if round else entries[:1]

    def _kept(self) -> str:
        return ", ".join(map(str, self.session.rounds())) or "none"

    def _otherwise(self, round: int) -> str:
        """Where a round can be had from that this fork has no checkpoint of."""
        about = self.session.document["parent"]
        assert about is not None
        if parent := parent_folder(about, checkpoints.sessions_folder(self.session.folder)):
            return f"Fork its parent: {checkpoints.fork_at(parent, round)}."
        return (
            f"Its parent {about['name']} is gone. Fork at a round whose checkpoint is kept: {self._kept()}."
        )

    def changed_code(self, round: int, *, with_method: bool) -> list[str]:
        """What differs here from the code that made the session, with the files of the method after round t."""
        files = metadata.method_files(self.session, self.history_to(round)) if with_method else {}
        return changed_code(self.session.document["environment"], files)

    def _refuse_inexact(self, nearest: int, at_round: int, allow_inexact: bool) -> None:
        first = nearest + 1
        begins = [
            first,
            *(each["from_round"] for each in self.history if first < each["from_round"] <= at_round),
        ]
        every = (
            metadata.changes(self.session, self.config, self.built, self.history_to(round))
            for round in begins
        )
        changes = list(dict.fromkeys(each for found in every for each in found))
        if changes and not allow_inexact:
            raise SessionError(
                f"{self.session.folder}: rounds run again here would not be bit-identical ({'; '.join(changes)}). "
                f"Add `allow_inexact=True`, or fork at a round whose checkpoint is kept: {self._kept()}."
            )

    def _compare(self, state: State, allow_inexact: bool) -> None:
        """A round run again must have given what the parent's ledger says."""
        then, now = self.records[state.round - 1], state.record
        assert now is not None
        if "cross_entropy" not in then["loss"]:  # an earlier version did not write it
            loss = now["loss"].copy()
            loss.pop("cross_entropy", None)
            now = {**now, "loss": loss}
        if not allow_inexact and _result(then) != _result(now):
            raise SessionError(
                f"{self.session.folder}: round {state.round}, run again, gave other results than its ledger has. "
                f"Add `allow_inexact=True`, or fork at a round whose checkpoint is kept: {self._kept()}."
            )


def _under(session: CheckedReader, config: Config, entries: Sequence[Entry]) -> Config:
    return metadata.read_config(session, settings_in_force({"config": config.to_json()}, entries))


def _result(record: Record) -> dict[str, Any]:
    """The record without its clock, what watchers noticed, and CKA, which an operator may have asked for once."""
    return {key: value for key, value in record.items() if key not in ("timing", "cka", "watch")}


MAY_CHANGE = (*SETTINGS, "seed")


@dataclass(frozen=True)
class Fork:
    """What came of a fork: its settings, how many rounds had to be run again, what changed and what was taken over."""

    config: Config
    round: int
    replayed: int
    changes: tuple[str, ...]
    adopted: str | None
    parent_changed: int | None
    """The round after which its parent's settings changed, which the fork does not take over; None: they did not."""
    warnings: tuple[str, ...]
    """What cannot be known of its parent, as sentences."""


def fork(
    parent: Path,
    folder: Path,
    data_dir: Path,
    at_round: int,
    *,
    method: str | None = None,
    assignments: Sequence[str] = (),
    workers: int | None = None,
    device: str | None = None,
    allow_inexact: bool = False,
    observe: Observer = unobserved,
) -> Fork:
    """Make in `folder` a session that goes on from a round of `parent`, which is only read and may be live.

    Code and results must be the parent's, unless `allow_inexact`. `assignments` may change the seed of what follows:
    the partition stays. Raises SessionUnreadable when the parent is damaged, or the name was taken meanwhile;
    ConfigError for what cannot be, SessionError when data, plugin or environment do not give the parent's results.
    """
    metadata.refuse_taken(folder)
    source = Source.read(parent, at_round, {"workers": workers, "device": device}, data_dir)
    before = source.config_after(at_round)
    config = changed_settings(before, method, assignments, MAY_CHANGE)
    if config.data_seed != before.data_seed:
        if config.seeds.data is not None:
            raise ConfigError(
                "'seed.data' cannot change in a fork, which keeps its parent's data. "
                "Leave it out, or use seed.training."
            )
        # Written out, it stays when the run's seed changes.
        config = config.with_(seed__data=before.data_seed)
    if config.rounds <= at_round:
        raise ConfigError(f"Round {at_round} would be the fork's last. Add rounds: `rounds={at_round + 10}`.")
    if at_round and (goal := reached(config, source.records[at_round - 1])):
        raise ConfigError(
            f"The fork would end at once after round {at_round}: {goal[0]}. Add `{goal[1]}` to run all rounds."
        )
    changes = tuple(differences(before, config))
    replaced = config.method.name != before.method.name
    differs = source.changed_code(at_round, with_method=not replaced)
    if differs and not allow_inexact:
        raise SessionError(
            f"{parent}: its fork would continue it with other code ({'; '.join(differs)}). "
            f"{metadata.go_back(source.session, differs)}, or use `allow_inexact=True`; the fork will record it."
        )
    said = unrecorded(source.session)
    warnings = (said,) if said else ()
    built = rebuild(source.built, before, source.begun_after(at_round), runs=False)
    # Refused now rather than after rounds have been run again.
    after = rebuild(built, config, at_round if replaced else None)
    if not at_round:
        after.engine.initial_state()  # what cannot begin is refused now rather than when the fork is run
    state, replayed = source.state_after(at_round, allow_inexact, observe)
    adopted, told = None, dict[str, Any]({"inexact": differs} if differs else {})
    if at_round and config.method != before.method:
        state = state or source.load(at_round, built, allow_inexact)
        waiting = len(state.in_flight)
        state, adopted = after.engine.take_over(state, built.method)
        if waiting:
            told["dropped_uplinks"] = waiting
    config = metadata.on_device(config, after)
    changed = next_change(source.history, source.session.events(), at_round)
    made = Fork(config, at_round, replayed, changes, adopted, changed, warnings)
    with checkpoints.in_private(folder) as private:
        _write(private, source, made, after, state, told)
    return made


def _write(
    folder: Path, source: Source, made: Fork, built: Built, state: State | None, told: Mapping[str, Any]
) -> None:
    parent, config, round = source.session, made.config, made.round
    about: Parent = {
        "id": parent.document["id"],
        "name": checkpoints.name_of(parent.folder.resolve()),
        "round": round,
    }
    ledger = checkpoints.ledger_text(source.records[: max(round - 1, 0)])
    kept = parent.manifest(round) if round and state is None else None
    flying = bool(state.in_flight if state is not None else kept and kept.in_flight)
    facts = metadata.of_new(config, built, parent=about, in_flight=flying)
    with Store.create(folder, facts, metadata.retention(config, about), ledger=ledger) as store:
        more = {**about, "changes": list(made.changes), "adopted": made.adopted, **told}
        store.event("forked", method=config.method.name, **more)
        for sentence in made.warnings:
            store.warn(sentence, round=round)
        if round == 0:
            return
        history = [entry.copy() for entry in source.history_to(round)]
        if made.changes:
            change: Change = {
                "before": history[-1]["method"]["name"],
                "changes": list(made.changes),
                "adopted": made.adopted,
                "plugin": facts["plugin"],
                "files": facts["files"],
                "method_files": facts["method_files"],
            }
            history.append(history_entry(config, round + 1, change))
        if state is None:
            assert kept is not None
            for ref, name in {ref: name for name, ref in kept.states.items()}.items():
                try:
                    store.import_object(parent.folder, ref)
                except Damaged:
                    parent.check(kept, name, thorough=True)  # says more: the state, and the way back
                    raise
            refs, initial, note = dict(kept.states), kept.initial, kept.in_flight
        else:
            refs, flying_refs, initial, note = Commits(store, round).put(state)
            refs |= flying_refs
        store.commit(round, refs, source.records[round - 1], history, [], initial, note)
