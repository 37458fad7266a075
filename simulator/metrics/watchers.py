"""Watchers: each looks at the records of a run in turn and tells once, as it begins, what needs attention.

After it has ended, it can be told again. Only records count, so a resumed run notices the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

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
Found = tuple[Mapping[int, str], Collection[int]]
"""What holds now, in words by client or MEAN, and where it has ended."""


class Watchers:
    """The watchers of one run that are on."""

    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None = None) -> None:
        """tested: each client's number of test samples; None: unknown, so accuracies of clients are not judged."""
        self._watches = {name: _WATCHES[name](settings, tested) for name in settings.watchers}
        self._told: dict[str, set[int]] = {name: set() for name in self._watches}
        """Where each has told what still goes on."""

    def after(self, record: Record) -> list[Notice]:
        """What they notice after a round. They must see all rounds, in order."""
        found: list[Notice] = []
        for name, watch in self._watches.items():
            holds, ended = watch.look(record)
            told = self._told[name]
            told.difference_update(ended)
            new = sorted(holds.keys() - told)
            told.update(holds)
            if clients := [client for client in new if client != MEAN]:
                said = [holds[client] for client in clients[:MOST]]
                if len(clients) > MOST:
                    said.append(f"and {len(clients) - MOST} more")
                found.append({"watcher": name, "message": "; ".join(said), "clients": clients})
            if MEAN in new:
                found.append({"watcher": name, "message": holds[MEAN], "clients": []})
        return found

    def forget(self) -> None:
        """Tell again, after the next round, what goes on: whoever asks now has not been told."""
        for told in self._told.values():
            told.clear()


class _Watch:
    def __init__(self, settings: WatchConfig, tested: Sequence[int] | None) -> None:
        self.settings = settings

    def look(self, record: Record) -> Found:
        raise NotImplementedError


class _Falling(_Watch):
    """The mean test accuracy falls so many rounds in a row."""

    top, last, falls = 0.0, -1.0, 0

    def look(self, record: Record) -> Found:
        mean = record["accuracy"]["mean"]
        if mean is None:
            return {}, ()
        if mean < self.last:
            self.falls += 1
        else:
            self.falls, self.top = 0, mean
        self.last = mean
        if self.falls < self.settings.falling_rounds:
            return {}, () if self.falls else (MEAN,)
        falls = _in_a_row(self.falls, "rounds")
        return {MEAN: f"mean accuracy fell{falls} from {percent(self.top)} to {percent(mean)}"}, ()


class _Divergence(_Watch):
    """A loss is not finite, or the mean one is above the method's first and above a multiple of its lowest."""

    method = ""
    first = lowest = float("nan")

    def look(self, record: Record) -> Found:
        holds = {client: f"client {client}: its loss is not finite" for client in record.get("diverged", ())}
        ended = set(record["participants"]) - holds.keys()
        loss, factor = record["loss"]["mean"], self.settings.divergence_factor
        if loss is None:
            return holds, ended
        if self.method != record["method"]:
            self.method, self.first, self.lowest = record["method"], loss, loss
        if loss > self.first and loss > factor * self.lowest > 0:
            holds[MEAN] = (
                f"mean training loss is {loss:.4g}: above the first round ({self.first:.4g}) and above "
                f"{factor:g} times the lowest ({self.lowest:.4g})"
            )
        else:
            ended.add(MEAN)
        self.lowest = min(self.lowest, loss)
        return holds, ended


class _Plateau(_Watch):
    """For so many rounds of one method, the mean test accuracy is at most `plateau_gain` above its best before."""

    method, best, since = "", -1.0, 0

    def look(self, record: Record) -> Found:
        if self.method != record["method"]:
            self.method, self.best = record["method"], -1.0
        mean, gain = record["accuracy"]["mean"], self.settings.plateau_gain
        if mean is None:
            return {}, ()
        if self.best < 0 or mean > self.best + gain:
            self.best, self.since = mean, record["round"]
            return {}, (MEAN,)
        if (rounds := record["round"] - self.since) < self.settings.plateau_rounds:
            return {}, ()
        by = f" by more than {100 * gain:g} pp" if gain else ""
        words = f"mean accuracy has not exceeded {percent(self.best)} (round {self.since}){by}"
        return {MEAN: f"{words} for {_times(rounds, 'round')}"}, ()


class _Collapse(_Watch):
    """A client answers one class for nearly all of its test samples, although less than half of them have it."""

    def look(self, record: Record) -> Found:
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
        return found, classes.keys() - found.keys()


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

    def look(self, record: Record) -> Found:
        if not len(self._tested):
            return {}, ()
        if "timeline" in record and (changed := record["timeline"]["data"]):
            self._changed.update(changed)  # forget what they were on other data
            self._first[changed] = self._last[changed] = np.nan
            self._falls[changed] = self._below[changed] = self._tested[changed] = 0
        for client, rows in _classes(record) if self._changed else ():
            if client in self._changed:  # counts by class say how many test samples there are now
                self._tested[client] = sum(row[1] for row in rows)
        known = by_client.items(record["accuracy"]["per_client"])
        told = {client: accuracy for client, accuracy in known if accuracy is not None}
        clients, now = np.array([*told], np.int64), np.array([*told.values()], np.float64)
        first, last = self._first[clients], self._last[clients]
        begins, fell = np.isnan(first), now < last
        self._first[clients[begins]] = now[begins]
        climbs = begins | (now > last)
        self._top[clients[climbs]] = now[climbs]
        self._falls[clients] = np.where(climbs, 0, self._falls[clients] + fell)
        self._below[clients] = np.where(now < first, self._below[clients] + 1, 0)
        self._last[clients] = now
        in_a_row, below = (
            (rounds[clients] >= self.settings.losing_rounds)
            & is_fall(before[clients], now, self._tested[clients])
            for rounds, before in ((self._falls, self._top), (self._below, self._first))
        )
        each = zip(told, in_a_row, in_a_row | below, strict=True)
        holds = {client: self.words(client, falls) for client, falls, loses in each if loses}
        return holds, np.flatnonzero((self._falls == 0) & (self._below == 0)).tolist()

    def words(self, client: int, in_a_row: bool) -> str:
        now = percent(self._last[client])
        if in_a_row:
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
