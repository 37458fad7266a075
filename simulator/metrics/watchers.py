"""Watchers: each looks at the records of a run in turn and tells what needs attention.

What they notice follows from the records alone, so a run that is resumed notices the same. Each tells something once,
when it begins. After it has ended, it can be told again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

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
MEAN = -1
"""Stands for the mean over the clients where a watcher looks at this."""
Where = tuple[Collection[int], Collection[int]]
"""Where something holds now, and where it has ended: clients, or MEAN."""


class Watchers:
    """The watchers of one run that are on."""

    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None = None) -> None:
        """tested: each client's number of test samples; None: unknown, so accuracies of clients are not judged."""
        self._watches = {name: _WATCHES[name](settings, tested) for name in settings.watchers}

    def after(self, record: Record) -> list[Notice]:
        """What they notice after a round. They must see all rounds, in order."""
        return [notice for name, watch in self._watches.items() for notice in watch.after(name, record)]

    def forget(self) -> None:
        """Tell again, after the next round, what goes on: whoever asks now has not been told."""
        for watch in self._watches.values():
            watch.told.clear()


class _Watch:
    """One watcher. `told` has where it has told what still goes on."""

    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None) -> None:
        self.told: set[int] = set()
        self.settings = settings

    def look(self, record: Record) -> Where:
        raise NotImplementedError

    def words(self, client: int) -> str:
        """What holds for a client, or for the mean."""
        raise NotImplementedError

    def after(self, name: str, record: Record) -> Iterator[Notice]:
        """What begins with this round."""
        holds, ended = self.look(record)
        self.told -= set(ended)
        new = sorted(set(holds) - self.told)
        self.told |= set(holds)
        if clients := [client for client in new if client != MEAN]:
            said = [self.words(client) for client in clients[:MOST]]
            if len(clients) > MOST:
                said.append(f"and {len(clients) - MOST} more")
            yield {"watcher": name, "message": "; ".join(said), "clients": clients}
        if MEAN in new:
            yield {"watcher": name, "message": self.words(MEAN), "clients": []}


class _Falling(_Watch):
    """The mean test accuracy falls so many rounds in a row."""

    top, last, falls = 0.0, -1.0, 0

    def look(self, record: Record) -> Where:
        mean = record["accuracy"]["mean"]
        if mean is None:
            return (), ()
        if mean < self.last:
            self.falls += 1
        else:
            self.falls, self.top = 0, mean
        self.last = mean
        if not self.falls:
            return (), (MEAN,)
        return (MEAN,) if self.falls >= self.settings.falling_rounds else (), ()

    def words(self, client: int) -> str:
        falls = _in_a_row(self.falls, "rounds")
        return f"mean accuracy fell{falls} from {percent(self.top)} to {percent(self.last)}"


class _Divergence(_Watch):
    """A loss is not finite, or the mean one is above the method's first and above a multiple of its lowest."""

    method = message = ""
    first = lowest = float("nan")

    def look(self, record: Record) -> Where:
        holds = set(record.get("diverged", ()))
        ended = set(record["participants"]) - holds
        loss, factor = record["loss"]["mean"], self.settings.divergence_factor
        if loss is None:
            return holds, ended
        if self.method != record["method"]:
            self.method, self.first, self.lowest = record["method"], loss, loss
        explodes = loss > self.first and loss > factor * self.lowest > 0
        (holds if explodes else ended).add(MEAN)
        self.message = (
            f"mean training loss is {loss:.4g}: above the first round ({self.first:.4g}) and above "
            f"{factor:g} times the lowest ({self.lowest:.4g})"
        )
        self.lowest = min(self.lowest, loss)
        return holds, ended

    def words(self, client: int) -> str:
        return self.message if client == MEAN else f"client {client}: its loss is not finite"


