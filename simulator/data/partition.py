"""The partitions of samples over clients: by class, by Dirichlet shares, IID, by user, and any but the last by domain.

Each rule is pure: the same labels and generator state give the same partition. Each assigns one owner per sample. None
loops without a bound, and none leaves a client empty. A client's samples are then split into parts, stratified by
class. Or the user's file in JSON says it all: the indices of every client's parts.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from checkpoints import limits
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.reading import read_bytes
from simulator.data.samples import Indices, Labels

NOBODY = -1
PARTS = ("train", "eval", "test")
INDICES_BYTES = 32 << 20
"""The maximum number of bytes of a file of indices."""
MOST_INDICES = 3_000_000
"""Indices in a file. A parsed one takes some 140 bytes of memory until it is in an array."""


class Given(NamedTuple):
    """What a rule divides: samples with labels [n], over so many clients, with these draws."""

    labels: Labels
    num_classes: int
    clients: int
    min_samples: int
    """The least number of samples of a client, where the rule has one."""
    stream: np.random.Generator

    def nobodys(self) -> Indices:
        """The owner of each sample, before any has one."""
        return np.full(len(self.labels), NOBODY, dtype=np.int64)

    def members(self, label: int) -> Indices:
        return self.stream.permutation(np.flatnonzero(self.labels == label))

    def least(self, config: DataConfig) -> int:
        """The least size of a share by `data.quantity`."""
        return self.min_samples if config.quantity == "lognormal" else 1

    def weights(self, count: int, config: DataConfig) -> NDArray[np.float64]:
        """Sizes of shares by `data.quantity`: in proportion to U(0.4, 0.6), equal, or to exp(σ z) for z from N(0, 1).

        The last as in FedDyn (Acar et al. 2021; alpemreacar/FedDyn@be0348b, utils_dataset.py). There, a client can be
        empty.
        """
        if config.quantity == "lognormal":
            return np.exp(config.sigma * self.stream.standard_normal(count))
        return self.stream.uniform(0.4, 0.6, count) if config.quantity == "varied" else np.ones(count)

    def sizes(self, config: DataConfig) -> NDArray[np.int64]:
        """Every client's number of samples by `data.quantity`. Raises DataError if there are too few."""
        least = self.least(config)
        self.check(least)
        return apportion(len(self.labels), self.weights(self.clients, config), least)

    def check_classes(self, config: DataConfig) -> None:
        if config.classes_per_client > self.num_classes:
            raise ConfigError(
                f"data.classes_per_client is {config.classes_per_client}, but the data set has {self.num_classes} "
                f"classes; use at most {self.num_classes}."
            )

    def check(self, least: int) -> None:
        """Raise DataError if there are too few samples for so many of each client."""
        samples, clients = len(self.labels), self.clients
        if samples >= clients * least:
            return
        if least == 1:
            raise DataError(
                f"{samples} samples are too few for {clients} clients. Use at most {samples} clients."
            )
        raise DataError(
            f"{clients} clients with at least {least} samples each need {clients * least} samples, and there are "
            f"{samples}. Use at most {samples // least} clients, or lower data.min_samples."
        )


def pathological(given: Given, config: DataConfig) -> list[Indices]:
    """Each client holds exactly `classes_per_client` classes (Shamsian et al. 2021, pFedHN), as evenly as possible.

    A class's samples are divided over its owners by `quantity`. Raises ConfigError for too few classes, and DataError
    for a class with too few samples.
    """
    if config.quantity == "pfllib":
        return _as_pfllib(given, config)
    return _class_by_class(
        given, config, given.least(config), lambda owners, _: given.weights(len(owners), config)
    )


