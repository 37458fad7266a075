"""Which sessions of a folder have the same clients as a session, under a baseline method.

    partners = Partners().find(run, folder)   # of standalone, the best first
    partners[0].folder

A partner is a session of the baseline with the same data and first weights, or a fork of the session that continues
with the baseline: a shadow. So client 3 of one and client 3 of the other are the same client.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, Stamp
from simulator.base.documents import Entry
from simulator.results.analysis.axes import Key, seeds_of
from simulator.results.analysis.gain import BASELINE, same_clients, training_settings
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.well_formed import well_formed
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader

SHADOW = "shadow"
"""The tag of a fork that was made to be compared with its parent, whatever its method is."""


@dataclass(frozen=True)
class Partner:
    """A session with the same clients. shared: the last round that it has in common with the other, 0 for none.

    rounds: its last kept checkpoint. alike: whether it has the other's training seed and settings.
    """

    folder: Path
    method: str
    shared: int
    rounds: int
    alike: bool
    created: str

    @property
    def name(self) -> str:
        return checkpoints.name_of(self.folder)


@dataclass(frozen=True, eq=False)
class Pair:
    """A session and a partner, as both are now. others: the partner's rivals, the best first."""

    folder: Path
    """The session's."""
    partner: Partner
    other: SessionData
    """The partner's rounds."""
    others: tuple[Partner, ...] = ()


@dataclass(frozen=True, eq=False)
class _Candidate:
    """What is known of a session that may be a partner."""

    run: SessionData
    clients: Key
    """Equal in sessions with the same clients."""
    training: Key
    rounds: int
    methods: tuple[tuple[int, str], ...]
    tags: tuple[str, ...]


class Partners:
    """Finds the partners of one session after another. It reads again only what has changed since it last looked."""

    def __init__(self) -> None:
        self._wanted: tuple[str, ...] = ()
        self._passed: dict[Path, tuple[tuple[Stamp, ...], bool]] = {}
        """By session, whether its session.json names what a partner's names."""
        self._known: dict[Path, tuple[tuple[Stamp, ...], _Candidate | None]] = {}

    def find(self, run: SessionData, folder: Path, baseline: str = BASELINE) -> tuple[Partner, ...]:
        """The partners of a session among those of a folder and its studies: the best first.

        Those with the same training seed and settings come first, then those that can be compared over most rounds,
        then the newest. Forks that were made as shadows with another method come last.
        """
        if not run.document.get("id"):
            return ()
        id, fingerprint = run.document["id"], run.document.get("data_fingerprint", "")
        if self._wanted != (wanted := (id, fingerprint, baseline)):
            self._wanted, self._passed = wanted, {}
        clients, training, found = same_clients(run), _training(run), list[tuple[Key, Partner]]()
        for path in _sessions(folder):
            if not self._passes(path, fingerprint, (baseline, id)):
                continue
            other = self._read(path)
            if other is None or other.run.document["id"] == id or other.clients != clients:
                continue
            if (shared := _shared(run, other, baseline)) is None:
                continue
            method = other.methods[-1][1]
            alike = other.training == training
            created = str(other.run.document.get("created", ""))
            partner = Partner(path, method, shared, other.rounds, alike, created)
            compared = min(other.rounds, run.round) - shared
            found.append(((method == baseline, alike, compared, created), partner))
        return tuple(partner for _, partner in sorted(found, key=lambda each: each[0], reverse=True))

    def _passes(self, path: Path, fingerprint: str, names: Sequence[str]) -> bool:
        """Whether a session may be a partner: it names the data, and the baseline or the session as its parent."""
        stamp = checkpoints.changed_stamp(path, "document")
        before = self._passed.get(path)
        if before is None or before[0] != stamp:
            found = checkpoints.mentions(path, fingerprint, any_of=[f'"{name}"' for name in names])
            before = self._passed[path] = stamp, found
        return before[1]

    def _read(self, path: Path) -> _Candidate | None:
        """A session that may be a partner; None if it cannot be read."""
        stamp = checkpoints.changed_stamp(path, "document", "checkpoints")
        before = self._known.get(path)
        if before is None or before[0] != stamp:
            before = self._known[path] = stamp, _candidate(path)
        return before[1]


def _sessions(folder: Path) -> list[Path]:
    with suppress(DiskError, OSError):
        return checkpoints.session_folders(folder)
    return []


def _candidate(path: Path) -> _Candidate | None:
    with suppress(SessionUnreadable, DiskError, OSError):
        session = CheckedReader(path)
        kept, newest = session.rounds(), session.newest()
        history: list[Entry] = newest.history if newest else []
        with well_formed(path):
            run = SessionData(
                path, document=session.document, config=settings_in_force(session.document, history)
            )
            first = str(session.document["config"]["method"]["name"])
            methods = [(entry["from_round"], str(entry["method"]["name"])) for entry in history]
        tags: tuple[str, ...] = ()
        with suppress(Damaged):
            tags = checkpoints.tags_of(path)
        return _Candidate(
            run, same_clients(run), _training(run), max(kept, default=0), tuple(methods or [(1, first)]), tags
        )
    return None


def _training(run: SessionData) -> Key:
    return seeds_of(run.config), *training_settings(run)


def _shared(run: SessionData, other: _Candidate, baseline: str) -> int | None:
    """The last round that both have in common, if `other` is a partner of `run`; None if it is not."""
    about, own = other.run.document.get("parent"), run.document.get("parent")
    shared, shadows = 0, False
    if about is not None and about["id"] == run.document["id"]:
        shared, shadows = about["round"], SHADOW in other.tags
    elif about is not None and own is not None and about["id"] == own["id"]:
        shared = min(about["round"], own["round"])
    theirs = _methods_after(other.methods, shared)
    wanted = theirs == {baseline} or (shadows and len(theirs) == 1)
    return shared if wanted and _methods_after(run.methods, shared) != theirs else None


def _methods_after(methods: Sequence[tuple[int, str]], round: int) -> set[str]:
    """The methods in force after a round."""
    before = [name for begins, name in methods if begins <= round + 1]
    return {*before[-1:], *(name for begins, name in methods if begins > round + 1)}
