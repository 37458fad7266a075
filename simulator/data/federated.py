"""The federation's data on the device: the samples once, and the indices of each client's parts."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.data_section import DataConfig, split_shares
from simulator.base.errors import ConfigError, DataError
from simulator.data import indices, partition
from simulator.data.inputs import Inputs, inputs_of
from simulator.data.samples import Indices, Labels, SampleSet
from simulator.data.shares import apportion
from simulator.data.specs import InputSpec
from simulator.data.split import TooFew, stratified


@dataclass(frozen=True, eq=False)
class ClientData:
    """One client's samples as int64 indices on the device. `eval` is empty if the split has no such part.

    `classes` is S_k, the ascending classes of the train part, and `class_counts` has its samples of each. `domains` are
    those of its samples, ascending; none if the data set has none.
    """

    train: Tensor
    eval: Tensor
    test: Tensor
    classes: tuple[int, ...]
    class_counts: tuple[int, ...]
    domains: tuple[int, ...] = ()

    def part(self, name: str) -> Tensor:
        """The indices of 'train', 'eval' or 'test'."""
        return {"train": self.train, "eval": self.eval, "test": self.test}[name]

    @property
    def num_train(self) -> int:
        return len(self.train)

    @property
    def num_eval(self) -> int:
        return len(self.eval)

    @property
    def num_test(self) -> int:
        return len(self.test)


@dataclass(frozen=True)
class Source:
    """The source of a federation's data: enough to load and divide them again, on any machine."""

    config: DataConfig
    clients: int
    seed: int
    """The seed of the partition."""
    folder: Path
    """The folder of the data sets."""


@dataclass(frozen=True, eq=False)
class FederatedData:
    """All clients' data on one device: samples of any kind, labels int64 [n], indices per client."""

    inputs: Inputs
    labels: Tensor
    classes: tuple[str, ...]
    clients: tuple[ClientData, ...]
    fingerprint: str
    """SHA-256 (hex) of the samples, their labels and every client's indices."""
    domains: tuple[str, ...] = ()
    source: Source | None = None
    """None if the data were made and not loaded."""

    @classmethod
    def build(
        cls, config: DataConfig, clients: int, seed: int, samples: SampleSet, device: torch.device
    ) -> "FederatedData":
        """Choose the pool, limit, partition, and split `samples` as configured, and move them to the device.

        Raises ConfigError or DataError if they cannot be divided that way.
        """
        if config.pool is not None:
            samples = pooled(samples, config.pool)
        if config.limit is not None and config.limit < len(samples):
            samples = limited(samples, config.limit, rng.numpy_stream(seed, "data/limit"))
        parts = divided(config, clients, seed, samples)
        return cls(
            inputs=inputs_of(samples, config, [train for train, _, _ in parts]).to(device),
            labels=torch.from_numpy(samples.labels).to(device),
            classes=samples.classes,
            clients=_on_device(parts, samples, device),
            fingerprint=fingerprint(samples, parts),
            domains=samples.domains,
        )

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def spec(self) -> InputSpec:
        """The form of a sample in a batch."""
        return self.inputs.spec

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Samples as models take them [b, …], and labels int64 [b]."""
        return self.inputs.batch(indices), self.labels.index_select(0, indices)

    def summary(self) -> list[dict[str, Any]]:
        """Per client: samples of each part, the names of its classes with their training samples, and its domains."""
        return [
            {
                "client": number,
                "train": client.num_train,
                "eval": client.num_eval,
                "test": client.num_test,
                "classes": {
                    self.classes[label]: count
                    for label, count in zip(client.classes, client.class_counts, strict=True)
                },
                "domains": [self.domains[domain] for domain in client.domains],
            }
            for number, client in enumerate(self.clients)
        ]


Parts = tuple[Indices, Indices, Indices]
"""Train, eval and test indices of one client."""


TUNING_SHARE = 5
"""One in this many samples belongs to the pool for tuning."""


def pooled(samples: SampleSet, pool: str) -> SampleSet:
    """The samples of a pool, the same for every seed: "tuning" has a fifth of them, "final" all others."""
    tuning = _drawn(samples, len(samples) // TUNING_SHARE, rng.numpy_stream(0, "data/pool"))
    chosen = tuning if pool == "tuning" else np.setdiff1d(np.arange(len(samples)), tuning)
    return samples.take(chosen)


def limited(samples: SampleSet, limit: int, stream: np.random.Generator) -> SampleSet:
    """`limit` samples drawn without replacement. The shares of classes, domains, and the data set's test set stay."""
    return samples.take(_drawn(samples, limit, stream))


