"""The samples of each client: partition, then split, and how they change from round to round.

Changes are new partitions, permuted labels, and other domains. A sample keeps its part. One that some client tests on
is never a training sample of anybody, in any round. Permuted labels need no copies of samples. With n samples, index
n·b + i is sample i with the labels of block b. Block 0 has the true labels.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.base import rng
from simulator.base.data_section import DataConfig, split_shares
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.timeline import Happening
from simulator.data import partition
from simulator.data.partition import PARTS, RULES, Given, TooFew, stratified
from simulator.data.samples import Indices, LabeledSet, Labels

Parts = tuple[Indices, Indices, Indices]
"""Train, eval and test indices of one client."""


def divided(config: DataConfig, clients: int, seed: int, samples: LabeledSet) -> list[Parts]:
    """Every client's train, eval, and test indices, as configured. Raises ConfigError or DataError."""
    try:
        return _divided(config, clients, seed, samples)
    except TooFew as error:
        ways = ["use fewer clients", *(["raise data.limit"] if config.limit is not None else [])]
        least = len(samples.classes) + len(split_shares(config.split)) - 1
        for key, value, applies in (
            ("split", "global", samples.has_test_set),
            ("min_samples", least, config.reads("min_samples")),
            ("partition", "pathological", config.partition == "iid"),
        ):
            with suppress(ConfigError, DataError):
                if applies:
                    _divided(config.model_copy(update={key: value}), clients, seed, samples)
                    ways.append(f"use `data.{key}={value}`")
        raise DataError(f"{error} To give each client enough, {', or '.join(ways)}.") from error


def _divided(config: DataConfig, clients: int, seed: int, samples: LabeledSet) -> list[Parts]:
    if config.indices is not None:
        return partition.read_indices(Path(config.indices), clients, len(samples))
    none, split = np.empty(0, dtype=np.int64), config.split
    if split in ("global", "own") and not samples.has_test_set:
        raise DataError(
            f"data set '{config.dataset}' has no test set of its own, which split '{split}' needs. "
            "Use another split: `data.split=8:1:1`."
        )
    upto = samples.test_from if split == "global" else len(samples)
    holdings = _partitioned(config, clients, seed, samples, upto)
    if split == "global":
        test = np.arange(upto, len(samples))
        return [(held, none, test) for held in holdings]
    divisions = []
    for client, held in enumerate(holdings):
        if split == "own":
            train, test = np.split(held, [np.searchsorted(held, samples.test_from)])
            if not len(train) or not len(test):
                raise DataError(
                    f"client {client} has {len(train)} samples for training and {len(test)} for test, and split 'own' "
                    "needs both. Use another split, such as `data.split=8:1:1`, or a larger data.min_samples."
                )
            divisions.append((train, none, test))
        else:
            stream = rng.numpy_stream(seed, "data/split", client=client)
            parts = stratified(held, samples.labels[held], split_shares(split), client, stream)
            divisions.append((parts[0], parts[1] if len(parts) == 3 else none, parts[-1]))
    return divisions


def _partitioned(
    config: DataConfig, clients: int, seed: int, samples: LabeledSet, upto: int
) -> list[Indices]:
    """The clients' shares of the first `upto` samples."""
    stream = rng.numpy_stream(seed, "data/partition")
    given = Given(samples.labels[:upto], len(samples.classes), clients, config.min_samples, stream)
    if config.partition == "natural":
        if samples.user is None:
            raise ConfigError(
                f"data set '{config.dataset}' does not say which user each sample is from, which partition 'natural' "
                "needs. Use another data.partition, or name the column of users in data.client for a table."
            )
        return partition.natural(samples.user[:upto], clients, config.min_samples, stream)
    if config.domains_per_client is None:
        return RULES[config.partition](given, config)
    if samples.domain is None:
        raise ConfigError(
            f"data set '{config.dataset}' has no domains to deal out; use digits_domains, fashion_mnist_domains or a "
            "folder with a folder for each domain, or leave out data.domains_per_client."
        )
    return partition.by_domain(given, config, samples.domain[:upto], samples.domains)


@dataclass(frozen=True)
class Changed:
    """All clients' parts from a round on."""

    round: int
    parts: list[Parts]
    """Those of clients that did not change are the same objects as before."""


