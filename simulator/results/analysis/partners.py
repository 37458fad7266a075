"""Which sessions of a folder have the same clients as a session, under a baseline method.

A partner is a session of the baseline with the same data and first weights, or a fork of the session that continues
with the baseline: a shadow. So client 3 of one and client 3 of the other are the same client.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, Stamp
from simulator.base.documents import Entry
from simulator.base.units import points
from simulator.results.analysis.axes import Key, paired, seeds_of
from simulator.results.analysis.client_values import CELLS, Array
from simulator.results.analysis.gain import BASELINE, EQUAL, same_clients, training_settings
from simulator.results.analysis.ledger import well_formed
from simulator.results.analysis.run import SessionData, tested
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader


@dataclass(frozen=True)
class Worst:
    """The client with the lowest gain, 0…1. correct: its correct test samples under the session and the partner, and
    their number; None if it is not known.
    """

    client: int
    gain: float
    correct: tuple[int, int, int] | None


@dataclass(frozen=True)
class RoundGain:
    """A round of a session less the same round of its partner. mean: over the clients whose gains are known, 0…1."""

    round: int
    clients: int
    better: int
    worse: int
    mean: float
    worst: Worst


def common_rounds(run: SessionData, partner: SessionData, shared: int = 0) -> NDArray[np.int_]:
    """[k] the rounds, from 1, that both have evaluated, without those that are the same ones in both."""
    both = np.intersect1d(run.curves.evaluated, partner.curves.evaluated)
    return both[both > shared]


def client_gains(run: SessionData, partner: SessionData, round: int) -> Array:
    """[N] each client's gain after a round that both have; NaN where one of them has no accuracy."""
    return _settled(run.curves.accuracy.after(round) - partner.curves.accuracy.after(round))


def gain_after(run: SessionData, partner: SessionData, round: int) -> RoundGain | None:
    """The gains after a round; None where no client has any, or where the clients differ in number."""
    if not 1 <= round <= min(run.round, partner.round) or run.curves.clients != partner.curves.clients:
        return None
    gains = client_gains(run, partner, round)
    known = gains[np.isfinite(gains)]
    if not len(known):
        return None
    samples, correct = tested(run, round), None
    client = int(np.nanargmin(gains))
    if samples is not None:
        number = int(samples[client])
        own, other = (each.curves.accuracy.after(round)[client] for each in (run, partner))
        correct = int(np.rint(own * number)), int(np.rint(other * number)), number
    better, worse = int((known > 0).sum()), int((known < 0).sum())
    worst = Worst(client, float(gains[client]), correct)
    return RoundGain(round, len(known), better, worse, math.fsum(known) / len(known), worst)


def gains_of(
    run: SessionData, partner: SessionData, clients: Sequence[int], rounds: NDArray[np.int_]
) -> Array:
    """[k, c] the gains of some clients after some rounds that both have."""
    own, other = (each.curves.accuracy.select(clients)[rounds - 1] for each in (run, partner))
    return _settled(own - other)


