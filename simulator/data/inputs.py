"""All samples of a data set on the device, and the gathering of batches: one class for each form of storage.

Normalization is x · scale + shift. There is one for all samples, or one for each client. Gathering reads no value on
the host.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.data.samples import ImageSet, Indices, SampleSet, measured
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec


class Inputs(ABC):
    """Samples on one device. Every field that is a tensor is on it."""

    spec: InputSpec
    """The form of a sample in a batch."""

    @abstractmethod
    def batch(self, indices: Tensor, clients: Tensor | None = None) -> Tensor:
        """The samples at these indices [b] as models take them: [b, …].

        clients: whose normalization each sample gets [b], if each client has its own.
        """

    def of_client(self, client: int) -> Self:
        """The same samples with the normalization of this client, if each client has its own."""
        kept = {key: each for key, each in vars(self).items() if key in ("scale", "shift")}
        if all(each.dim() <= len(self.spec.shape) for each in kept.values()):
            return self
        return replace(self, **{key: each[client] for key, each in kept.items()})  # type: ignore[type-var]

    def to(self, device: torch.device) -> Self:
        tensors = {key: each.to(device) for key, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **tensors)  # type: ignore[type-var]  # every kind is a dataclass


@dataclass(frozen=True, eq=False)
class ImageInputs(Inputs):
    """Images uint8 [n, h, w, c], normalized and put into channels-last order batch by batch."""

    images: Tensor
    spec: ImageSpec
    """A batch is scaled if the size differs. If it has three channels and the images have one, that one repeats."""
    scale: Tensor
    shift: Tensor
    """Normalization of a byte, each float32 [h, w, c], which avoids an inner loop of length c. If each client has its
    own: [clients, 1, 1, c]."""

    @classmethod
    def of(cls, images: ImageSet, config: DataConfig, train: Sequence[Indices]) -> "ImageInputs":
        """Images with the settings of their batches, on the CPU."""
        shape, apart = images.images.shape[1:], config.statistics == "client"
        if apart:
            found = [measured(images.images, held) for held in train]
            mean, std = (torch.tensor(each)[:, None, None] for each in zip(*found, strict=True))
        else:
            known = images.mean, images.std
            mean, std = map(torch.tensor, measured(images.images, _union(train)) if None in known else known)
        scale, shift = 1 / (255 * std), -mean / std
        return cls(
            images=torch.from_numpy(images.images),
            spec=shaped(images.spec, config),
            scale=scale if apart else scale.expand(shape).contiguous(),
            shift=shift if apart else shift.expand(shape).contiguous(),
        )

    def batch(self, indices: Tensor, clients: Tensor | None = None) -> Tensor:
        """Normalized images float32 [b, c, h, w], channels last in memory."""
        pixels = self.images.index_select(0, indices).to(torch.float32)
        batch = _normalized(pixels, self.scale, self.shift, clients).permute(0, 3, 1, 2)
        channels, height, width = self.spec.channels, self.spec.height, self.spec.width
        if (height, width) != batch.shape[2:]:  # not before: 224×224 of all would take gigabytes
            shrinks = height < batch.shape[2] or width < batch.shape[3]
            batch = F.interpolate(batch, (height, width), mode="bilinear", antialias=shrinks)
        if channels != batch.shape[1]:
            batch = batch.expand(-1, channels, -1, -1)
        return batch.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, eq=False)
class TokenInputs(Inputs):
    """Tokens int32 [n, length]. A batch is int64, because models use tokens as indices."""

    tokens: Tensor
    spec: TokenSpec

    def batch(self, indices: Tensor, clients: Tensor | None = None) -> Tensor:
        return self.tokens.index_select(0, indices).to(torch.int64)


@dataclass(frozen=True, eq=False)
class NumberInputs(Inputs):
    """Signals float32 [n, channels, time] or table rows [n, features], normalized batch by batch."""

    numbers: Tensor
    spec: InputSpec
    scale: Tensor
    shift: Tensor
    """Normalization, each float32 [channels, 1] or [features]. If each client has its own, clients come first."""

    @classmethod
    def of(cls, values: Any, spec: InputSpec, config: DataConfig, train: Sequence[Indices]) -> "NumberInputs":
        """Values normalized to mean 0 and variance 1 by channel or feature, on the CPU."""
        apart = config.statistics == "client"
        found = []
        for indices in train if apart else [_union(train)]:
            held = np.asarray(values[indices], dtype=np.float64)
            axes = (0, *range(2, held.ndim))
            mean, std = held.mean(axes), held.std(axes)
            scales = np.divide(1.0, std, out=np.ones_like(std), where=std > 0)  # constants keep their scale
            found.append((scales, -mean * scales))
        scale, shift = (
            torch.tensor(np.stack(each), dtype=torch.float32).view(len(found), -1, *[1] * (values.ndim - 2))
            for each in zip(*found, strict=True)
        )
        return cls(torch.from_numpy(values), spec, *((scale, shift) if apart else (scale[0], shift[0])))

    def batch(self, indices: Tensor, clients: Tensor | None = None) -> Tensor:
        return _normalized(self.numbers.index_select(0, indices), self.scale, self.shift, clients)


def _normalized(values: Tensor, scale: Tensor, shift: Tensor, clients: Tensor | None) -> Tensor:
    if clients is not None:
        scale, shift = scale.index_select(0, clients), shift.index_select(0, clients)
    return torch.addcmul(shift, values, scale)


def _union(train: Sequence[Indices]) -> Indices:
    return np.unique(np.concatenate(train))


def shaped(images: ImageSpec, config: DataConfig) -> ImageSpec:
    """The form of images in a batch: the stored ones in the configured size and channels."""
    return ImageSpec(
        channels=3 if config.rgb and images.channels == 1 else images.channels,
        height=config.size or images.height,
        width=config.size or images.width,
    )


def inputs_of(samples: SampleSet, config: DataConfig, train: Sequence[Indices]) -> Inputs:
    """A data set's samples on the CPU. Their normalization is measured on all samples in `train`.

    With data.statistics 'client', `train` has every client's, and each gets its own. Otherwise, images whose data set
    publishes a mean and a deviation have these. Raises ConfigError for settings of another kind of samples.
    """
    if isinstance(samples, ImageSet):
        return ImageInputs.of(samples, config, train)
    for key, given in (("size", config.size is not None), ("rgb", config.rgb)):
        if given:
            raise ConfigError(
                f"data.{key} changes images, and the samples of '{config.dataset}' are {samples.spec.noun}. "
                "Leave it out."
            )
    if isinstance(samples.spec, TokenSpec):
        if config.statistics == "client":
            raise ConfigError(
                f"data.statistics = 'client' changes means and deviations, and the samples of '{config.dataset}' are "
                "tokens. Leave it out."
            )
        return TokenInputs(torch.from_numpy(samples.values), samples.spec)
    return NumberInputs.of(samples.values, samples.spec, config, train)


def blank(spec: InputSpec, count: int, device: torch.device | str) -> Tensor:
    """A batch of zeros in the memory layout of a batch of samples. On the meta device, it has no values."""
    if spec.kind == "tokens":
        return torch.zeros(count, *spec.shape, dtype=torch.int64, device=device)
    x = torch.zeros(count, *spec.shape, device=device)
    return x.contiguous(memory_format=torch.channels_last) if spec.kind == "image" else x


def random(spec: InputSpec, count: int, stream: torch.Generator) -> Tensor:
    """A batch of uniform draws, on the CPU: numbers from [0, 1), or any tokens of the vocabulary."""
    if isinstance(spec, TokenSpec):
        return torch.randint(spec.vocabulary, (count, *spec.shape), generator=stream, device="cpu")
    return torch.rand(count, *spec.shape, generator=stream, device="cpu")


def arranged(module: nn.Module, spec: InputSpec) -> nn.Module:
    """The module with its weights in the memory layout of batches of these samples."""
    if spec.kind != "image":
        return module
    for each in module.modules():
        if isinstance(each, nn.Conv2d) and _gradient_is_unsafe(each):
            each.register_forward_pre_hook(partial(_subsampled, strides=each.stride))
            each.stride = (1, 1)
    return module.to(memory_format=torch.channels_last)


def _gradient_is_unsafe(layer: nn.Conv2d) -> bool:
    """Whether oneDNN writes its gradient past a buffer: wrong numbers or a crash, on CPUs.

    The 1×1 kernel steps over pixels, and has fewer input channels than a vector register has numbers (16 on AVX-512).
    Source: https://github.com/uxlfoundation/oneDNN/issues/6035, seen in torch 2.14.1.
    """
    narrow = layer.in_channels // layer.groups < 16
    return narrow and layer.kernel_size == (1, 1) and layer.stride != (1, 1) and layer.padding == (0, 0)


def _subsampled(_layer: nn.Module, inputs: tuple[Tensor], *, strides: tuple[int, ...]) -> Tensor:
    """The pixels [b, c, h/s, w/s] that a 1×1 kernel with these strides sees. With stride 1, it gives the same."""
    (x,) = inputs
    return x[..., :: strides[0], :: strides[1]]
