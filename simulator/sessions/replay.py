"""The states of a session's rounds: from a kept checkpoint, or by running rounds again from the nearest before.

What is run again must give what the ledger says. The session is only read, and may be live.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
from simulator.base.documents import Entry
from simulator.base.environment import changed_code
from simulator.base.errors import ConfigError, SessionError
from simulator.base.nested import Raw
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import Built, build, rebuild
from simulator.engine.client_states import State
from simulator.engine.progress import Observer
from simulator.sessions import metadata, states
from simulator.sessions.committing import with_finite_record
from simulator.sessions.history import begun_after, entries_to, settings_in_force
from simulator.sessions.reader import CheckedReader, parent_folder


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
        """The session, its data and its models; `runtime` is laid over its own. Raises ConfigError for no such round,
        and like `builder.build` and `metadata.check_data`."""
        session = CheckedReader(folder)
        records = session.records()
        if not 0 <= at_round <= len(records):
            has = f"rounds 0 to {len(records)}" if records else "no finished round yet: fork it at 0"
            raise ConfigError(f"{folder} has no round {at_round}; it has {has}.")
        given = {key: value for key, value in runtime.items() if value is not None}
        config, history = metadata.current(session, {"runtime": given}, at_round)
        built = build(config, data_dir, runs=False)
        metadata.check_data(session, config, built.data)
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
        nearest = kept[-1] if kept else 0
        self._refuse_inexact(nearest, at_round, allow_inexact)
        if not kept and self.session.document["parent"]:
            raise SessionError(
                f"{self.session.folder} keeps no checkpoint up to round {at_round}. {self._otherwise(at_round)}"
            )
        built = rebuild(self.built, self.config_after(nearest), self.begun_after(nearest))
        state = self.load(nearest, built, allow_inexact)
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
        return [entry.copy() for entry in self._entries_to(round)]

    def _entries_to(self, round: int) -> list[Entry]:
        entries = entries_to(self.history, round)
        return entries if round else entries[:1]

    def _switches_at(self, round: int) -> list[Entry]:
        return [entry for entry in self.history[1:] if entry["from_round"] == round]

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
        files = metadata.method_files(self.session, self._entries_to(round)) if with_method else {}
        return changed_code(self.session.document["environment"], files)

    def _refuse_inexact(self, nearest: int, at_round: int, allow_inexact: bool) -> None:
        first = nearest + 1
        begins = [
            first,
            *(each["from_round"] for each in self.history if first < each["from_round"] <= at_round),
        ]
        every = (
            metadata.changes(self.session, self.config, self.built, self._entries_to(round))
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
        if not allow_inexact and _result(then) != _result(_told_as(then, now)):
            raise SessionError(
                f"{self.session.folder}: round {state.round}, run again, gave other results than its ledger has. "
                f"Add `allow_inexact=True`, or fork at a round whose checkpoint is kept: {self._kept()}."
            )


def _under(session: CheckedReader, config: Config, entries: Sequence[Entry]) -> Config:
    return metadata.read_config(session, settings_in_force({"config": config.to_json()}, entries))


def _told_as(then: Record, now: Record) -> Record:
    """A record without what an earlier version did not write."""
    loss = now["loss"].copy()
    if "cross_entropy" not in then["loss"]:
        loss.pop("cross_entropy", None)
    return {**now, "loss": loss}


def _result(record: Record) -> dict[str, Any]:
    """The record without its clock, what watchers noticed, and CKA, which an operator may have asked for once."""
    return {key: value for key, value in record.items() if key not in ("timing", "cka", "watch")}
