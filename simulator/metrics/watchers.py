"""Watchers: each looks at the records of a run in turn and tells what needs attention.

What they notice follows from the records alone, so a run that is resumed notices the same. Each tells something once,
when it begins. After it has ended, it can be told again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.base.record import Notice, Record
from simulator.base.sections import WatchConfig
from simulator.base.units import percent
from simulator.metrics import by_client
from simulator.metrics.significance import FEW, is_fall

MOST = 3
"""Clients that a message describes."""
HALF = 0.5
"""A client may answer mostly the class that more than this share of its test samples have."""


class _Watch(Protocol):
    def look(self, record: Record) -> Iterator[Notice]:
        """What begins with this round."""

    def forget(self) -> None:
        """Tell again what goes on."""


class Watchers:
    """The watchers of one run that are on."""

    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None = None) -> None:
        """tested: each client's number of test samples; None: unknown, so accuracies of clients are not judged."""
        every: dict[str, Callable[[], _Watch]] = {
            "falling": lambda: _Falling(settings.falling_rounds),
            "divergence": lambda: _Divergence(settings.divergence_factor),
            "plateau": lambda: _Plateau(settings.plateau_rounds, settings.plateau_gain),
            "collapse": lambda: _Collapse(settings.collapse_share),
            "losing": lambda: _Losing(settings.losing_rounds, tested),
        }
        self._watches = [every[name]() for name in settings.watchers]

    def after(self, record: Record) -> list[Notice]:
        """What they notice after a round. They must see all rounds, in order."""
        return [notice for watch in self._watches for notice in watch.look(record)]

    def forget(self) -> None:
        """Tell again, after the next round, what goes on: whoever asks now has not been told."""
        for watch in self._watches:
            watch.forget()


class _Falling:
    """The mean test accuracy falls so many rounds in a row."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._top, self._last = 0.0, -1.0
        self._falls = 0
        self._told = False

    def look(self, record: Record) -> Iterator[Notice]:
        mean = record["accuracy"]["mean"]
        if mean is None:
            return
        if mean < self._last:
            self._falls += 1
        else:
            self._falls, self._top, self._told = 0, mean, False
        self._last = mean
        if self._falls >= self._rounds and not self._told:
            self._told = True
            span = f"from {percent(self._top)} to {percent(mean)}"
            yield _notice("falling", f"mean accuracy fell{_in_a_row(self._falls, 'rounds')} {span}")

    def forget(self) -> None:
        self._told = False


class _Divergence:
    """A client's loss is not finite, or the mean training loss explodes.

    It explodes if it is above that of the method's first round, and above a multiple of the lowest one since.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._method = ""
        self._first = self._lowest = float("nan")
        self._diverging: set[int] = set()
        self._told = False

    def look(self, record: Record) -> Iterator[Notice]:
        diverged = set(record.get("diverged", ()))
        new = sorted(diverged - self._diverging)
        self._diverging = (self._diverging - set(record["participants"])) | diverged
        if new:
            yield _of_clients("divergence", new, lambda client: f"client {client}: its loss is not finite")
        loss = record["loss"]["mean"]
        if loss is None:
            return
        if self._method != record["method"]:
            self._method, self._first, self._lowest, self._told = record["method"], loss, loss, False
        explodes = loss > self._first and loss > self._factor * self._lowest > 0
        if explodes and not self._told:
            yield _notice(
                "divergence",
                f"mean training loss is {loss:.4g}: above the first round ({self._first:.4g}) and above "
                f"{self._factor:g} times the lowest ({self._lowest:.4g})",
            )
        self._told, self._lowest = explodes, min(self._lowest, loss)

    def forget(self) -> None:
        self._diverging.clear()
        self._told = False


class _Plateau:
    """The mean test accuracy has no new best for so many rounds, under one method.

    A new best is more than `gain` above the one before.
    """

    def __init__(self, rounds: int, gain: float) -> None:
        self._rounds, self._gain = rounds, gain
        self._method = ""
        self._best, self._round = -1.0, 0
        self._told = False

    def look(self, record: Record) -> Iterator[Notice]:
        if self._method != record["method"]:
            self._method, self._best = record["method"], -1.0
        mean, round = record["accuracy"]["mean"], record["round"]
        if mean is None:
            return
        if self._best < 0 or mean > self._best + self._gain:
            self._best, self._round, self._told = mean, round, False
        elif round - self._round >= self._rounds and not self._told:
            self._told = True
            by = f" by more than {100 * self._gain:g} pp" if self._gain else ""
            yield _notice(
                "plateau",
                f"mean accuracy has not exceeded {percent(self._best)} (round {self._round}){by} "
                f"for {_times(round - self._round, 'round')}",
            )

    def forget(self) -> None:
        self._told = False