def extended_dirichlet(given: Given, config: DataConfig) -> list[Indices]:
    """Each client holds exactly `classes_per_client` classes. Dir(α) divides each class over its owners.

    From Li and Lyu 2023, "Convergence Analysis of Sequential Federated Learning on Heterogeneous Data"
    (liyipeng00/convergence@5972d5c, sim/data/partition.py), and PFLlib's "exdir" (TsingZ0/PFLlib@b9565b0,
    dataset/utils/dataset_utils.py). An owner that has its fair share n/N gets no more than it must, unless `cap` is off
    or all owners have it. Their code draws again until each class has enough owners and each client enough samples, and
    an owner can get none of a class. Here, classes have as equal numbers of owners as possible, and each owner has at
    least ⌈`min_samples` / `classes_per_client`⌉ samples of each of its classes. Raises as `pathological`.
    """
    fair_share = len(given.labels) / given.clients if config.cap else np.inf

    def weights(owners: Indices, sizes: Indices) -> NDArray[np.float64]:
        below = sizes < fair_share
        return _dirichlet_shares(below if below.any() else ~below, config.alpha, given.stream)

    return _class_by_class(given, config, given.min_samples, weights)


def _class_by_class(
    given: Given,
    config: DataConfig,
    min_samples: int,
    weights: Callable[[Indices, Indices], NDArray[np.float64]],
) -> list[Indices]:
    """Deal out classes, and divide each by `weights` of its owners and of the samples that they have so far."""
    given.check_classes(config)
    holds = _dealt(given.num_classes, given.clients, config.classes_per_client, given.stream)
    least = -(-min_samples // config.classes_per_client)
    owner, sizes = given.nobodys(), np.zeros(given.clients, dtype=np.int64)
    for label in range(given.num_classes):
        members = given.members(label)
        owners = np.flatnonzero(holds[:, label])
        if len(owners) == 0:
            continue
        if len(members) < len(owners) * least:
            each, key = (
                (f" with at least {least} each", "min_samples") if least > 1 else ("", "classes_per_client")
            )
            raise DataError(
                f"class {label} has {len(members)} samples for the {len(owners)} clients that should hold it{each}. "
                f"Use fewer clients, a smaller data.{key}, or a larger data.limit if one is set."
            )
        counts = apportion(len(members), weights(owners, sizes[owners]), least)
        owner[members] = np.repeat(owners, counts)
        sizes[owners] += counts
    return _holdings(owner, given.clients)


def _as_pfllib(given: Given, config: DataConfig) -> list[Indices]:
    """Classes in blocks of very different sizes, as in PFLlib (d832e76, dataset/utils/dataset_utils.py, lines 53–85).

    Class by class, the first ⌈N/C · c⌉ clients with fewer than c classes share its samples in order. All but the last
    draw from [max(m/10, least/C), m). m is an equal share. `least` is the smaller of `min_samples` and half of a fair
    share of all samples. The last client takes the rest. Classes without a client are left out. Raises DataError if a
    client would stay empty.
    """
    given.check_classes(config)
    labels, clients, num_classes = given.labels, given.clients, given.num_classes
    at_a_time = -(-clients * config.classes_per_client // num_classes)
    least = int(min(given.min_samples, len(labels) / clients / 2))
    owner, held = given.nobodys(), np.zeros(clients, dtype=np.int64)
    for label in range(num_classes):
        members = np.flatnonzero(labels == label)
        owners = np.flatnonzero(held < config.classes_per_client)[:at_a_time]
        if len(owners) == 0:
            break
        share = len(members) / len(owners)
        low, high = int(max(share / 10, least / num_classes)), int(share)
        if low >= high:
            raise DataError(
                f"class {label} has {len(members)} samples for {len(owners)} clients, too few for PFLlib's rule. "
                "Use fewer clients, or a larger data.limit if one is set."
            )
        counts = given.stream.integers(low, high, len(owners) - 1)
        owner[members] = np.repeat(owners, [*counts, len(members) - counts.sum()])
        held[owners] += 1
    return _holdings(owner, clients)


def dirichlet(given: Given, config: DataConfig) -> list[Indices]:
    """Each class's samples are divided over the clients by proportions from Dir(α) (Lin et al. 2020, FedDF).

    As in their code, a client that already has its fair share n/N gets no samples of later classes, unless `cap` is
    off. Their code draws again until each client has `min_samples`. Here, the largest clients give samples to the
    others. Raises DataError if there are too few samples.
    """
    given.check(given.min_samples)
    clients, fair_share = given.clients, len(given.labels) / given.clients
    owner, sizes = given.nobodys(), np.zeros(clients, dtype=np.int64)
    for label in range(given.num_classes):
        members = given.members(label)
        if len(members) == 0:
            continue
        below_fair_share = sizes < fair_share if config.cap else np.ones(clients, dtype=bool)
        counts = apportion(len(members), _dirichlet_shares(below_fair_share, config.alpha, given.stream))
        owner[members] = np.repeat(np.arange(clients), counts)
        sizes += counts
    _lift_to_minimum(owner, sizes, given.min_samples, given.stream)
    return _holdings(owner, clients)


def inner_dirichlet(given: Given, config: DataConfig) -> list[Indices]:
    """Each client has a size by `quantity` and a class mix drawn from Dir(α) (Acar et al. 2021, FedDyn).

    Their code (alpemreacar/FedDyn@be0348b, utils_dataset.py; the same in SMILELab-FL/FedLab@08aada5,
    fedlab/utils/dataset/functional.py) fills clients sample by sample and draws a class until one has samples left.
    Here, all clients draw their samples' classes at once. If a class has too few, chance decides who gets them, and the
    others draw from the classes that are left. Each such pass empties a class, so there are at most as many as classes.
    A client without any share of the classes that are left takes from them in proportion. Raises DataError if there are
    too few samples.
    """
    clients, num_classes, stream = given.clients, given.num_classes, given.stream
    missing = given.sizes(config)
    left = np.bincount(given.labels, minlength=num_classes)
    everything = np.ones(num_classes, dtype=bool)
    mixes = np.stack([_dirichlet_shares(everything, config.alpha, stream) for _ in range(clients)])
    held = np.zeros((clients, num_classes), dtype=np.int64)
    while missing.any():
        there = np.flatnonzero(left)
        shares = mixes[:, there]
        shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, left[there])
        drawn = stream.multinomial(missing, shares / shares.sum(axis=1, keepdims=True))
        for place, kind in enumerate(there):
            if drawn[:, place].sum() > left[kind]:
                wanting = stream.permutation(np.repeat(np.arange(clients), drawn[:, place]))
                drawn[:, place] = np.bincount(wanting[: left[kind]], minlength=clients)
        held[:, there] += drawn
        left[there] -= drawn.sum(axis=0)
        missing -= drawn.sum(axis=1)
    owner = given.nobodys()
    for label in range(num_classes):
        owner[given.members(label)] = np.repeat(np.arange(clients), held[:, label])
    return _holdings(owner, clients)


def shards(given: Given, config: DataConfig) -> list[Indices]:
    """Each client holds `shards_per_client` random shards of the samples in the order of their classes.

    From McMahan et al. 2017, FedAvg (§3); also in SMILELab-FL/FedLab@08aada5, fedlab/utils/dataset/functional.py, which
    drops the samples that are left over. Here, the sizes of shards differ by at most one. Raises DataError if there are
    fewer samples than shards.
    """
    labels, clients, each, stream = given.labels, given.clients, config.shards_per_client, given.stream
    count = clients * each
    if len(labels) < count:
        raise DataError(
            f"{clients} clients with {each} shards each need {count} samples, and there are "
            f"{len(labels)}. Use fewer clients, a smaller data.shards_per_client, or a larger data.limit if one is set."
        )
    mixed = stream.permutation(len(labels))
    by_class = mixed[np.argsort(labels[mixed], kind="stable")]
    owner = given.nobodys()
    owners = stream.permutation(np.repeat(np.arange(clients), each))
    owner[by_class] = np.repeat(owners, apportion(len(labels), np.ones(count)))
    return _holdings(owner, clients)


def iid(given: Given, config: DataConfig) -> list[Indices]:
    """Each client holds a uniform draw of all samples, with shares by `quantity`. Raises DataError for too few."""
    owner = np.repeat(np.arange(given.clients), given.sizes(config))
    return _holdings(given.stream.permutation(owner), given.clients)


RULES: dict[str, Callable[[Given, DataConfig], list[Indices]]] = {
    rule.__name__: rule
    for rule in (pathological, dirichlet, iid, extended_dirichlet, inner_dirichlet, shards)
}
"""The rules that need no users and no file, by `data.partition`."""


def natural(user: Labels, clients: int, min_samples: int, stream: np.random.Generator) -> list[Indices]:
    """Each client holds the samples of one user. `user` [n] has each sample's.

    Users with fewer than `min_samples` samples are joined with the next such users until a group has enough. The rest
    joins the last group, or the smallest user. Of more groups than clients, random ones are chosen. Raises DataError.
    """
    held, sizes = np.unique(user, return_counts=True)
    groups = groups_of_users(sizes.tolist(), min_samples)
    if len(groups) < clients:
        raise DataError(
            f"{clients} clients are more than the {len(groups)} users with at least {min_samples} samples each "
            f"(of {len(held)} users, small ones joined). Use `clients={max(len(groups), 1)}`, or a smaller "
            "data.min_samples."
        )
    chosen = np.sort(stream.choice(len(groups), clients, replace=False))
    return [np.flatnonzero(np.isin(user, held[groups[group]])) for group in chosen]


def groups_of_users(sizes: Sequence[int], min_samples: int) -> list[list[int]]:
    """The users that make one client each, ordered by their first, from the number of samples of each user."""
    large = [[user] for user, size in enumerate(sizes) if size >= min_samples]
    joined: list[list[int]] = []
    rest: list[int] = []
    for user, size in enumerate(sizes):
        if size < min_samples:
            rest.append(user)
            if sum(sizes[each] for each in rest) >= min_samples:
                joined.append(rest)
                rest = []
    if rest and (joined or large):
        (joined[-1] if joined else min(large, key=lambda group: sizes[group[0]])).extend(rest)
    return sorted([*large, *joined])


def by_domain(given: Given, config: DataConfig, domain: Labels, names: Sequence[str]) -> list[Indices]:
    """Each client holds samples of exactly `domains_per_client` domains. `domain` [n] has each sample's domain.

    Domains have as equal numbers of owners as possible. A domain's samples are divided over its owners by the rule of
    `config`. Raises ConfigError if there are fewer domains than `domains_per_client`, or too few clients to hold all.
    """
    each, clients = config.domains_per_client, given.clients
    assert each is not None
    if each > len(names):
        raise ConfigError(
            f"data.domains_per_client is {each}, but the data set has {len(names)} domains "
            f"({', '.join(names)}); use at most {len(names)}."
        )
    if clients * each < len(names):
        raise ConfigError(
            f"{clients} clients of {each} domains each leave samples of {', '.join(names)} without a client; use "
            f"at least {-(-len(names) // each)} clients or a larger data.domains_per_client."
        )
    holds = _dealt(len(names), clients, each, given.stream)
    owner = given.nobodys()
    for number in range(len(names)):
        members, owners = np.flatnonzero(domain == number), np.flatnonzero(holds[:, number])
        own = given._replace(
            labels=given.labels[members], clients=len(owners), min_samples=-(-given.min_samples // each)
        )
        for client, held in zip(owners, RULES[config.partition](own, config), strict=True):
            owner[members[held]] = client
    return _holdings(owner, clients)


def _dealt(kinds: int, clients: int, kinds_per_client: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """The owners of classes or domains, [clients, kinds]. Each client takes the least held; ties are random."""
    holds = np.zeros((clients, kinds), dtype=bool)
    owners = np.zeros(kinds, dtype=np.int64)
    for client in range(clients):
        taken = np.lexsort((stream.random(kinds), owners))[:kinds_per_client]
        holds[client, taken] = True
        owners[taken] += 1
    return holds


def _lift_to_minimum(
    owner: Indices, sizes: NDArray[np.int64], min_samples: int, stream: np.random.Generator
) -> None:
    """Move random samples from the largest client to each below the minimum. No client falls below it."""
    for poor in np.flatnonzero(sizes < min_samples):
        while sizes[poor] < min_samples:
            rich = sizes.argmax()
            moved = min(min_samples - sizes[poor], sizes[rich] - min_samples)
            owner[stream.choice(np.flatnonzero(owner == rich), moved, replace=False)] = poor
            sizes[rich] -= moved
            sizes[poor] += moved


def _dirichlet_shares(
    may_take: NDArray[np.bool_], alpha: float, stream: np.random.Generator
) -> NDArray[np.float64]:
    """Weights from Dir(α), without those that may take nothing."""
    shares: NDArray[np.float64] = stream.dirichlet(np.full(len(may_take), alpha)) * may_take
    if not shares.sum() > 0:  # a tiny α underflows to zeros; then one takes everything
        shares = np.zeros(len(may_take))
        shares[stream.choice(np.flatnonzero(may_take))] = 1
    return shares


def _holdings(owner: Indices, clients: int) -> list[Indices]:
    """The ascending indices of each client's samples, from the owner of each sample."""
    by_owner = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[by_owner], np.arange(clients + 1))
    return [by_owner[starts[k] : starts[k + 1]] for k in range(clients)]


def apportion(total: int, weights: ArrayLike, minimum: ArrayLike = 0) -> NDArray[np.int64]:
    """Divide `total` into whole counts in proportion to `weights`, each at least its `minimum`.

    The largest remainders are rounded up, the earlier entry on a tie. So every count is within one of its exact share,
    unless a minimum raises it. Samples for a minimum come from the entries that are furthest above theirs. Raises
    ValueError if the minima exceed the total.
    """
    weight = np.asarray(weights, dtype=np.float64)
    least = np.broadcast_to(np.asarray(minimum, dtype=np.int64), weight.shape)
    if least.sum() > total:
        raise ValueError(f"{total} cannot give each its minimum, {least.sum()} in all")
    exact = total * (weight / weight.sum())
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    left_over = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left_over]] += 1
    while (short := np.flatnonzero(counts < least)).size:
        counts[(counts - least).argmax()] -= 1
        counts[short[0]] += 1
    return counts


