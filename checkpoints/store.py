"""The owner's side of a session: create or open it, write states, commit rounds, and remove old checkpoints.

Opening inspects first, and changes nothing. Then it repairs, and checks before each change that it still owns it.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from checkpoints import directories, files, layout, ledger, limits, lock, manifests, objects
from checkpoints.directories import in_private, lay_out
from checkpoints.files import Damaged, DiskError, SessionUnreadable
from checkpoints.ledger import LedgerWriter, LineWriter, check_ledger, event_line
from checkpoints.mailbox import Command, Inbox, Outcome, reply
from checkpoints.manifests import (
    Kept,
    Manifest,
    Pruned,
    Retention,
    UnfinishedRound,
    UnfinishedRounds,
    kept_manifests,
)
from checkpoints.objects import ObjectWriter, TensorSpec
from checkpoints.reader import SessionReader
from checkpoints.schema import Json, ObjectRef, Prefix

if TYPE_CHECKING:
    from torch import Tensor

CheckOwner = Callable[[], None]
"""Raises when the session is no longer owned."""


class Store:
    """The one writer of a session. `put` and `heartbeat` may be called from any thread.

    After DiskError or Displaced it writes no more; the disk holds the last commit. Open the session again.
    """

    def __init__(
        self, folder: Path, owner: lock.Ownership, retention: Retention, ledger: bytes, inherited: int = 0
    ) -> None:
        """Use `create` or `open`. The session must be owned and whole, and `ledger` is its ledger."""
        self.folder = folder
        self.session = SessionReader(folder)
        self._warnings: list[str] = []
        self._owner = owner
        self._retention = retention
        kept = list(kept_manifests(folder))
        self._kept = Kept(retention, kept)
        self._committed = kept[-1].round if kept else -1
        self._round = inherited or self._committed
        self._objects = ObjectWriter(folder)
        self._unfinished = UnfinishedRounds(folder)
        self._inbox = Inbox(folder, self.warn, owner.check)
        self._ledger = LedgerWriter(folder, ledger)
        self._covered = 0 if not kept else kept[-1].ledger.bytes + len(kept[-1].line)
        self._events = LineWriter(folder, layout.EVENTS)
        self._guard = threading.RLock()
        self._state = "running"
        self._progress: Json = {}
        self._failed = False
        self._closed = False
        owner.keep_beating()

    @classmethod
    def create(
        cls, folder: Path, session: Mapping[str, Any], retention: Retention | None = None, ledger: bytes = b""
    ) -> "Store":
        """Make a session in a new or empty folder, and own it; `session` is for session.json, besides id and time.

        A fork begins with `ledger`, its parent's lines, and is half made until its first commit. Raises
        SessionUnreadable for a name that is taken, Damaged for an invalid ledger, and DiskError.
        """
        rounds = check_ledger(ledger)
        owner = None
        try:
            with in_private(folder) as private:
                owner = lay_out(private, session, ledger)
            owner.moved(folder)
            return cls(folder, owner, retention or Retention(), ledger, rounds)
        except BaseException:
            if owner is not None:
                owner.let_go()
            raise

    @classmethod
    def open(cls, folder: Path, *, retention: Retention | None = None, steal: bool = False) -> "Store":
        """Own an existing session, repaired after a crash; commands that its checkpoint has applied are answered.

        `steal`: its machine is dead. Raises SessionUnreadable, Locked, Damaged, UnsupportedVersion, or DiskError.
        """
        SessionReader(folder)
        owner = lock.Ownership.acquire(folder, steal=steal)
        try:
            found = _inspect(folder, owner.before)
            files.make_folder(folder, layout.TMP)
            owner.claim()
        except BaseException:
            owner.let_go()
            raise
        try:
            warnings = _repair(folder, found, owner.check)
            store = cls(folder, owner, retention or Retention(), found.ledger)
            with store._writing():
                for warning in warnings:
                    store.warn(warning)
                # Their effect is in the newest checkpoint, even if its owner did not answer them.
                applied = found.kept[-1].applied if found.kept else []
                store._inbox.settle(applied, store._committed)
        except BaseException:
            with suppress(DiskError, Damaged):
                owner.release("failed", clean=False)
            raise
        return store

    @property
    def round(self) -> int | None:
        """The newest round in the ledger or among the checkpoints; None before the first."""
        return self._round if self._round >= 0 else None

    @property
    def checkpoint_due(self) -> bool:
        """Whether the next round needs a checkpoint: the ledger after the last one has reached its maximum length."""
        return self._ledger.size - self._covered > limits.TAIL - limits.RECORD

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that owns the session; then every call to write raises Locked."""
        return self._owner.forked

    def put(self, tensors: Mapping[str, "Tensor"]) -> ObjectRef:
        """Write named tensors as an object, for a commit to refer to; raises DiskError."""
        self._refuse_ended()
        with self._failing():
            self._owner.check()
            return self._objects.put(tensors)

    def import_object(self, source: Path, ref: ObjectRef) -> None:
        """Put an object of another session, by a hard link where the system allows it. Raises Damaged or DiskError."""
        self._refuse_ended()
        try:
            objects.check(source, ref)
        except Damaged as error:
            raise Damaged(f"{source}: {error}") from error
        with self._failing():
            self._objects.take(source, ref)

    def commit(
        self,
        round: int,
        states: Mapping[str, ObjectRef],
        record: Mapping[str, Any] | None,
        history: Sequence[Mapping[str, Any]],
        applied: list[str],
        initial: Mapping[str, Any] | None = None,
        in_flight: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a round's checkpoint durable, then its ledger line, then retire what the policy does not keep.

        `states` names every state ("server", "client/3"), but for clients as they began, if `initial` says how that
        was. `record` is None only for round 0. `applied` are the ids of the commands applied so far. `in_flight` needs
        format 3. The last appended round may get its checkpoint afterwards. Raises DiskError, which leaves a whole
        checkpoint, this or the one before, and SessionUnreadable when another program wrote this round's manifest.
        """
        with self._writing():
            before = self._before(round, record)
            if in_flight is not None and self.session.document["format"] < layout.IN_FLIGHT:
                raise ValueError(f"only a session of format {layout.IN_FLIGHT} can hold uplinks in flight")
            self._check_states(states, layout.STATE if in_flight is None else layout.HELD)
            manifest = Manifest(round, history, dict(states), record, before, applied, initial, in_flight)
            raw = manifest.to_bytes()
            if record is not None and round > self._round:
                self._ledger.fitting(record)
            self._objects.sync()
            self._ledger.sync()
            self._link(manifest, raw)
            files.sync_folder(self.folder, layout.MANIFESTS)
            if record is not None and round > self._round:
                self._owner.check()
                self._ledger.add(record, durable=True)
            self._round = self._committed = round
            self._covered = self._ledger.size
            self._kept.add(manifest)
            self._objects.committed(states.values())
            self._owner.check()
            self._discard(self._unfinished.drop(round))
            self._retire(self._kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add the ledger line of a round that gets no checkpoint; a crash may lose both."""
        with self._writing():
            round = record.get("round")
            if type(round) is not int:
                raise ValueError("a record says its round")
            self._check_round(round, record)
            self._ledger.add(record, durable=False)
            self._round = round

    def save_unfinished_round(
        self, round: int, note: Mapping[str, Any], states: Mapping[str, ObjectRef]
    ) -> None:
        """Save the finished part of the next round durably until its commit, in place of an earlier one.

        `states` names objects ("client/3/state", "client/3/uplink"); `note` is the caller's. Raises DiskError.
        """
        with self._writing():
            if round != max(self._round, 0) + 1:
                raise ValueError(f"round {round} is not the one after round {max(self._round, 0)}")
            self._check_states(states, layout.PART)
            self._objects.sync()
            self._owner.check()
            unnamed = self._unfinished.save(UnfinishedRound(round, note, dict(states)))
            self._objects.committed(states.values())
            self._discard(unnamed)

    def unfinished_round(self) -> UnfinishedRound | None:
        """The saved part of the next round, checked when the session was opened; None if there is none."""
        return self._unfinished.get(max(self._round, 0) + 1)

    def load_unfinished(
        self, unfinished: UnfinishedRound, name: str, expected: Mapping[str, TensorSpec] | None = None
    ) -> dict[str, "Tensor"]:
        """The tensors of one of its objects, as `expected`. Raises SessionUnreadable (no such name), Damaged."""
        if name not in unfinished.states:
            raise SessionUnreadable(
                f"{self.folder}: the unfinished round {unfinished.round} holds no {name}."
            )
        try:
            return objects.get(self.folder, unfinished.states[name], expected)
        except Damaged as error:
            raise Damaged(f"{self.folder}, unfinished round {unfinished.round}, {name}: {error}") from error

    def commands(self) -> list[Command]:
        """The new commands, in order of id. Invalid ones are refused with a warning. Raises DiskError."""
        with self._writing():
            return self._inbox.new()

    def answer(self, command: Command, outcome: Outcome, message: str = "", round: int | None = None) -> None:
        """Write the outcome of a command durably, and its round. `commands` does not return it again."""
        with self._writing():
            self._inbox.answer(reply(command, outcome, message, round))

    def event(self, kind: str, **fields: Any) -> None:
        """Add an operator event ("started", "paused", "switched", "warning" …)."""
        with self._writing():
            self._events.append(event_line(kind, fields), durable=True)

    def tag(
        self, add: Iterable[str], remove: Iterable[str] = (), note: str | None = None
    ) -> directories.Marks:
        """Change the session's tags and note, and return all of them. Raises ValueError for an invalid tag or note."""
        with self._writing():
            return directories.change_marks(self.folder, add, remove, self._owner.check, note)

    def warn(self, message: str, **about: Any) -> None:
        """Add a `warning` event, and keep the sentence for `take_warnings`."""
        with self._writing():
            self._warnings.append(message)
            self.event("warning", **about, message=message)

    def take_warnings(self) -> list[str]:
        """The warnings since the last call, and at first those of opening: sentences that are events too."""
        with self._guard:
            taken, self._warnings = self._warnings, []
            return taken

    def heartbeat(self, state: str | None = None, **progress: Any) -> None:
        """Write the progress for other processes: at most twice a second, but a new `state` at once."""
        with self._writing():
            self._state = state or self._state
            self._progress = progress
            self._owner.beat(self._state, **self._facts())

    def prune(self, retention: Retention) -> Pruned:
        """Remove the checkpoints `retention` does not keep, and the objects only they need."""
        with self._writing():
            pruned = self._retire(Kept(retention, kept_manifests(self.folder)))
            self._kept = Kept(self._retention, kept_manifests(self.folder))
            return pruned

    def close(self, state: str = "stopped") -> None:
        """Release the session; `state` is its state from now on ("stopped", "finished")."""
        if self.forked:
            return
        with self._guard:
            if self._closed:
                return
            self._closed = True
            try:
                if not self._failed:
                    with self._failing():
                        self._ledger.sync()
            finally:
                clean = not self._failed
                listed = self._kept.rounds()[-limits.ROUNDS_LISTED :]
                last = {"events": asdict(self._events.prefix), "checkpoints": listed}
                with suppress(*(() if clean else (DiskError, Damaged))):
                    self._owner.release(
                        state if clean else "failed", clean=clean, **self._facts(), **(last if clean else {})
                    )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close("stopped" if kind is None else "failed")

    def _facts(self) -> Json:
        return {"progress": self._progress, "ledger": asdict(self._ledger.prefix)}

    def _link(self, manifest: Manifest, raw: bytes) -> None:
        """Give a manifest its name, as long as this process owns the session and nobody else has written in it."""
        newest = self._committed

        def check() -> None:
            self._owner.check()
            self._ledger.check()
            if any(round > newest and round != manifest.round for round in manifests.rounds(self.folder)):
                raise FileExistsError

        try:
            files.link_new(self.folder, manifests.path(manifest.round), raw, check)
        except FileExistsError:
            raise SessionUnreadable(
                f"{self.folder}: round {manifest.round} was written by another program. Stop it, then resume."
            ) from None

    def _retire(self, kept: Kept) -> Pruned:
        """Manifests go before objects: at no instant does a manifest lack an object."""
        rounds = kept.surplus()
        if not rounds:
            return Pruned([], 0)
        unused: list[ObjectRef] = []
        for round in rounds:
            self._owner.check()
            files.remove(self.folder, manifests.path(round))
            unused += kept.drop(round)
        files.sync_folder(self.folder, layout.MANIFESTS)
        unused = [ref for ref in unused if ref not in self._unfinished]
        self._objects.discard(unused, self._owner.check)
        return Pruned(rounds, sum(ref.size for ref in unused))

    def _discard(self, unnamed: list[ObjectRef]) -> None:
        """Remove objects that an unfinished round no longer names, unless a checkpoint names them."""
        self._objects.discard((ref for ref in unnamed if ref not in self._kept), self._owner.check)

    def _before(self, round: int, record: Mapping[str, Any] | None) -> Prefix:
        """The ledger before a round's line, whether that is still to be written or is there already."""
        if record is not None and round == self._round > self._committed:
            return self._ledger.before_last(record)
        self._check_round(round, record)
        return self._ledger.prefix

    def _check_round(self, round: int, record: Mapping[str, Any] | None) -> None:
        if round <= self._round:
            raise ValueError(f"round {round} comes after round {self._round}, which is written already")
        if (record is None) != (round == 0) or (record is not None and record.get("round") != round):
            raise ValueError(f"round {round} needs its own record, and round 0 has none")

    def _check_states(self, states: Mapping[str, ObjectRef], names: re.Pattern[str]) -> None:
        for name, ref in states.items():
            if not names.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a state: server, client/0, client/1 …")
            if not (ref in self._kept or ref in self._unfinished or self._objects.is_pending(ref)):
                raise ValueError(f"the object of {name} was not put into this session")

    def _refuse_ended(self) -> None:
        self._owner.refuse_fork()
        if self._closed or self._failed:
            raise SessionUnreadable(
                f"{self.folder} was closed{' after a failure' if self._failed else ''}; open it again."
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._owner.refuse_fork()
        with self._guard:
            self._refuse_ended()
            with self._failing():
                self._owner.check()
                yield

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except ValueError:
            raise  # refused before anything was written
        except BaseException as error:
            self._failed = True
            if isinstance(error, DiskError | SessionUnreadable):
                # Whoever took the session over may have swept, cut or written what was in hand here.
                with suppress(DiskError, Damaged):
                    self._owner.check()
            if isinstance(error, Damaged):
                raise Damaged(f"{self.folder}: {error} Remove it, then resume.") from error
            raise


# Opening


@dataclass(frozen=True)
class _Found:
    """A session as it was found: its checkpoints, strays from another course of rounds, its ledger, and the rest."""

    kept: list[Manifest]
    strays: list[Manifest]
    raw: bytes
    ledger: bytes
    tail: bytes
    torn: int | None
    """The number of bytes of an incomplete line at the end of the events; None if there is no file of events."""
    warnings: list[str]

    @property
    def newest(self) -> int:
        return self.kept[-1].round if self.kept else 0


def _inspect(folder: Path, left: Json | None) -> _Found:
    """Read a session whose lock is held, and change nothing; `left` is its last owner's note. Raises Damaged."""
    # No link, and no other thing, may stand where the store's folders are, at any level.
    inside = filter(layout.is_object_folder, files.listed(folder, layout.OBJECTS))
    for name in (*layout.FOLDERS, *(f"{layout.OBJECTS}/{each}" for each in inside)):
        there = files.look(folder, name)
        if there is not None and not files.is_folder(there):
            raise Damaged(f"{folder}: {name} is not a folder; links are not followed. Remove it.")
    session = SessionReader(folder)
    rounds = session.rounds()
    missing = ledger.missing_checkpoints(folder, rounds, left)
    if ledger.is_newest_missing(rounds, missing):
        raise Damaged(f"{folder}: {ledger.explained(folder, rounds, missing)}")
    kept = [session.manifest(round) for round in rounds]
    if not kept and isinstance(session.parent, dict) and session.parent.get("round"):
        raise SessionUnreadable(
            f"{folder} is a fork that was interrupted while it was made. Remove it, then fork again: "
            f"`htfl-sim rm {layout.typed(folder)}`."
        )
    try:
        raw, text, tail, strays = _course(folder, kept)
        torn = ledger.torn_events(folder) if files.look(folder, layout.EVENTS) is not None else None
        lost = ledger.lost_events(folder, left) if torn == 0 else None
    except Damaged as error:
        raise Damaged(f"{folder}: {error} Restore it from a backup.") from error
    kept = [manifest for manifest in kept if manifest not in strays]
    if kept:
        # After a crash the newest checkpoint is read in full: a flush may have failed unseen.
        for name in kept[-1].states:
            session.check(kept[-1], name, thorough=not lock.is_closed(left))
    amiss = [f"T{ledger.explained(folder, rounds, missing)[1:]}"] if missing else []
    return _Found(kept, strays, raw, text, tail, torn, [*amiss, *([lost] if lost else [])])


def _repair(folder: Path, found: _Found, check_owner: CheckOwner) -> list[str]:
    """Repair an owned session. Returns the faults as sentences."""
    for name in layout.FOLDERS:
        check_owner()
        files.make_folder(folder, name)
    mended = [*found.warnings, *_repair_ledger(folder, found, check_owner)]
    if found.torn is None:
        check_owner()
        files.replace(folder, layout.EVENTS, b"")
        mended.append(f"{layout.EVENTS} was gone; it begins anew.")
    elif found.torn:
        check_owner()
        files.cut(folder, layout.EVENTS, found.torn)
        mended.append(f"{layout.EVENTS} was torn; its whole lines were kept.")
    for stray in found.strays:
        check_owner()
        files.remove(folder, manifests.path(stray.round))
        mended.append(
            f"{manifests.path(stray.round)} is not of this session's course: an owner wrote it after it had been "
            "displaced. It was removed."
        )
    usable, lost = _unfinished(folder, found.newest, check_owner)
    _remove_leftovers(folder, found.kept, usable, check_owner)
    return mended + lost


def _course(folder: Path, kept: list[Manifest]) -> tuple[bytes, bytes, bytes, list[Manifest]]:
    """The ledger as it is, its part that checkpoints vouch for, the rest; and which checkpoints are not of it.

    The newest is not of it if no event tells of it and its ledger is not there: a displaced owner left it behind.
    """
    raw = ledger.read(folder, kept[-1] if kept else None)
    course = kept
    try:
        text, tail = ledger.recover(raw, kept)
    except Damaged:
        told = ledger.last_checkpoint(folder)
        if len(kept) < 2 or told is None or told > kept[-2].round:
            raise
        course = kept[:-1]
        text, tail = ledger.recover(raw, course)
    strays = [manifest for manifest in kept if manifest not in course or not ledger.belongs(text, manifest)]
    return raw, text, tail, strays


def _repair_ledger(folder: Path, found: _Found, check_owner: CheckOwner) -> Iterator[str]:
    if found.ledger == found.raw and files.look(folder, layout.LEDGER) is not None:
        return
    check_owner()
    files.replace(folder, layout.LEDGER, found.ledger)
    files.sync_folder(folder)
    if is_rebuilt := found.raw[: len(found.ledger)] != found.ledger:
        yield f"{layout.LEDGER} was torn or altered; it was rebuilt from the checkpoints."
    if lost := ledger.whole(found.tail):
        rounds = " to ".join(str(record.get("round")) for _, record in (lost[0], lost[-1])[: len(lost)])
        yield f"The ledger went beyond the last checkpoint; computed again: round {rounds}."
    elif found.tail and not is_rebuilt:  # else these bytes may be those of an altered line
        yield f"{layout.LEDGER} had a torn line after the last checkpoint; it was cut off."


def _unfinished(
    folder: Path, newest: int, check_owner: CheckOwner
) -> tuple[list[UnfinishedRound], list[str]]:
    """The unfinished round after the newest checkpoint's, if it is whole; all others are removed."""
    usable, lost = [], []
    for round in manifests.rounds(folder, layout.PARTIAL):
        try:
            found = manifests.read_unfinished(folder, round)
            if round == newest + 1:
                for ref in found.states.values():
                    objects.check(folder, ref)
                usable.append(found)
                continue
            reason = f"{manifests.path(round, layout.PARTIAL)} does not follow round {newest}, the newest checkpoint's"
        except Damaged as error:
            reason = str(error).removesuffix(".")
        _remove(folder, manifests.path(round, layout.PARTIAL), check_owner)
        if round > newest:  # else the round was finished, and only this was left to do
            lost.append(f"{reason}; the finished clients of round {round} are computed again.")
    return usable, lost


def _remove_leftovers(
    folder: Path, kept: list[Manifest], usable: list[UnfinishedRound], check_owner: CheckOwner
) -> None:
    """Remove what belongs to no commit. Objects stay if no manifest is left, since they may be needed."""
    for name in files.names(folder, layout.TMP):
        _remove(folder, f"{layout.TMP}/{name}", check_owner)
    named: list[Manifest | UnfinishedRound] = [*kept, *usable]
    used = {ref.sha256 for each in named for ref in each.states.values()}
    for ref in objects.present(folder) if kept else ():
        if ref.sha256 not in used:
            check_owner()
            files.remove(folder, ref.name)


def _remove(folder: Path, name: str, check_owner: CheckOwner) -> None:
    if files.is_folder(files.look(folder, name)):
        raise SessionUnreadable(f"{folder / name} is a folder the store did not make. Move it away.")
    check_owner()
    files.remove(folder, name)


def prune(folder: Path, retention: Retention, *, dry_run: bool = False, steal: bool = False) -> Pruned:
    """Remove the checkpoints of a stopped session that `retention` does not keep, or only say which."""
    if dry_run:
        unfinished = SessionReader(folder).unfinished_round()
        needed = set(unfinished.states.values()) if unfinished else set()
        kept = Kept(retention, kept_manifests(folder))
        rounds = kept.surplus()
        return Pruned(
            rounds, sum(ref.size for round in rounds for ref in kept.drop(round) if ref not in needed)
        )
    before = lock.legible_note(folder)
    with Store.open(folder, retention=Retention(last=1 << 62), steal=steal) as store:
        pruned = store.prune(retention)
        store.close(str(before["state"]) if before is not None and lock.is_closed(before) else "stopped")
    return pruned
