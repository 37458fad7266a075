"""All samples of a data set on the device, and the gathering of batches: one class for each form of storage.

Gathering reads no value on the host.
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
from simulator.data.images import ImageSet
from simulator.data.samples import Indices, SampleSet
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec


class Inputs(ABC):
    """Samples on one device. Every field that is a tensor is on it."""

    spec: InputSpec
    """The form of a sample in a batch."""

    @abstractmethod
    def batch(self, indices: Tensor) -> Tensor:
        """The samples at these indices [b] as models take them: [b, …]."""

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
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
    """Normalization of a byte: x · scale + shift, each float32 [h, w, c], which avoids an inner loop of length c."""

    @classmethod
    def of(cls, images: ImageSet, config: DataConfig) -> "ImageInputs":
        """Images with the settings of their batches, on the CPU."""
        mean, std = torch.tensor(images.mean), torch.tensor(images.std)
        shape = images.images.shape[1:]
        return cls(
            images=torch.from_numpy(images.images),
            spec=shaped(images.spec, config),
            scale=(1 / (255 * std)).expand(shape).contiguous(),
            shift=(-mean / std).expand(shape).contiguous(),
        )

    def batch(self, indices: Tensor) -> Tensor:
        """Normalized images float32 [b, c, h, w], channels last in memory."""
        pixels = self.images.index_select(0, indices).to(torch.float32)
        return self._shaped(torch.addcmul(self.shift, pixels, self.scale).permute(0, 3, 1, 2))

    def _shaped(self, batch: Tensor) -> Tensor:
        """The batch [b, c, h, w] in the configured size and channels.

        Made per batch: 224×224 of all would take gigabytes.
        """
        channels, height, width = self.spec.channels, self.spec.height, self.spec.width
        if (height, width) != batch.shape[2:]:
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

    def batch(self, indices: Tensor) -> Tensor:
        return self.tokens.index_select(0, indices).to(torch.int64)


@dataclass(frozen=True, eq=False)
class NumberInputs(Inputs):
    """Signals float32 [n, channels, time] or table rows [n, features], normalized batch by batch."""

    numbers: Tensor
    spec: InputSpec
    scale: Tensor
    shift: Tensor
    """Normalization: x · scale + shift, each float32 [channels, 1] or [features]."""

    @classmethod
    def of(cls, values: Any, spec: InputSpec, train: Sequence[Indices]) -> "NumberInputs":
        """Values normalized to mean 0 and variance 1 on the samples in `train`, by channel or feature, on the CPU."""
        held = np.asarray(values[np.unique(np.concatenate(train))], dtype=np.float64)
        axes = (0, *range(2, held.ndim))
        mean, std = held.mean(axes), held.std(axes)
        scale = np.divide(1.0, std, out=np.ones_like(std), where=std > 0)
        per_channel = (-1, *[1] * (held.ndim - 2))
        return cls(
            torch.from_numpy(values),
            spec,
            torch.tensor(scale, dtype=torch.float32).view(per_channel),
            torch.tensor(-mean * scale, dtype=torch.float32).view(per_channel),
        )

    def batch(self, indices: Tensor) -> Tensor:
        return torch.addcmul(self.shift, self.numbers.index_select(0, indices), self.scale)


def shaped(images: ImageSpec, config: DataConfig) -> ImageSpec:
    """The form of images in a batch: the stored ones in the configured size and channels."""
    return ImageSpec(
        channels=3 if config.rgb and images.channels == 1 else images.channels,
        height=config.size or images.height,
        width=config.size or images.width,
    )


def inputs_of(samples: SampleSet, config: DataConfig, train: Sequence[Indices]) -> Inputs:
    """A data set's samples on the CPU. Normalization is measured only on the clients' `train` parts.

    Images are the exception: their mean and deviation belong to the data set. Raises ConfigError for settings of
    another kind of samples.
    """
    if isinstance(samples, ImageSet):
        return ImageInputs.of(samples, config)
    for key, given in (("size", config.size is not None), ("rgb", config.rgb)):
        if given:
            raise ConfigError(
                f"data.{key} changes images, and the samples of '{config.dataset}' are {samples.spec.noun}. "
                "Leave it out."
            )
    if isinstance(samples.spec, TokenSpec):
        return TokenInputs(torch.from_numpy(samples.values), samples.spec)
    return NumberInputs.of(samples.values, samples.spec, train)


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