class TooFew(DataError):
    """A client has too few samples for all parts."""


def stratified(
    indices: Indices, labels: Labels, shares: Sequence[float], client: int, stream: np.random.Generator
) -> tuple[Indices, ...]:
    """Divide one client's sample indices [n] with their labels [n] into parts (train first) by `shares`.

    Parts have their shares of n to within one. No part is empty, and the train part has every class; where that takes
    more than its share, the others give way. Raises TooFew when the client has too few samples for that.

    Each class comes close to its shares, but not to within a fixed number. The first sample of each of the K
    classes is trained on, and large classes compensate for it. With P parts, a class of c samples, and r = (c - 1)
    / (n - K), a part of share s has s c of it to within 1 + (P - 2) t + r + |r K - 1| max(s, 1 - s). t is the
    part's share of the n - K samples that are not a first one: `_others` gives a part of any stretch its share
    to within 1 + (P - 2) t.
    """
    held, rank = np.unique(labels, return_inverse=True)
    if len(indices) < max(len(held), 1) + len(shares) - 1:
        raise TooFew(
            f"client {client} holds {len(indices)} samples of {len(held)} classes, too few for "
            f"{len(shares)} parts with every class in training."
        )
    # Classes are in sequence. They and the samples of each are in random order.
    by_class = np.lexsort((stream.random(len(rank)), stream.permutation(len(held))[rank]))
    firsts = np.ones(len(indices), dtype=bool)
    firsts[1:] = labels[by_class[1:]] != labels[by_class[:-1]]
    part = np.zeros(len(indices), dtype=np.int64)
    part[by_class[~firsts]] = _others(len(indices), len(held), tuple(shares))
    return tuple(indices[part == number] for number in range(len(shares)))


