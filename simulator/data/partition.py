"""The partitions of samples over clients: pathological, Dirichlet, IID, by user, and any of the first three by domain.

Each function is pure: the same labels and generator state give the same partition. Each assigns one owner per sample.
None loops without a bound, and none leaves a client empty.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import ConfigError, DataError
from simulator.data.samples import Indices, Labels
from simulator.data.shares import apportion

NOBODY = -1


def pathological(
    labels: Labels,
    num_classes: int,
    clients: int,
    classes_per_client: int,
    quantity: Literal["varied", "equal"],
    stream: np.random.Generator,
) -> list[Indices]:
    """Each client holds exactly `classes_per_client` classes (Shamsian et al. 2021, pFedHN).

    A class's samples are divided over its owners in proportion to draws from U(0.4, 0.6), or equally. Classes have as
    equal numbers of owners as possible. Raises ConfigError if there are fewer classes than `classes_per_client`;
    DataError if a class has fewer samples than owners.
    """
    _check_classes(classes_per_client, num_classes)
    holds = _dealt(num_classes, clients, classes_per_client, stream)
    owner = _nobodys(labels)
    for label in range(num_classes):
        members = stream.permutation(np.flatnonzero(labels == label))
        owners = np.flatnonzero(holds[:, label])
        if len(owners) == 0:
            continue
        if len(members) < len(owners):
            raise DataError(
                f"class {label} has {len(members)} samples for the {len(owners)} clients that should hold it. "
                "Use fewer clients, a smaller data.classes_per_client, or a larger data.limit if one is set."
            )
        counts = apportion(len(members), _weights(len(owners), quantity, stream), minimum=1)
        owner[members] = np.repeat(owners, counts)
    return _holdings(owner, clients)


def pathological_as_pfllib(
    labels: Labels,
    num_classes: int,
    clients: int,
    classes_per_client: int,
    min_samples: int,
    stream: np.random.Generator,
) -> list[Indices]:
    """Classes in blocks of very different sizes, as in PFLlib (d832e76, dataset/utils/dataset_utils.py, lines 53–85).

    Class by class, the first ⌈N/C · c⌉ clients with fewer than c classes share its samples in order. All but the last
    draw from [max(m/10, least/C), m). m is an equal share. `least` is the smaller of `min_samples` and half of a fair
    share of all samples. The last client takes the rest. Classes without a client are left out. Raises ConfigError if
    there are fewer classes than `classes_per_client`; DataError if a client would stay empty.
    """
    _check_classes(classes_per_client, num_classes)
    at_a_time = -(-clients * classes_per_client // num_classes)
    least = int(min(min_samples, len(labels) / clients / 2))
    owner, held = _nobodys(labels), np.zeros(clients, dtype=np.int64)
    for label in range(num_classes):
        members = np.flatnonzero(labels == label)
        owners = np.flatnonzero(held < classes_per_client)[:at_a_time]
        if len(owners) == 0:
            break
        share = len(members) / len(owners)
        low, high = int(max(share / 10, least / num_classes)), int(share)
        if low >= high:
            raise DataError(
                f"class {label} has {len(members)} samples for {len(owners)} clients, too few for PFLlib's rule. "
                "Use fewer clients, or a larger data.limit if one is set."
            )
        counts = stream.integers(low, high, len(owners) - 1)
        owner[members] = np.repeat(owners, [*counts, len(members) - counts.sum()])
        held[owners] += 1
    return _holdings(owner, clients)


def dirichlet(
    labels: Labels,
    num_classes: int,
    clients: int,
    alpha: float,
    min_samples: int,
    stream: np.random.Generator,
    cap: bool = True,
) -> list[Indices]:
    """Each class's samples are divided over the clients by proportions from Dir(α) (Lin et al. 2020, FedDF).

    As in their code, a client that already has its fair share n/N gets no samples of later classes, unless `cap` is
    off. Their code draws again until each client has `min_samples`. Here, the largest clients give samples to the
    others. Raises DataError if there are too few samples.
    """
    if clients * min_samples > len(labels):
        raise DataError(
            f"{clients} clients with at least {min_samples} samples each need {clients * min_samples} "
            f"samples, and there are {len(labels)}. Use at most {len(labels) // min_samples} clients, "
            "or lower data.min_samples."
        )
    owner = _nobodys(labels)
    sizes = np.zeros(clients, dtype=np.int64)
    for label in range(num_classes):
        members = stream.permutation(np.flatnonzero(labels == label))
        if len(members) == 0:
            continue
        below_fair_share = sizes < len(labels) / clients if cap else np.ones(clients, dtype=bool)
        shares = stream.dirichlet(np.full(clients, alpha)) * below_fair_share
        if not shares.sum() > 0:  # a tiny α underflows to zeros; then one client gets all samples
            shares = np.eye(clients)[stream.choice(np.flatnonzero(below_fair_share))]
        counts = apportion(len(members), shares)
        owner[members] = np.repeat(np.arange(clients), counts)
        sizes += counts
    _lift_to_minimum(owner, sizes, min_samples, stream)
    return _holdings(owner, clients)


def iid(
    labels: Labels, clients: int, quantity: Literal["varied", "equal"], stream: np.random.Generator
) -> list[Indices]:
    """Each client holds a uniform draw of all samples, with shares in proportion to U(0.4, 0.6), or equal.

    Raises DataError if there are fewer samples than clients.
    """
    if len(labels) < clients:
        raise DataError(
            f"{len(labels)} samples are too few for {clients} clients. Use at most {len(labels)} clients."
        )
    counts = apportion(len(labels), _weights(clients, quantity, stream), minimum=1)
    return _holdings(stream.permutation(np.repeat(np.arange(clients), counts)), clients)


def natural(user: Labels, clients: int, min_samples: int, stream: np.random.Generator) -> list[Indices]:
    """Each client holds the samples of one user. `user` [n] has each sample's.

    Users with fewer than `min_samples` samples are joined with the next such users until a group has enough. What is
    left at the end joins the last group, or the smallest user if there is none. If there are more groups than
    clients, random ones are chosen. Raises DataError if there are fewer.
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
    """The users that make one client each: large ones alone, small ones joined. Ordered by their first user.

    `sizes` has the number of samples of each user.
    """
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