def _drawn(samples: SampleSet, number: int, stream: np.random.Generator) -> Indices:
    """The indices of a draw, ascending. The shares of classes, domains, and the data set's test set stay."""
    is_test = np.arange(len(samples)) >= samples.test_from
    stratum = 2 * samples.labels + is_test
    if samples.domain is not None:
        stratum = stratum * len(samples.domains) + samples.domain
    counts = apportion(number, np.bincount(stratum))
    members = np.lexsort((stream.random(len(samples)), stratum))
    starts = np.searchsorted(stratum[members], np.arange(len(counts)))
    drawn = [members[start : start + count] for start, count in zip(starts, counts, strict=True)]
    return np.sort(np.concatenate(drawn))


def divided(config: DataConfig, clients: int, seed: int, samples: SampleSet) -> list[Parts]:
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


def _divided(config: DataConfig, clients: int, seed: int, samples: SampleSet) -> list[Parts]:
    if config.indices is not None:
        return indices.read(Path(config.indices), clients, len(samples))
    none = np.empty(0, dtype=np.int64)
    if config.split == "global":
        if not samples.has_test_set:
            raise DataError(
                f"data set '{config.dataset}' has no test set of its own, which split 'global' needs. "
                "Use another split: `data.split=8:1:1`."
            )
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


def _ways_to_give_more(config: DataConfig, samples: SampleSet) -> Iterator[tuple[str, object]]:
    """Settings with which clients may get enough samples for all parts of a split."""
    if samples.has_test_set:
        yield "split", "global"
    if config.partition in ("dirichlet", "natural"):
        yield "min_samples", len(samples.classes) + len(split_shares(config.split)) - 1
    if config.partition == "iid":
        yield "partition", "pathological"


def fingerprint(samples: SampleSet, clients: Sequence[Parts]) -> str:
    """SHA-256 (hex) of the samples' fingerprint, and of the lengths and contents of every client's parts."""
    digest = hashlib.sha256(samples.fingerprint.encode())
    for parts in clients:
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(part, dtype="<i8").data)
    return digest.hexdigest()


def _partitioned(config: DataConfig, clients: int, seed: int, samples: SampleSet, upto: int) -> list[Indices]:
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
        return _by_rule(config, labels, num_classes, clients, config.min_samples, stream)
    if samples.domain is None:
        raise ConfigError(
            f"data set '{config.dataset}' has no domains to deal out; use digits_domains, fashion_mnist_domains or a "
            "folder with a folder for each domain, or leave out data.domains_per_client."
        )
    least = -(-config.min_samples // config.domains_per_client)

    def divide(indices: Indices, owners: int) -> list[Indices]:
        return _by_rule(config, labels[indices], num_classes, owners, least, stream)

    return partition.by_domain(
        samples.domain[:upto], samples.domains, clients, config.domains_per_client, divide, stream
    )


def _by_rule(
    config: DataConfig,
    labels: Labels,
    num_classes: int,
    clients: int,
    min_samples: int,
    stream: np.random.Generator,
) -> list[Indices]:
    """Images of these labels, divided over the clients by `data.partition`."""
    if config.partition == "dirichlet":
        return partition.dirichlet(
            labels, num_classes, clients, config.alpha, min_samples, stream, config.cap
        )
    if config.quantity == "pfllib":
        return partition.pathological_as_pfllib(
            labels, num_classes, clients, config.classes_per_client, min_samples, stream
        )
    if config.partition == "pathological":
        return partition.pathological(
            labels, num_classes, clients, config.classes_per_client, config.quantity, stream
        )
    return partition.iid(labels, clients, config.quantity, stream)


def _on_device(parts: list[Parts], samples: SampleSet, device: torch.device) -> tuple[ClientData, ...]:
    """The clients' indices as tensors. An array that several clients share becomes one tensor."""
    moved: dict[int, Tensor] = {}

    def tensor(part: Indices) -> Tensor:
        if id(part) not in moved:
            moved[id(part)] = torch.from_numpy(part).to(device)
        return moved[id(part)]

    clients = []
    for train, evaluation, test in parts:
        held, counts = np.unique(samples.labels[train], return_counts=True)
        clients.append(
            ClientData(
                train=tensor(train),
                eval=tensor(evaluation),
                test=tensor(test),
                classes=tuple(held.tolist()),
                class_counts=tuple(counts.tolist()),
                domains=() if samples.domain is None else tuple(np.unique(samples.domain[train]).tolist()),
            )
        )
    return tuple(clients)