class _Collapse:
    """A client answers one class for nearly all of its test samples, although less than half of them have it."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._told: set[int] = set()

    def look(self, record: Record) -> Iterator[Notice]:
        found: dict[int, str] = {}
        for client, rows in _classes(record):
            samples = sum(row[1] for row in rows)
            label, own, _, answered = max(rows, key=lambda row: row[3])
            if samples >= FEW and answered >= self._share * samples and own < HALF * samples:
                found[client] = (
                    f"client {client} answers class {label} for {answered} of {samples} test samples, "
                    f"{own} of which have it"
                )
            else:
                self._told.discard(client)
        new = sorted(found.keys() - self._told)
        self._told |= found.keys()
        if new:
            yield _of_clients("collapse", new, found.__getitem__)

    def forget(self) -> None:
        self._told.clear()


class _Losing:
    """A client only loses: it stays below its first evaluation, or falls in one evaluation after the other.

    Both count if the change is significant. A record may repeat an earlier evaluation, so equal accuracies are no
    fall, and do not end a series of falls.
    """

    def __init__(self, rounds: int, tested: Sequence[int] | None) -> None:
        self._rounds = rounds
        self._tested = None if tested is None else np.array(tested, np.int64)
        self._changed: set[int] = set()
        """The clients whose data changed, so that their numbers of test samples may be others."""
        none = np.zeros(0)
        self._first, self._top, self._last = none, none, none
        self._falls, self._below = none.astype(int), none.astype(int)
        self._told = none.astype(bool)

    def look(self, record: Record) -> Iterator[Notice]:
        if self._tested is None:
            return
        self._make_room(len(self._tested))
        self._begin_anew(record)
        clients, now = _known(record["accuracy"]["per_client"])
        first, last = self._first[clients], self._last[clients]
        begins, fell = np.isnan(first), now < last
        self._first[clients[begins]] = now[begins]
        climbs = begins | (now > last)
        self._top[clients[climbs]] = now[climbs]
        self._falls[clients] = np.where(climbs, 0, self._falls[clients] + fell)
        self._below[clients] = np.where(now < first, self._below[clients] + 1, 0)
        self._last[clients] = now
        new = list(self._losing(clients))
        calm = (self._falls == 0) & (self._below == 0)
        self._told[calm] = False
        if new:
            self._told[new] = True
            yield _of_clients("losing", new, self._words)

    def forget(self) -> None:
        self._told[:] = False

    def _losing(self, clients: NDArray[np.int64]) -> Iterator[int]:
        """The clients that begin to lose."""
        assert self._tested is not None
        long = np.maximum(self._falls, self._below)[clients] >= self._rounds
        for client in clients[long & ~self._told[clients]].tolist():
            if self._falls_far(client) or self._stays_below(client):
                yield client

    def _falls_far(self, client: int) -> bool:
        return bool(self._falls[client] >= self._rounds) and self._is_fall(self._top, client)

    def _stays_below(self, client: int) -> bool:
        return bool(self._below[client] >= self._rounds) and self._is_fall(self._first, client)

    def _is_fall(self, before: NDArray[np.float64], client: int) -> bool:
        assert self._tested is not None
        return bool(is_fall(before[client], self._last[client], self._tested[client]))

    def _words(self, client: int) -> str:
        now = percent(self._last[client])
        if self._falls_far(client):
            falls = _in_a_row(int(self._falls[client]), "evaluations")
            return f"client {client} fell{falls} from {percent(self._top[client])} to {now}"
        rounds = _times(int(self._below[client]), "round")
        first = percent(self._first[client])
        return f"client {client} is below its first evaluation for {rounds}: {now} after {first}"

    def _make_room(self, clients: int) -> None:
        if len(self._first) == clients:
            return
        self._first, self._top, self._last = (np.full(clients, np.nan) for _ in range(3))
        self._falls, self._below = np.zeros(clients, int), np.zeros(clients, int)
        self._told = np.zeros(clients, bool)

    def _begin_anew(self, record: Record) -> None:
        """Forget what clients were on other data. Counts by class say how many test samples they have now."""
        assert self._tested is not None
        if "timeline" in record and (changed := record["timeline"]["data"]):
            self._changed.update(changed)
            self._first[changed] = self._last[changed] = np.nan
            self._falls[changed] = self._below[changed] = self._tested[changed] = 0
        for client, rows in _classes(record) if self._changed else ():
            if client in self._changed:
                self._tested[client] = sum(row[1] for row in rows)


def _known(values: by_client.Values) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The clients of which a record has an accuracy, ascending, and these."""
    if isinstance(values, Mapping):
        told = [(client, value) for client, value in by_client.items(values) if value is not None]
        return np.array([client for client, _ in told], np.int64), np.array([value for _, value in told])
    found = np.array(values, float)  # null becomes NaN
    clients = np.flatnonzero(~np.isnan(found))
    return clients, found[clients]


def _classes(record: Record) -> Iterator[tuple[int, Sequence[Sequence[int]]]]:
    """Each client's rows [class, samples, correct, answered] on its test part, where a record has them."""
    test: Mapping[str, Any] = record.get("evaluation", {}).get("test", {})
    for client, rows in by_client.items(test.get("classes", {}).get("per_client", {})):
        if rows:
            yield client, rows


def _times(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _in_a_row(number: int, what: str) -> str:
    return "" if number == 1 else f" in {number} {what} in a row,"


def _notice(watcher: str, message: str, clients: Sequence[int] = ()) -> Notice:
    return {"watcher": watcher, "message": message, "clients": list(clients)}


def _of_clients(watcher: str, clients: Iterable[int], words: Callable[[int], str]) -> Notice:
    """A notice about clients, the first of which it describes."""
    named = list(clients)
    said = [words(client) for client in named[:MOST]]
    if len(named) > MOST:
        said.append(f"and {len(named) - MOST} more")
    return _notice(watcher, "; ".join(said), named)