@cache  # only a few are distinct, even for many clients
def _others(samples: int, classes: int, shares: tuple[float, ...]) -> Indices:
    """Part numbers by class without its first sample, evenly spread so that any stretch is a fair sample."""
    minimum = [max(classes, 1)] + [1] * (len(shares) - 1)
    train, *rest = apportion(samples, shares, minimum).tolist()
    totals = [train - classes, *rest]
    places = np.concatenate([(np.arange(total) + 0.5) / max(total, 1) for total in totals])
    return np.repeat(np.arange(len(totals)), totals)[np.argsort(places, kind="stable")]


def read_indices(path: Path, clients: int, samples: int) -> list[tuple[Indices, Indices, Indices]]:
    """Train, eval, and test indices of every client, from a list with an object for each: {"train": [...], ...}.

    An index is a sample's position in the data set, its own test samples last. `eval` may be missing. Clients may share
    samples, and equal parts of two clients are one array. Raises DataError with the client and the part.
    """
    content = read_bytes(path, f"the partition {path}", INDICES_BYTES, DataError)
    if limits.values(content) > MOST_INDICES:
        raise DataError(f"{path} has more than {MOST_INDICES:,} values. Use fewer clients or samples.")
    try:
        described = json.loads(content)
    except (ValueError, RecursionError) as invalid:
        raise DataError(f"{path} is not JSON: {invalid}.") from invalid
    if not isinstance(described, list):
        raise DataError(f"{path} must be a list with an object of indices for each client.")
    if len(described) != clients:
        raise DataError(
            f"{path} has the indices of {len(described)} clients, federation.clients is {clients}; "
            f"use `clients={len(described)}`, or complete the file."
        )
    known: dict[bytes, Indices] = {}
    divisions = []
    for client, parts in enumerate(described):
        where = f"{path}, client {client}"
        if not isinstance(parts, dict) or parts.keys() - set(PARTS) or not {"train", "test"} <= parts.keys():
            raise DataError(
                f'{where}: must be {{"train": [...], "eval": [...], "test": [...]}}, without or with eval.'
            )
        arrays = [_checked(parts.get(name, []), samples, f"{where}, {name}") for name in PARTS]
        for name, array in zip(PARTS, arrays, strict=True):
            if not len(array) and name != "eval":
                raise DataError(f"{where}: its {name} part is empty; give it samples.")
        for one, other in ((0, 2), (0, 1), (1, 2)):
            if len(common := np.intersect1d(arrays[one], arrays[other])):
                raise DataError(
                    f"{where}: sample {common[0]} is in both {PARTS[one]} and {PARTS[other]}; it can be in one of them."
                )
        train, evaluation, test = (known.setdefault(array.tobytes(), array) for array in arrays)
        divisions.append((train, evaluation, test))
    return divisions


def _checked(given: Any, samples: int, where: str) -> Indices:
    if not isinstance(given, list) or not all(type(index) is int for index in given):
        raise DataError(f"{where}: must be a list of whole numbers.")
    if outside := [index for index in given if not 0 <= index < samples]:
        raise DataError(f"{where}: there is no sample {outside[0]}; the data set has 0 to {samples - 1}.")
    array = np.array(given, dtype=np.int64)
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise DataError(f"{where}: sample {values[counts > 1][0]} appears twice.")
    return array
