"""Flat named tensors: the only form in which states and payloads are kept, sent, and stored.

Names have the form `part/parameter`, such as `model/conv1.weight` or `adapter/down.weight`.
"""

import weakref
from collections.abc import Mapping

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]

TRAVELS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32})
"""The dtypes of payloads: values are sent as floats, labels and counts as int32."""


STATISTICS = ("running_mean", "running_var")
"""BatchNorm's: measured, not learned, so they have no update; and noise could make a variance negative."""


class Identity:
    """Recognizes named tensors that nobody has changed in place. Does not keep them alive."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._known = {name: (weakref.ref(tensor), tensor._version) for name, tensor in tensors.items()}

    def matches(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether these are the same tensors, with the same names, unchanged."""
        return self._known.keys() == tensors.keys() and all(
            self._known[name][0]() is tensor and self._known[name][1] == tensor._version
            for name, tensor in tensors.items()
        )


class Copies(dict[str, Tensor]):
    """Copies of named tensors, for one receiver."""

    def __init__(self, copies: Mapping[str, Tensor], originals: Mapping[str, Tensor]) -> None:
        super().__init__(copies)
        self.originals = dict(originals)


def named(part: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """`tensors` as the part of that name: {'weight': w} becomes {'head/weight': w}."""
    return {f"{part}/{name}": tensor for name, tensor in tensors.items()}


def part(tensors: Mapping[str, Tensor], name: str) -> Tensors:
    """The tensors of one part, by their names within it."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def of_module(module: nn.Module) -> Tensors:
    """A module's parameters and buffers by name, detached, contiguous, sharing memory if possible."""
    return {name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}


def floating(tensors: Mapping[str, Tensor]) -> Tensors:
    """Weights and running statistics. Integer counters are left out, because they have no mean."""
    return {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}


def nonzero_rows(tensor: Tensor) -> Tensor:
    """Indices of a matrix's rows that are not all zero, ascending, int64."""
    return tensor.any(dim=1).nonzero().flatten()


def packed(bits: Tensor) -> Tensor:
    """A mask of n entries as int32 [⌈n/32⌉], 32 entries in each: the first is its lowest bit."""
    flat = bits.flatten().to(torch.int64)
    words = torch.cat([flat, flat.new_zeros(-len(flat) % 32)]).reshape(-1, 32)
    sums = (words << torch.arange(32, device=bits.device)).sum(1)
    return torch.where(sums < 2**31, sums, sums - 2**32).to(torch.int32)


def unpacked(words: Tensor, shape: torch.Size) -> Tensor:
    """The packed mask as bool, with its shape."""
    bits = words.to(torch.int64)[:, None] >> torch.arange(32, device=words.device) & 1
    return bits.flatten()[: shape.numel()].reshape(shape).to(torch.bool)


def total_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Size of the tensors' values in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