def by_domain(
    domain: Labels,
    names: tuple[str, ...],
    clients: int,
    domains_per_client: int,
    divide: Callable[[Indices, int], list[Indices]],
    stream: np.random.Generator,
) -> list[Indices]:
    """Each client holds samples of exactly `domains_per_client` domains. `domain` [n] has each sample's domain.

    Domains have as equal numbers of owners as possible. A domain's samples are divided over its owners by
    `divide(indices, owners)`, which returns positions in `indices`. Raises ConfigError if there are fewer domains than
    `domains_per_client`, or too few clients to hold all domains.
    """
    if domains_per_client > len(names):
        raise ConfigError(
            f"data.domains_per_client is {domains_per_client}, but the data set has {len(names)} domains "
            f"({', '.join(names)}); use at most {len(names)}."
        )
    if clients * domains_per_client < len(names):
        raise ConfigError(
            f"{clients} clients of {domains_per_client} domains each leave samples of "
            f"{', '.join(names)} without a client; use "
            f"at least {-(-len(names) // domains_per_client)} clients or a larger data.domains_per_client."
        )
    holds = _dealt(len(names), clients, domains_per_client, stream)
    owner = _nobodys(domain)
    for number in range(len(names)):
        members, owners = np.flatnonzero(domain == number), np.flatnonzero(holds[:, number])
        for client, held in zip(owners, divide(members, len(owners)), strict=True):
            owner[members[held]] = client
    return _holdings(owner, clients)


def _check_classes(classes_per_client: int, num_classes: int) -> None:
    if classes_per_client > num_classes:
        raise ConfigError(
            f"data.classes_per_client is {classes_per_client}, but the data set has {num_classes} classes; "
            f"use at most {num_classes}."
        )


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


def _weights(
    count: int, quantity: Literal["varied", "equal"], stream: np.random.Generator
) -> NDArray[np.float64]:
    return stream.uniform(0.4, 0.6, count) if quantity == "varied" else np.ones(count)


def _nobodys(labels: Labels) -> Indices:
    return np.full(len(labels), NOBODY, dtype=np.int64)


def _holdings(owner: Indices, clients: int) -> list[Indices]:
    """The ascending indices of each client's samples, from the owner of each sample."""
    by_owner = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[by_owner], np.arange(clients + 1))
    return [by_owner[starts[k] : starts[k + 1]] for k in range(clients)]
