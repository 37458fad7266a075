"""Branching a session: a new one that goes on from any round of its parent, with which it shares what it can."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Manifest, ObjectRef, Store
from simulator.builder import Built, build, rebuild
from simulator.config import Config
from simulator.engine import State
from simulator.errors import ConfigError, SessionError
from simulator.nested import Raw
from simulator.progress import Observer, unobserved
from simulator.sessions import metadata, states
from simulator.sessions.environment import environment, inexact
from simulator.sessions.goal import reached
from simulator.sessions.history import (
    SETTINGS,
    begun_after,
    changed_settings,
    differences,
    history_entry,
    settings_in_force,
)
from simulator.sessions.reader import SessionReader
from simulator.sessions.records import with_finite_record

MAY_CHANGE = (*SETTINGS, "seed")


@dataclass(frozen=True)
class Fork:
    """What came of a fork: its settings, how many rounds had to be run again, what changed and what was taken over."""

    config: Config
    round: int
    replayed: int
    changes: tuple[str, ...]
    adopted: str | None


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

    A round without a checkpoint is computed again from the nearest earlier one; the results must be the parent's,
    unless `allow_inexact`. `assignments` may change the seed of what follows: the partition stays the parent's.

    It is made in a folder of its own and gets its name at the end. Raises SessionUnreadable when the parent is damaged
    or has no such round, and when another program took the name meanwhile; ConfigError for what cannot change,
    SessionError when data, plugin or environment do not give the parent's results.
    """
    if not checkpoints.is_free(folder):
        checkpoints.refuse_remains(folder)
        raise ConfigError(f"{folder} exists already; choose another name with --session.")
    source = _Source.read(parent, at_round, {"workers": workers, "device": device}, data_dir)
    before = source.config_after(at_round)
    config = changed_settings(before, method, assignments, MAY_CHANGE)
    if config.seed != before.seed:
        config = _with_partition_of(before, config)
    if config.rounds <= at_round:
        raise ConfigError(
            f"round {at_round} would be the fork's last; ask for more, as --rounds {at_round + 10}."
        )
    if at_round and reached(config, source.records[at_round - 1]["accuracy"]["mean"]):
        raise ConfigError(
            f"the fork would end at once: round {at_round} has reached until = {config.until:g}; "
            "add --set until=0, which runs all rounds."
        )
    changes = tuple(differences(before, config))
    built = rebuild(source.built, before, source.begun_after(at_round))
    replaced = config.method.name != before.method.name
    after = rebuild(
        built, config, at_round if replaced else None
    )  # refused now rather than after rounds have been run again
    state, replayed = source.state_after(at_round, allow_inexact, observe)
    adopted = None
    if at_round and config.method != before.method:
        state = state or source.load(at_round, built)
        state, adopted = after.engine.take_over(state, built.method)
    config = metadata.on_device(config, after)
    with checkpoints.in_private(folder) as private:
        _write(private, source, at_round, config, after, state, changes, adopted)
    return Fork(config, at_round, replayed, changes, adopted)


