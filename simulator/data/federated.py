"""The federation's data on the device: the samples once, the indices of each client's parts, and public samples."""

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.data_section import DataConfig
from simulator.base.documents import Report
from simulator.base.errors import ConfigError
from simulator.base.timeline import Happening
from simulator.data import datasets
from simulator.data.dividing import Changed, Changes, Parts, divided
from simulator.data.inputs import ImageInputs, Inputs, NumberInputs, inputs_of
from simulator.data.partition import PARTS, apportion
from simulator.data.samples import (
    NOTHING_SAID,
    Form,
    ImageSet,
    Indices,
    LabeledSet,
    Labels,
    Reading,
    SampleSet,
    UnfittedSet,
    report_of,
)
from simulator.data.specs import InputSpec, TokenSpec


@dataclass(frozen=True, eq=False)
class PublicData:
    """Public samples on one device, numbered from 0, in the form of the clients' own."""

    inputs: Inputs
    labels: Tensor
    """The classes of the data set that the samples are from, int64 [n]."""
    num_classes: int
    seed: int
    """The seed of the partition, from which rounds draw their samples. A fork keeps it."""
    fingerprint: str
    """SHA-256 (hex) of the samples and labels."""
    unknown: tuple[tuple[str, int], ...] = ()
    """Values that the form of the clients' samples has no place for, with the number of public samples."""

    @classmethod
    def of(
        cls, shown: SampleSet, config: DataConfig, seed: int, samples: SampleSet, inputs: Inputs
    ) -> "PublicData":
        """Samples `shown` in the form of the clients' `samples`, which have these `inputs`. Raises ConfigError.

        Images of another data set are normalized on themselves, and other samples as the clients' are.
        """
        name, everything = f"data.public = '{config.public}'", [np.arange(len(shown))]

        def check(public: InputSpec, clients: InputSpec, fits: bool) -> None:
            if not fits:
                are_images = public.kind == clients.kind == "image"
                remedy = "Use data.size and data.rgb, or" if are_images else "Use"
                raise ConfigError(
                    f"{name} has {public.noun} of {public}, and '{config.dataset}' has {clients.noun} of {clients}. "
                    f"{remedy} another data set, or a share such as 0.1."
                )

        check(shown.spec, samples.spec, shown.spec.kind == samples.spec.kind)
        if config.statistics == "client":  # nobody knows the means of all clients, and all know these samples
            held: Inputs = inputs_of(shown, config.model_copy(update={"statistics": "pooled"}), everything)
        elif isinstance(inputs, NumberInputs):
            check(shown.spec, samples.spec, shown.spec == samples.spec)
            held = replace(inputs, numbers=torch.from_numpy(shown.values))
        elif isinstance(inputs, ImageInputs) and isinstance(config.public, float):
            held = replace(inputs, images=torch.from_numpy(shown.values))
        else:
            held = inputs_of(shown, config, everything)
        check(held.spec, inputs.spec, held.spec == inputs.spec)
        if shown.names != samples.names:
            raise ConfigError(
                f"{name} has other tokens, channels, or features than '{config.dataset}', so the same numbers mean "
                "something else. Use a share of the samples, such as 0.1."
            )
        labels = torch.from_numpy(shown.labels)
        return cls(held, labels, len(shown.classes), seed, shown.fingerprint, shown.unknown)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor) -> Tensor:
        """The samples at these indices [b] as models take them: [b, …]."""
        return self.inputs.batch(indices)

    def of_round(self, round: int, most: int | None) -> Tensor:
        """Indices of the samples that everybody uses in a round, int64, ascending, on the device: all, or `most` drawn.

        They follow from the partition's seed, which everybody knows, so nobody has to send them.
        """
        if most is None or most >= len(self):
            return torch.arange(len(self), device=self.labels.device)
        stream = rng.torch_stream(self.seed, "data/public/round", round)
        return torch.randperm(len(self), generator=stream)[:most].sort().values.to(self.labels.device)

    def to(self, device: torch.device) -> "PublicData":
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))


AnySet = TypeVar("AnySet", bound=LabeledSet)


