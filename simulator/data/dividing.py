"""The samples of each client before the first round: partition, then split."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from simulator.base import rng
from simulator.base.data_section import DataConfig, split_shares
from simulator.base.errors import ConfigError, DataError
from simulator.data import indices, partition
from simulator.data.samples import Indices, LabeledSet, Labels
from simulator.data.split import TooFew, stratified

Parts = tuple[Indices, Indices, Indices]
"""Train, eval and test indices of one client."""


def divided(config: DataConfig, clients: int, seed: int, samples: LabeledSet) -> list[Parts]:
    """Every client's train, eval, and test indices, as configured. Raises ConfigError or DataError."""
    try:
        return _divided(config, clients, seed, samples)
    except TooFew as error:
        ways = ["use fewer clients", *(["raise data.limit"] if config.limit is not None else [])]
        for key, value in _ways_to_give_more(config, samples):
            with suppress(ConfigError, DataError):
                _divided(config.model_copy(update={key: value}), clients, seed, samples)
                ways.append(f"use `data.{key}={value}`")
        raise DataError(f"{error} To give each client enough, {', or '.join(ways)}.") from error


def _divided(config: DataConfig, clients: int, seed: int, samples: LabeledSet) -> list[Parts]:
    if config.indices is not None:
        return indices.read(Path(config.indices), clients, len(samples))
    none = np.empty(0, dtype=np.int64)
    if config.split in ("global", "own") and not samples.has_test_set:
        raise DataError(
            f"data set '{config.dataset}' has no test set of its own, which split '{config.split}' needs. "
            "Use another split: `data.split=8:1:1`."
        )
    if config.split == "own":
        holdings = _partitioned(config, clients, seed, samples, len(samples))
        own = [np.split(held, [np.searchsorted(held, samples.test_from)]) for held in holdings]
        for client, (train, test) in enumerate(own):
            if not len(train) or not len(test):
                raise DataError(
                    f"client {client} has {len(train)} samples for training and {len(test)} for test, and split 'own' "
                    "needs both. Use another split, such as `data.split=8:1:1`, or a larger data.min_samples."
                )
        return [(train, none, test) for train, test in own]
    if config.split == "global":
        test = np.arange(samples.test_from, len(samples))
        holdings = _partitioned(config, clients, seed, samples, samples.test_from)
        return [(held, none, test) for held in holdings]
    shares = split_shares(config.split)
    holdings = _partitioned(config, clients, seed, samples, len(samples))
    divisions = []
    for client, held in enumerate(holdings):
        stream = rng.numpy_stream(seed, "data/split", client=client)
        train, *evaluation, test = stratified(held, samples.labels[held], shares, client, stream)
        divisions.append((train, evaluation[0] if evaluation else none, test))
    return divisions


def _ways_to_give_more(config: DataConfig, samples: LabeledSet) -> Iterator[tuple[str, object]]:
    """Settings with which clients may get enough samples for all parts of a split."""
    if samples.has_test_set:
        yield "split", "global"
    if config.reads("min_samples"):
        yield "min_samples", len(samples.classes) + len(split_shares(config.split)) - 1
    if config.partition == "iid":
        yield "partition", "pathological"


def _partitioned(
    config: DataConfig, clients: int, seed: int, samples: LabeledSet, upto: int
) -> list[Indices]:
    """The clients' shares of the first `upto` samples."""
    labels, num_classes = samples.labels[:upto], len(samples.classes)
    stream = rng.numpy_stream(seed, "data/partition")
    if config.partition == "natural":
        if samples.user is None:
            raise ConfigError(
                f"data set '{config.dataset}' does not say which user each sample is from, which partition 'natural' "
                "needs. Use another data.partition, or name the column of users in data.client for a table."
            )
        return partition.natural(samples.user[:upto], clients, config.min_samples, stream)
    if config.domains_per_client is None:
        return by_rule(config, labels, num_classes, clients, config.min_samples, stream)
    if samples.domain is None:
        raise ConfigError(
            f"data set '{config.dataset}' has no domains to deal out; use digits_domains, fashion_mnist_domains or a "
            "folder with a folder for each domain, or leave out data.domains_per_client."
        )
    least = -(-config.min_samples // config.domains_per_client)

    def divide(indices: Indices, owners: int) -> list[Indices]:
        return by_rule(config, labels[indices], num_classes, owners, least, stream)

    return partition.by_domain(
        samples.domain[:upto], samples.domains, clients, config.domains_per_client, divide, stream
    )


def by_rule(
    config: DataConfig,
    labels: Labels,
    num_classes: int,
    clients: int,
    min_samples: int,
    stream: np.random.Generator,
) -> list[Indices]:
    """Images of these labels, divided over the clients by `data.partition`."""
    alpha, each = config.alpha, config.classes_per_client
    if config.partition == "dirichlet":
        return partition.dirichlet(labels, num_classes, clients, alpha, min_samples, stream, config.cap)
    if config.partition == "extended_dirichlet":
        return partition.extended_dirichlet(
            labels, num_classes, clients, each, alpha, min_samples, stream, config.cap
        )
    if config.partition == "shards":
        return partition.shards(labels, clients, config.shards_per_client, stream)
    if config.quantity == "pfllib":
        return partition.pathological_as_pfllib(labels, num_classes, clients, each, min_samples, stream)
    quantity = (
        partition.LogNormal(config.sigma, min_samples) if config.quantity == "lognormal" else config.quantity
    )
    if config.partition == "pathological":
        return partition.pathological(labels, num_classes, clients, each, quantity, stream)
    if config.partition == "inner_dirichlet":
        return partition.inner_dirichlet(labels, num_classes, clients, alpha, quantity, stream)
    return partition.iid(labels, clients, quantity, stream)