def gains_by_round(
    run: SessionData, partner: SessionData, rounds: NDArray[np.int_], reduce: Callable[[Array], Array]
) -> Array:
    """[k, …] what `reduce` makes of the gains [b, N] of b of the rounds, which both have. The table stays small."""
    clients = np.arange(run.curves.clients)
    step = max(1, CELLS // max(1, len(clients)))
    pieces = []
    for row in range(0, int(rounds.max(initial=0)), step):
        chosen = rounds[(rounds > row) & (rounds <= row + step)] - 1 - row
        if len(chosen):
            own, other = (
                each.curves.accuracy.select(clients, row, row + step)[chosen] for each in (run, partner)
            )
            pieces.append(reduce(_settled(own - other)))
    return np.concatenate(pieces or [reduce(np.empty((0, 0)))])


def verdict(runs: Sequence[SessionData], others: Sequence[SessionData], round: int) -> str | None:
    """What is known of the mean accuracy of runs less that of others, after a round that all have; None: nothing.

    Runs are paired by seed. The test is Student's paired t at 5 %: over the seeds, or over a single pair's clients.
    A client loses if the mean of its differences over the pairs is below 0.
    """
    runs, others = ([each for each in side if each.round >= round] for side in (runs, others))
    by_seeds = {seeds_of(each.config): each for each in others}
    pairs = [(run, by_seeds[key]) for run in runs if (key := seeds_of(run.config)) in by_seeds]
    if not pairs and len(runs) == len(others) == 1:
        pairs = [(runs[0], others[0])]
    if not pairs:
        return None
    own, other = (
        {place: float(each.curves["accuracy"][round - 1]) for place, each in enumerate(side)}
        for side in zip(*pairs, strict=True)
    )
    found = paired(own, other)
    assert found is not None
    common = f" over {len(pairs)} common seed{'s' * (len(pairs) > 1)}"
    said = [f"{points(found.mean)} pp at round {round}{common * (len(pairs) < max(len(runs), len(others)))}"]
    if not all(same_clients(run) == same_clients(partner) for run, partner in pairs):
        return f"{said[0]}; no test, because their clients differ"
    of_pairs = [client_gains(*pair, round) for pair in pairs]
    by_client = np.full((len(pairs), max(map(len, of_pairs))), np.nan)
    for row, each in zip(by_client, of_pairs, strict=True):
        row[: len(each)] = each
    gains = _settled(np.nanmean(by_client[:, np.isfinite(by_client).any(axis=0)], axis=0))
    lost = int((gains < 0).sum())
    said.append(f"{lost} of {len(gains)} clients lose{'s' * (lost == 1)}")
    over = f"{len(pairs)} seeds"
    if len(pairs) == 1:
        found, over = (
            paired(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0)),
            f"{len(gains)} clients",
        )
    if found is None or found.interval is None:
        return f"{', '.join(said)}; no test of a single client"
    low, high = found.interval
    noise = "more than noise" if low > 0 or high < 0 else "within noise"
    return f"{', '.join(said)}, {noise} (paired t over {over}, 95 %: {points(low)} to {points(high)} pp)"


def _settled(gains: Array) -> Array:
    """The differences, with 0 for those that differ from it by rounding alone."""
    return np.where(np.abs(gains) < EQUAL, 0.0, gains)


SHADOW = "shadow"
"""The tag of a fork that was made to be compared with its parent, whatever its method is."""


@dataclass(frozen=True)
class Partner:
    """A session with the same clients. shared: the last round in common with the other, 0 for none. rounds: its last
    kept checkpoint. alike: whether it has the other's training seed and settings.
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
    """A session that may be a partner. clients: equal in sessions with the same clients."""

    run: SessionData
    clients: Key
    training: Key
    rounds: int
    methods: tuple[tuple[int, str], ...]
    tags: tuple[str, ...]


Value = TypeVar("Value")
_Cache = dict[Path, tuple[tuple[Stamp, ...], Value]]
"""What was read of a session, with the stamp of the files that it was read from."""


class Partners:
    """Finds the partners of one session after another. It reads again only what has changed since it last looked."""

    def __init__(self) -> None:
        self._wanted: tuple[str, ...] = ()
        self._passed: _Cache[bool] = {}
        """By session, whether its session.json names what a partner's names."""
        self._known: _Cache[_Candidate | None] = {}

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
        folders: list[Path] = []
        with suppress(DiskError, OSError):
            folders = checkpoints.session_folders(folder)
        for path in folders:
            document = checkpoints.changed_stamp(path, "document")
            mentioned = partial(checkpoints.mentions, path, fingerprint, any_of=[f'"{baseline}"', f'"{id}"'])
            if not _once(self._passed, path, document, mentioned):
                continue
            both = checkpoints.changed_stamp(path, "document", "checkpoints")
            other = _once(self._known, path, both, partial(_candidate, path))
            if other is None or other.run.document["id"] == id or other.clients != clients:
                continue
            if (shared := _shared(run, other, baseline)) is None:
                continue
            method, created = other.methods[-1][1], str(other.run.document.get("created", ""))
            alike, compared = other.training == training, min(other.rounds, run.round) - shared
            partner = Partner(path, method, shared, other.rounds, alike, created)
            found.append(((method == baseline, alike, compared, created), partner))
        return tuple(partner for _, partner in sorted(found, key=lambda each: each[0], reverse=True))


def _once(cache: _Cache[Value], path: Path, stamp: tuple[Stamp, ...], read: Callable[[], Value]) -> Value:
    if path not in cache or cache[path][0] != stamp:
        cache[path] = stamp, read()
    return cache[path][1]


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