def set_apart(samples: AnySet, config: DataConfig, seed: int) -> tuple[AnySet, AnySet]:
    """The samples without the share in `data.public`, and that share. Raises ConfigError for none or all of them.

    Both keep the shares of classes and domains. With split 'global' or 'own', the share is one of the training samples.
    """
    assert isinstance(config.public, float)
    upto = samples.test_from if config.split in ("global", "own") else len(samples)
    number = round(config.public * upto)
    if not 1 < number < upto:
        few = "less than two public" if number < 2 else "only public"
        raise ConfigError(
            f"data.public = {config.public:g} of {upto} samples leaves {few} samples. Use another share."
        )
    public = drawn(samples, number, rng.numpy_stream(seed, "data/public"), upto)
    return samples.take(np.setdiff1d(np.arange(len(samples)), public)), samples.take(public)


def of_data_set(samples: AnySet, config: DataConfig, seed: int) -> AnySet:
    """The public samples of another data set: those of its training part, or `data.public_limit` of them."""
    number = min(samples.test_from, config.public_limit or samples.test_from)
    if number == len(samples):
        return samples
    return samples.take(drawn(samples, number, rng.numpy_stream(seed, "data/public"), samples.test_from))


def drawn(samples: LabeledSet, number: int, stream: np.random.Generator, upto: int | None = None) -> Indices:
    """The indices of a draw, ascending. The shares of classes, domains, and the data set's test set stay.

    upto: only from the samples before this index.
    """
    labels = samples.labels[:upto]
    is_test = np.arange(len(labels)) >= samples.test_from
    stratum = 2 * labels + is_test
    if samples.domain is not None:
        stratum = stratum * len(samples.domains) + samples.domain[:upto]
    counts = apportion(number, np.bincount(stratum))
    members = np.lexsort((stream.random(len(labels)), stratum))
    starts = np.searchsorted(stratum[members], np.arange(len(counts)))
    chosen = [members[start : start + count] for start, count in zip(starts, counts, strict=True)]
    return np.sort(np.concatenate(chosen))


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


@dataclass(frozen=True)
class Source:
    """The source of a federation's data: enough to load and divide them again, on any machine."""

    config: DataConfig
    clients: int
    seed: int
    """The seed of the partition."""
    folder: Path
    """The folder of the data sets."""
    changes: tuple[Happening, ...] = ()
    """The events of `federation.timeline` that change data, in order."""
    measured: tuple[int, ...] | None = None
    """The clients that are measured: see `FederatedData.build`."""


@dataclass(frozen=True, eq=False)
class Later:
    round: int
    clients: tuple[ClientData, ...]


