"""Public samples: those that the server and every client have, for methods that compare models on them."""

import hashlib
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.data.inputs import ImageInputs, Inputs, NumberInputs, inputs_of
from simulator.data.partition import apportion
from simulator.data.samples import Indices, LabeledSet, SampleSet
from simulator.data.specs import InputSpec


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
        """The samples `shown`, on the CPU, if they have the form of the clients' `samples`, which have these `inputs`.

        Images of another data set are normalized on themselves, and other samples as the clients' are. Raises
        ConfigError.
        """
        if shown.spec.kind != samples.spec.kind:
            raise _unfit(config, shown.spec, samples.spec)
        if config.statistics == "client":  # nobody knows the means of all clients, and all know these samples
            alone = config.model_copy(update={"statistics": "pooled"})
            held: Inputs = inputs_of(shown, alone, [np.arange(len(shown))])
        elif isinstance(inputs, NumberInputs):
            if shown.spec != samples.spec:
                raise _unfit(config, shown.spec, samples.spec)
            held = replace(inputs, numbers=torch.from_numpy(shown.values))
        elif isinstance(inputs, ImageInputs) and isinstance(config.public, float):
            held = replace(inputs, images=torch.from_numpy(shown.values))
        else:
            held = inputs_of(shown, config, [np.arange(len(shown))])
        if held.spec != inputs.spec:
            raise _unfit(config, held.spec, inputs.spec)
        if shown.names != samples.names:
            raise ConfigError(
                f"data.public = '{config.public}' has other tokens, channels, or features than '{config.dataset}', so "
                "the same numbers mean something else. Use a share of the samples, such as 0.1."
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
        """The same on another device."""
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))

    def with_fingerprint(self, clients: str) -> str:
        """SHA-256 (hex) of the fingerprint of the clients' data and that of these samples."""
        return hashlib.sha256(f"{clients} public {self.fingerprint}".encode()).hexdigest()


AnySet = TypeVar("AnySet", bound=LabeledSet)


def set_apart(samples: AnySet, config: DataConfig, seed: int) -> tuple[AnySet, AnySet]:
    """The samples without the share in `data.public`, and that share. Raises ConfigError if it has
    none or all of them.

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
    number = samples.test_from
    if config.public_limit is not None:
        number = min(number, config.public_limit)
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


def _unfit(config: DataConfig, public: InputSpec, clients: InputSpec) -> ConfigError:
    remedy = "Use data.size and data.rgb, or" if public.kind == clients.kind == "image" else "Use"
    return ConfigError(
        f"data.public = '{config.public}' has {public.noun} of {public}, and '{config.dataset}' has {clients.noun} of "
        f"{clients}. {remedy} another data set, or a share such as 0.1."
    )