class _Plateau(_Watch):
    """For so many rounds of one method, the mean test accuracy is at most `plateau_gain` above its best before."""

    method, best, since, round = "", -1.0, 0, 0

    def look(self, record: Record) -> Where:
        if self.method != record["method"]:
            self.method, self.best = record["method"], -1.0
        mean, self.round = record["accuracy"]["mean"], record["round"]
        if mean is None:
            return (), ()
        if self.best < 0 or mean > self.best + self.settings.plateau_gain:
            self.best, self.since = mean, self.round
            return (), (MEAN,)
        return (MEAN,) if self.round - self.since >= self.settings.plateau_rounds else (), ()

    def words(self, client: int) -> str:
        gain = self.settings.plateau_gain
        by, rounds = (
            f" by more than {100 * gain:g} pp" if gain else "",
            _times(self.round - self.since, "round"),
        )
        return f"mean accuracy has not exceeded {percent(self.best)} (round {self.since}){by} for {rounds}"


class _Collapse(_Watch):
    """A client answers one class for nearly all of its test samples, although less than half of them have it."""

    found: Mapping[int, str] = {}

    def look(self, record: Record) -> Where:
        found, classes = {}, dict(_classes(record))
        for client, rows in classes.items():
            samples = sum(row[1] for row in rows)
            label, own, _, answered = max(rows, key=lambda row: row[3])
            enough = samples >= FEW and answered >= self.settings.collapse_share * samples
            if enough and own < HALF * samples:
                found[client] = (
                    f"client {client} answers class {label} for {answered} of {samples} test samples, "
                    f"{own} of which have it"
                )
        self.found = found
        return found.keys(), classes.keys() - found.keys()

    def words(self, client: int) -> str:
        return self.found[client]


class _Losing(_Watch):
    """A client only loses: it stays below its first evaluation, or falls in one evaluation after the other.

    Both count if the change is significant. A record may repeat an earlier evaluation, so equal accuracies are no
    fall, and do not end a series of falls.
    """

    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None) -> None:
        super().__init__(settings, tested)
        self._tested = np.array(() if tested is None else tested, np.int64)
        self._changed: set[int] = set()
        """The clients whose data changed, so that their numbers of test samples may be others."""
        count = len(self._tested)
        self._first, self._top, self._last = (np.full(count, np.nan) for _ in range(3))
        self._falls, self._below = np.zeros(count, int), np.zeros(count, int)

    def look(self, record: Record) -> Where:
        if not len(self._tested):
            return (), ()
        if "timeline" in record and (
            changed := record["timeline"]["data"]
        ):  # forget what they were on other data
            self._changed.update(changed)
            self._first[changed] = self._last[changed] = np.nan
            self._falls[changed] = self._below[changed] = self._tested[changed] = 0
        for client, rows in _classes(record) if self._changed else ():
            if client in self._changed:  # counts by class say how many test samples there are now
                self._tested[client] = sum(row[1] for row in rows)
        clients, now = _known(record["accuracy"]["per_client"])
        first, last = self._first[clients], self._last[clients]
        begins, fell = np.isnan(first), now < last
        self._first[clients[begins]] = now[begins]
        climbs = begins | (now > last)
        self._top[clients[climbs]] = now[climbs]
        self._falls[clients] = np.where(climbs, 0, self._falls[clients] + fell)
        self._below[clients] = np.where(now < first, self._below[clients] + 1, 0)
        self._last[clients] = now
        losing = self._falls_far(clients) | self._long(self._below, self._first, clients)
        return clients[losing].tolist(), np.flatnonzero((self._falls == 0) & (self._below == 0)).tolist()

    def _long(self, rounds: NDArray[Any], before: NDArray[Any], clients: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether something goes on for long enough, and the accuracy fell significantly from that before."""
        fell = is_fall(before[clients], self._last[clients], self._tested[clients])
        return np.asarray((rounds[clients] >= self.settings.losing_rounds) & fell)

    def _falls_far(self, clients: NDArray[Any]) -> NDArray[np.bool_]:
        return self._long(self._falls, self._top, clients)

    def words(self, client: int) -> str:
        now = percent(self._last[client])
        if self._falls_far(np.array([client])).any():
            falls = _in_a_row(int(self._falls[client]), "evaluations")
            return f"client {client} fell{falls} from {percent(self._top[client])} to {now}"
        rounds = _times(int(self._below[client]), "round")
        first = percent(self._first[client])
        return f"client {client} is below its first evaluation for {rounds}: {now} after {first}"


_WATCHES: dict[str, type[_Watch]] = {
    "falling": _Falling,
    "divergence": _Divergence,
    "plateau": _Plateau,
    "collapse": _Collapse,
    "losing": _Losing,
}


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