@dataclass(frozen=True, eq=False)
class FederatedData:
    """All clients' data on one device: samples of any kind, labels int64 [n], indices per client."""

    inputs: Inputs
    labels: Tensor
    classes: tuple[str, ...]
    clients: tuple[ClientData, ...]
    fingerprint: str
    """SHA-256 (hex) of the samples, their labels, every client's indices, and the public samples."""
    domains: tuple[str, ...] = ()
    source: Source | None = None
    """None if the data were made and not loaded."""
    later: tuple["Later", ...] = ()
    """The clients' data from later rounds on, in order."""
    blocks: int = 1
    """Blocks of labels, each as long as the samples (`dividing`)."""
    first: tuple[ClientData, ...] = ()
    """The clients' data before round 1, if these are of a later round."""
    names: tuple[str, ...] = ()
    """The text of each token, or the name of each channel or feature; empty if unknown."""
    public: PublicData | None = None
    """The samples of `data.public`."""
    apart: bool = False
    """Whether each client has its own normalization. Index n·blocks·k + i is then index i of client k."""
    unknown: tuple[tuple[str, int], ...] = ()
    """Values that no measured sample has, and the number of samples with them (`SampleSet.unknown`)."""
    reading: Reading = NOTHING_SAID
    """What the reader left out and found odd."""
    report: Report | None = None
    """What was read, if the data were loaded."""

    @classmethod
    def build(
        cls,
        config: DataConfig,
        clients: int,
        seed: int,
        samples: LabeledSet,
        device: torch.device,
        happenings: Sequence[Happening] = (),
        shown: LabeledSet | None = None,
        measured: Collection[int] | None = None,
    ) -> "FederatedData":
        """Choose the pool, limit, partition, and split `samples` as configured, and move them to the device.

        `shown` are the samples of the data set in `data.public`. Everything that is taken from the values of samples
        (columns, vocabulary, channels, means, deviations) is taken from the training parts of the clients in
        `measured`, by default of all. Raises ConfigError or DataError if the samples cannot be divided that way.
        """
        if config.pool is not None:
            samples = pooled(samples, config.pool)
        if config.limit is not None and config.limit < len(samples):
            samples = samples.take(drawn(samples, config.limit, rng.numpy_stream(seed, "data/limit")))
        if isinstance(config.public, float):
            samples, shown = set_apart(samples, config, seed)
        parts = divided(config, clients, seed, samples)
        changes = Changes(config, samples, parts, seed)
        changed = changes.after(happenings)
        labels = np.concatenate(changes.labels) if changed else samples.labels
        apart = config.statistics == "client"
        first, *others = _on_device(
            [parts, *(each.parts for each in changed)], labels, samples, device, apart
        )
        trains = [train for train, _, _ in parts]
        seen = trains if measured is None else [trains[client] for client in sorted(measured)]
        held = np.unique(np.concatenate(seen))
        form = samples.learned(None if config.statistics == "all" else held)
        formed = form(samples)
        inputs = inputs_of(formed, config, seen if config.statistics == "pooled" else trains)
        public = None
        if shown is not None:
            public = PublicData.of(_formed(shown, samples, form, config), config, seed, formed, inputs)
        found = fingerprint(formed, parts, changed, changes.labels[1:])
        is_published = isinstance(formed, ImageSet) and formed.mean is not None
        is_measured = config.statistics != "all" and not isinstance(formed.spec, TokenSpec)
        if is_measured and (apart or (not is_published and len(seen) < len(trains))):
            found = _with_measured(found, apart, held)
        if public is not None:
            found = hashlib.sha256(f"{found} public {public.fingerprint}".encode()).hexdigest()
            unknown: Counter[str] = Counter(dict(formed.unknown))
            unknown.update(dict(public.unknown))
        return cls(
            inputs=inputs.to(device),
            labels=torch.from_numpy(labels).to(device),
            classes=samples.classes,
            clients=first,
            fingerprint=found,
            domains=samples.domains,
            later=tuple(Later(each.round, held) for each, held in zip(changed, others, strict=True)),
            blocks=len(changes.labels),
            names=formed.names,
            public=None if public is None else public.to(device),
            apart=apart,
            unknown=formed.unknown if public is None else tuple(sorted(unknown.items())),
            reading=formed.reading,
        )

    def at(self, round: int) -> "FederatedData":
        begun = [each for each in self.later if each.round <= round]
        clients = begun[-1].clients if begun else self._first
        if clients is self.clients:
            return self
        return replace(self, clients=clients, later=self.later, first=self._first)

    @property
    def _first(self) -> tuple[ClientData, ...]:
        return self.first or self.clients

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def spec(self) -> InputSpec:
        """The form of a sample in a batch."""
        return self.inputs.spec

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Samples as models take them [b, …], and labels int64 [b]."""
        clients = indices // len(self.labels) if self.apart else None
        return self.inputs.batch(self.places(indices), clients), self.labels_of(indices)

    def labels_of(self, indices: Tensor) -> Tensor:
        """The labels at these indices, int64 [b]."""
        return self.labels.index_select(0, indices % len(self.labels) if self.apart else indices)

    def places(self, indices: Tensor) -> Tensor:
        """The places [b] of samples in `inputs`."""
        if not self.apart and self.blocks == 1:
            return indices
        return indices % (len(self.labels) // self.blocks)

    def as_client(self, indices: Tensor, client: int) -> Tensor:
        """The indices of the same samples with the normalization of this client."""
        return indices % len(self.labels) + client * len(self.labels) if self.apart else indices

    def summary(self) -> list[dict[str, Any]]:
        """Per client: samples of each part, the names of its classes with their training samples, and its domains."""
        return [
            {
                "client": number,
                **{name: len(client.part(name)) for name in PARTS},
                "classes": {
                    self.classes[label]: count
                    for label, count in zip(client.classes, client.class_counts, strict=True)
                },
                "domains": [self.domains[domain] for domain in client.domains],
            }
            for number, client in enumerate(self.clients)
        ]


TUNING_SHARE = 5
"""One in this many samples belongs to the pool for tuning."""


def pooled(samples: AnySet, pool: str) -> AnySet:
    """The samples of a pool, the same for every seed: "tuning" has a fifth of them, "final" all others."""
    tuning = drawn(samples, len(samples) // TUNING_SHARE, rng.numpy_stream(0, "data/pool"))
    chosen = tuning if pool == "tuning" else np.setdiff1d(np.arange(len(samples)), tuning)
    return samples.take(chosen)


def fingerprint(
    samples: SampleSet,
    clients: Sequence[Parts],
    changed: Sequence[Changed] = (),
    labels: Sequence[Labels] = (),
) -> str:
    """SHA-256 (hex) of the samples, of all clients' parts in all rounds, and of permuted labels."""
    digest = hashlib.sha256(samples.fingerprint.encode())
    for each in [None, *changed]:
        if each is not None:
            digest.update(f"round {each.round}".encode())
        for part in chain.from_iterable(clients if each is None else each.parts):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(part, dtype="<i8").data)
    for block in labels:
        digest.update(np.ascontiguousarray(block, dtype="<i8").data)
    return digest.hexdigest()