@dataclass(frozen=True)
class _Source:
    """The parent, as far as a fork needs it."""

    session: SessionReader
    records: list[Raw]
    history: list[Raw]
    config: Config
    built: Built

    @classmethod
    def read(cls, parent: Path, at_round: int, runtime: Raw, data_dir: Path) -> "_Source":
        session = SessionReader(parent)
        records = session.records()
        if not 0 <= at_round <= len(records):
            has = f"rounds 0 to {len(records)}" if records else "no finished round yet: fork it at 0"
            raise ConfigError(f"{parent} has no round {at_round}; it has {has}.")
        given = {key: value for key, value in runtime.items() if value is not None}
        config, history = metadata.current(session, given)
        built = build(config, data_dir)
        metadata.check_data(session, config, built)
        return cls(session, records, history, config, built)

    def config_after(self, round: int) -> Config:
        """The settings that round t ended with."""
        return _under(self.session, self.config, self._entries_to(round))

    def begun_after(self, round: int) -> int:
        """The round after which the method that round t ended with began."""
        return begun_after(self._entries_to(round))

    def state_after(self, at_round: int, allow_inexact: bool, observe: Observer) -> tuple[State | None, int]:
        """The state after a round, and how many rounds were run for it; None if its checkpoint is kept as it is."""
        kept = [round for round in self.session.rounds() if round <= at_round]
        if at_round in (0, *kept[-1:]):
            return None, 0
        self._refuse_inexact(allow_inexact)
        nearest = kept[-1] if kept else 0
        if not kept and self.session.document["parent"]:
            raise SessionError(
                f"{self.session.folder} keeps no checkpoint up to round {at_round}; fork its parent."
            )
        built = rebuild(self.built, self.config_after(nearest), self.begun_after(nearest))
        state = self.load(nearest, built)
        for round in range(nearest + 1, at_round + 1):
            for entry in self._switches_at(
                round
            ):  # in turn: what one takes over, the next may take over from it
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

    def load(self, round: int, built: Built) -> State:
        """A checkpoint's state; before round 1, the initial one."""
        state = built.engine.initial_state()
        if round == 0:
            return state
        manifest = self.session.manifest(round)
        return states.restore(self.session, manifest, state, built.federation.device)

    def history_to(self, round: int) -> list[Raw]:
        """The history as it stood after a round."""
        return [dict(entry) for entry in self._entries_to(round)]

    def _entries_to(self, round: int) -> list[Raw]:
        entries = [entry for entry in self.history if entry["from_round"] <= max(round, 1)]
        return entries if round else entries[:1]

    def _switches_at(self, round: int) -> list[Raw]:
        return [entry for entry in self.history[1:] if entry["from_round"] == round]

    def _refuse_inexact(self, allow_inexact: bool) -> None:
        present = environment(self.built.federation.device, self.config.runtime.threads_per_client)
        changes = inexact(self.session.document["environment"], present)
        if changes and not allow_inexact:
            raise SessionError(
                f"{self.session.folder}: rounds run again here would not be bit-identical ({'; '.join(changes)}). "
                "Fork at a round whose checkpoint is kept, or use --allow-inexact."
            )

    def _compare(self, state: State, allow_inexact: bool) -> None:
        """A round run again must have given what the parent's ledger says."""
        then, now = self.records[state.round - 1], state.record
        assert now is not None
        if not allow_inexact and _result(then) != _result(now):
            raise SessionError(
                f"{self.session.folder}: round {state.round}, run again, gave other results than its ledger has. "
                "Fork at a round whose checkpoint is kept, or use --allow-inexact."
            )


def _write(
    folder: Path,
    source: _Source,
    round: int,
    config: Config,
    built: Built,
    state: State | None,
    changes: Sequence[str],
    adopted: str | None,
) -> None:
    parent = source.session
    about = {"id": parent.document["id"], "name": parent.folder.resolve().name, "round": round}
    ledger = checkpoints.ledger_text(source.records[: max(round - 1, 0)])
    facts = metadata.of_new(config, built, parent=about)
    with Store.create(folder, facts, metadata.retention(config, about), ledger=ledger) as store:
        store.event("forked", method=config.method.name, **about, changes=list(changes), adopted=adopted)
        if round == 0:
            return
        history = source.history_to(round)
        if changes:
            extra = {
                "changes": list(changes),
                "adopted": adopted,
                "plugin": facts["plugin"],
                "files": facts["files"],
            }
            history.append(history_entry(config, round + 1, before=history[-1]["method"]["name"], **extra))
        store.commit(round, _refs(store, parent, round, state), source.records[round - 1], history, [])


def _refs(store: Store, parent: SessionReader, round: int, state: State | None) -> dict[str, ObjectRef]:
    """The state's objects: the parent's where its checkpoint is taken as it is, else new ones."""
    if state is not None:
        return {name: store.put(tensors) for name, tensors in states.by_name(state).items()}
    manifest: Manifest = parent.manifest(round)
    for ref in set(manifest.states.values()):
        store.import_object(parent.folder, ref)
    return dict(manifest.states)


def _under(session: SessionReader, config: Config, entries: Sequence[Raw]) -> Config:
    return metadata.read_config(session, settings_in_force({"config": config.to_json()}, entries))


def _with_partition_of(before: Config, config: Config) -> Config:
    """The settings with the partition's seed written out: it stays when the run's seed changes."""
    raw = config.to_json()
    raw["data"]["seed"] = before.seed if before.data.seed is None else before.data.seed
    return Config.read(raw)


def _result(record: Raw) -> dict[str, Any]:
    """The record without its clock, and without CKA, which an operator may have asked for once."""
    return {key: value for key, value in record.items() if key not in ("timing", "cka")}
