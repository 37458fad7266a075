"""Branching a session: a new one that goes on from any round of its parent, with which it shares what it can."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Damaged, ObjectRef, Store
from simulator.base.documents import Change, Dispatched, Initial, Parent
from simulator.base.errors import ConfigError, SessionError
from simulator.config import Config
from simulator.engine.builder import Built, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import Observer, unobserved
from simulator.sessions import committing, metadata
from simulator.sessions.history import (
    SETTINGS,
    changed_settings,
    differences,
    history_entry,
    next_change,
    reached,
)
from simulator.sessions.reader import CheckedReader, Manifest, unrecorded
from simulator.sessions.replay import Source

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

    The code must be that which made the parent, unless `allow_inexact`. A round without a checkpoint is computed again
    from the nearest earlier one; the results must be the parent's, unless `allow_inexact`. `assignments` may change the
    seed of what follows: the partition stays the parent's.

    It is made in a folder of its own and gets its name at the end. Raises SessionUnreadable when the parent is damaged
    or has no such round, and when another program took the name meanwhile; ConfigError for what cannot change,
    SessionError when data, plugin or environment do not give the parent's results.
    """
    metadata.refuse_taken(folder)
    source = Source.read(parent, at_round, {"workers": workers, "device": device}, data_dir)
    before = source.config_after(at_round)
    config = changed_settings(before, method, assignments, MAY_CHANGE)
    if config.data_seed != before.data_seed:
        config = _with_partition_of(before, config)
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
    after = rebuild(
        built, config, at_round if replaced else None
    )  # refused now rather than after rounds have been run again
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
    with checkpoints.in_private(folder) as private:
        _write(private, source, at_round, config, after, state, changes, adopted, told, warnings)
    changed = next_change(source.history, source.session.events(), at_round)
    return Fork(config, at_round, replayed, changes, adopted, changed, warnings)


def _write(
    folder: Path,
    source: Source,
    round: int,
    config: Config,
    built: Built,
    state: State | None,
    changes: Sequence[str],
    adopted: str | None,
    told: Mapping[str, Any],
    warnings: Sequence[str],
) -> None:
    parent = source.session
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
        more = {**about, "changes": list(changes), "adopted": adopted, **told}
        store.event("forked", method=config.method.name, **more)
        for sentence in warnings:
            store.warn(sentence, round=round)
        if round == 0:
            return
        history = source.history_to(round)
        if changes:
            change: Change = {
                "before": history[-1]["method"]["name"],
                "changes": list(changes),
                "adopted": adopted,
                "plugin": facts["plugin"],
                "files": facts["files"],
                "method_files": facts["method_files"],
            }
            history.append(history_entry(config, round + 1, change))
        if state is None:
            assert kept is not None
            _share(store, parent, kept)
            refs, initial, note = dict(kept.states), kept.initial, kept.in_flight
        else:
            refs, initial, note = _put(store, state)
        store.commit(round, refs, source.records[round - 1], history, [], initial, note)


def _put(
    store: Store, state: State
) -> tuple[dict[str, ObjectRef], Initial | None, dict[str, Dispatched] | None]:
    """New objects of the state, what clients without one begin with, and the note of uplinks in flight."""
    refs = committing.put(store, state)
    left_out = committing.left_out(state, refs)
    flying, note = committing.put_in_flight(store, state)
    return {**refs, **flying}, committing.recorded(state.clients.beginning) if left_out else None, note


def _share(store: Store, parent: CheckedReader, manifest: Manifest) -> None:
    """Take the objects of the parent's checkpoint as they are."""
    for ref, name in {ref: name for name, ref in manifest.states.items()}.items():
        try:
            store.import_object(parent.folder, ref)
        except Damaged:
            parent.check(manifest, name, thorough=True)  # says more: the state, and the way back
            raise


def _with_partition_of(before: Config, config: Config) -> Config:
    """The settings with the partition's seed written out: it stays when the run's seed changes."""
    if config.seeds.data is not None:
        raise ConfigError(
            "'seed.data' cannot change in a fork, which keeps its parent's data. Leave it out, or use seed.training."
        )
    return config.with_(seed__data=before.data_seed)