def _formed(shown: LabeledSet, samples: LabeledSet, form: Form, config: DataConfig) -> SampleSet:
    """Public samples in the form of the clients' if both have the same columns. Everybody knows public samples."""
    titles = [each.titles if isinstance(each, UnfittedSet) else () for each in (shown, samples)]
    if isinstance(config.public, float):
        return form(shown)
    if titles[0] and titles[0] == titles[1]:
        lengths = [each.columns[0].shape[-1] for each in (shown, samples) if isinstance(each, UnfittedSet)]
        if titles[0] == ("tokens",) and lengths[0] != lengths[1]:
            raise ConfigError(
                f"data.public = '{config.public}' has samples of {lengths[0]} tokens, and '{config.dataset}' of "
                f"{lengths[1]}. Cut or pad them to one length, or use a share of the samples, such as 0.1."
            )
        found = form(shown)
        if titles[0] == ("tokens",) and found.unknown:
            raise ConfigError(
                f"data.public = '{config.public}' has {found.unknown[0][0]}, which no client trains on. Use another "
                "data set, or a share such as 0.1."
            )
        return found
    return shown.learned(None if config.statistics == "all" else np.arange(len(shown)))(shown)


def _with_measured(fingerprint: str, apart: bool, held: Indices) -> str:
    digest = hashlib.sha256(f"{fingerprint} {'by client' if apart else 'measured'}".encode())
    digest.update(np.ascontiguousarray(held, dtype="<i8").data)
    return digest.hexdigest()


def _on_device(
    stages: Sequence[Sequence[Parts]],
    labels: Labels,
    samples: LabeledSet,
    device: torch.device,
    apart: bool,
) -> list[tuple[ClientData, ...]]:
    """The clients' indices of each stage. An array that several clients share becomes one tensor."""
    moved: dict[tuple[int, int], Tensor] = {}
    made: dict[tuple[int, int], ClientData] = {}

    def tensor(part: Indices, first: int) -> Tensor:
        if (id(part), first) not in moved:
            moved[id(part), first] = torch.from_numpy(part + first if first else part).to(device)
        return moved[id(part), first]

    def client(number: int, parts: Parts) -> ClientData:
        first = number * len(labels) if apart else 0
        if (id(parts), first) not in made:
            train, evaluation, test = parts
            held, counts = np.unique(labels[train], return_counts=True)
            domain = samples.domain
            made[id(parts), first] = ClientData(
                train=tensor(train, first),
                eval=tensor(evaluation, first),
                test=tensor(test, first),
                classes=tuple(held.tolist()),
                class_counts=tuple(counts.tolist()),
                domains=() if domain is None else tuple(np.unique(domain[train % len(samples)]).tolist()),
            )
        return made[id(parts), first]

    return [tuple(client(number, parts) for number, parts in enumerate(stage)) for stage in stages]


def load(source: Source, device: torch.device) -> FederatedData:
    """The data, the same every time, as their fingerprint shows. Raises ConfigError or DataError."""
    config = source.config

    def formed(found: LabeledSet) -> LabeledSet:
        # Older sessions took the form of samples from the files, before a pool or a limit.
        return found.learned(None)(found) if config.statistics == "all" else found

    samples, public = datasets.read(config, config.dataset, source.folder), config.public
    shown = None
    if isinstance(public, str):
        shown = of_data_set(formed(datasets.read(config, public, source.folder)), config, source.seed)
    data = FederatedData.build(
        config, source.clients, source.seed, formed(samples), device, source.changes, shown, source.measured
    )
    return replace(data, source=source, report=report_of(samples, data.reading))