class Changes:
    """Carries out the events that change data, one after the other."""

    def __init__(self, config: DataConfig, samples: LabeledSet, parts: Sequence[Parts], seed: int) -> None:
        self._config, self._samples, self._seed = config, samples, seed
        self._first = list(parts)
        self._parts = list(parts)
        """Indices of samples, without blocks."""
        self._block = [0] * len(parts)
        self.labels: list[Labels] = [samples.labels]
        """The labels of every block."""

    def after(self, happenings: Sequence[Happening]) -> list[Changed]:
        """The parts from the round of each event on. Raises ConfigError or DataError if one cannot be carried out."""
        found, shown = list[Changed](), list(self._first)
        for each in happenings:
            before, blocks = list(self._parts), list(self._block)
            self._carry_out(each)
            moved: dict[tuple[int, int], Indices] = {}  # clients that share an array go on sharing it
            for client in each.clients:
                if self._parts[client] is not before[client] or self._block[client] != blocks[client]:
                    shown[client] = self._shown(client, moved)
            if found and found[-1].round == each.round:
                found.pop()
            found.append(Changed(each.round, list(shown)))
        return found

    def _shown(self, client: int, moved: dict[tuple[int, int], Indices]) -> Parts:
        block = self._block[client]
        if not block:
            return self._parts[client]
        for part in self._parts[client]:
            if (id(part), block) not in moved:
                moved[id(part), block] = part + block * len(self._samples)
        train, evaluation, test = (moved[id(part), block] for part in self._parts[client])
        return train, evaluation, test

    def _carry_out(self, each: Happening) -> None:
        if each.event.labels is not None:
            self._permute(each)
            return
        if self._config.partition == "indices":
            kept = "clients of a file of indices keep their samples"
            raise _fault(each, f"{kept}. Use labels = 'permuted', or another partition")
        try:
            if each.event.domain is not None:
                self._move(each, each.event.domain)
            else:
                self._divide(each)
        except DataError as error:
            raise DataError(f"federation.timeline, round {each.round}: {error}") from error

    def _permute(self, each: Happening) -> None:
        """One cycle through all classes for the clients of the event, so that no class keeps its label."""
        stream = rng.numpy_stream(self._seed, "timeline/labels", each.number)
        order = stream.permutation(len(self._samples.classes))
        permutation = np.empty_like(order)
        permutation[order] = np.roll(order, -1)
        new: dict[int, int] = {}
        for client in each.clients:
            block = self._block[client]
            if block not in new:
                new[block] = len(self.labels)
                self.labels.append(permutation[self.labels[block]])
            self._block[client] = new[block]

    def _divide(self, each: Happening) -> None:
        """A new partition of the clients' samples among them. With one domain per client, within each domain."""
        config = each.event.divided(self._config)
        stream = rng.numpy_stream(self._seed, "timeline/partition", each.number)
        groups: dict[int, list[int]] = defaultdict(list)
        if (config.domains_per_client or 1) > 1:
            what = "clients of several domains cannot be divided anew"
            raise _fault(each, f"{what}. Use data.domains_per_client=1")
        for client in each.clients:
            domain = None if config.domains_per_client is None else self._samples.domain
            groups[0 if domain is None else int(domain[self._parts[client][0][0]])].append(client)
        for _, clients in sorted(groups.items()):
            own = [self._parts[client][: 1 if config.split == "global" else 3] for client in clients]
            pools = [np.unique(np.concatenate(part)) for part in zip(*own, strict=True)]
            pool = np.concatenate(pools)
            part = np.repeat(np.arange(len(pools)), [len(each) for each in pools])
            labels = self._samples.labels[pool]
            given = Given(labels, len(self._samples.classes), len(clients), config.min_samples, stream)
            held = RULES[config.partition](given, config)
            owner = _dealt([labels[positions] for positions in held], labels, part, stream)
            _give_each_part(owner, part, labels, len(clients), len(pools))
            for place, client in enumerate(clients):
                train, *others = (np.sort(pool[(owner == place) & (part == k)]) for k in range(len(pools)))
                evaluation, test = others or self._parts[client][1:]
                self._parts[client] = train, evaluation, test

    def _move(self, each: Happening, name: str) -> None:
        """As many samples of each class as before, of another domain, or all that it has. Others keep theirs, too."""
        samples = self._samples
        if samples.domain is None:
            what = f"data set '{self._config.dataset}' has no domains"
            raise _fault(each, f"{what}. Use digits_domains, or remove domain")
        if name not in samples.domains:
            what = f"there is no domain '{name}'.{nearest(name, samples.domains)}"
            raise _fault(each, f"{what} There are {', '.join(samples.domains)}")
        number = samples.domains.index(name)
        moving = 1 if self._config.split == "global" else 3  # a common test set stays
        pools = []
        for place in range(moving):
            every = np.unique(np.concatenate([parts[place] for parts in self._first]))
            pools.append(every[samples.domain[every] == number])
        for client in each.clients:
            stream = rng.numpy_stream(self._seed, "timeline/domain", each.number, client)
            found = list(self._parts[client])
            for place, pool in enumerate(pools):
                drawn = [np.empty(0, dtype=np.int64)]
                held = np.unique(samples.labels[found[place]], return_counts=True)
                for label, count in zip(*held, strict=True):
                    members = pool[samples.labels[pool] == label]
                    drawn.append(stream.choice(members, min(int(count), len(members)), replace=False))
                found[place] = np.sort(np.concatenate(drawn))
                if len(self._parts[client][place]) and not len(found[place]):
                    raise DataError(
                        f"domain '{name}' has no {PARTS[place]} samples of the classes of client {client}. "
                        "Choose another domain or client."
                    )
            self._parts[client] = found[0], found[1], found[2]


def _dealt(held: Sequence[Labels], labels: Labels, part: Indices, stream: np.random.Generator) -> Indices:
    """The owner of each sample, for clients that hold samples of these labels.

    Each client with samples of a class gets one that is trained on, if there are as many. The parts of the others are
    spread evenly.
    """
    owner = np.empty(len(labels), dtype=np.int64)
    order = stream.permutation(len(held))
    for label in np.unique(labels):
        counts = np.array([int((own == label).sum()) for own in held])
        owners = order[counts[order] > 0]
        of_part = [
            stream.permutation(np.flatnonzero((labels == label) & (part == number)))
            for number in range(int(part.max()) + 1)
        ]
        firsts = of_part[0][: len(owners)] if len(of_part[0]) >= len(owners) else of_part[0][:0]
        rest = [of_part[0][len(firsts) :], *of_part[1:]]
        spread = np.concatenate([(np.arange(len(each)) + 0.5) / max(len(each), 1) for each in rest])
        others = np.concatenate(rest)[np.argsort(spread, kind="stable")]
        owner[firsts] = owners[: len(firsts)]
        owner[others] = np.repeat(owners, counts[owners] - (len(firsts) > 0))
    return owner


def _give_each_part(owner: Indices, part: Indices, labels: Labels, clients: int, parts: int) -> None:
    """Swap samples of one class until each client has one of each part. Raises DataError for too few."""
    counts: NDArray[np.int64] = np.zeros((clients, parts), dtype=np.int64)
    np.add.at(counts, (owner, part), 1)
    for client, lacking in np.argwhere(counts == 0):
        for giver in np.argsort(-counts[:, lacking], kind="stable"):
            if counts[giver, lacking] < 2:
                continue
            theirs = np.flatnonzero((owner == giver) & (part == lacking))
            mine = np.flatnonzero((owner == client) & (counts[client, part] > 1))
            common = np.intersect1d(labels[theirs], labels[mine])
            if len(common):
                given, taken = (each[labels[each] == common[0]][0] for each in (theirs, mine))
                owner[given], owner[taken] = client, giver
                counts[client, lacking] += 1
                counts[giver, lacking] -= 1
                counts[client, part[taken]] -= 1
                counts[giver, part[taken]] += 1
                break
        else:
            raise DataError(
                f"a new partition leaves a client without {PARTS[lacking] if parts == 3 else 'train'} samples. "
                "Use a larger data.min_samples, a larger alpha, or fewer clients."
            )


def _fault(each: Happening, what: str) -> ConfigError:
    return ConfigError(f"federation.timeline, round {each.round}: {what}.")
