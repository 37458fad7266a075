"""Flat named tensors: the only form in which states and payloads are kept, sent, and stored.

Names have the form `part/parameter`, such as `model/conv1.weight` or `adapter/down.weight`.

Copies from a CUDA device to the host pass through pinned memory, on their own stream. By default, torch copies one
tensor after another into ordinary memory, and the host waits for each. Here, the copies of a whole state are queued
next to the device's other work, into memory that it writes by itself. The host waits once. Then the values are moved to
ordinary memory, so that the same pinned bytes serve the next state.
"""

import functools
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError

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


def on_device(tensors: Mapping[str, Tensor], device: torch.device) -> Tensors:
    """The tensors on a device; those that are there already are the same."""
    return {name: tensor.to(device) for name, tensor in tensors.items()}


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


PINNED = 64 * 2**20
"""Bytes of pinned memory for a device, allocated on first use.

A larger state passes in portions, and the host waits for each.
"""


def on_host(tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors in the host's memory, complete when this returns. Tensors that are there stay as they are."""
    away: dict[torch.device, Tensors] = {}
    for name, tensor in tensors.items():
        if tensor.device.type == "cuda":
            away.setdefault(tensor.device, {})[name] = tensor
    arrived = {name: each for device, those in away.items() for name, each in _way_off(device)(those).items()}
    return {name: arrived.get(name, tensor) for name, tensor in tensors.items()}


class Piece(NamedTuple):
    """Bytes of a tensor on their way through pinned memory."""

    name: str
    """The tensor's number."""
    first: int
    """The first byte in the tensor."""
    place: int
    """The position in pinned memory."""
    length: int


def portions(sizes: Mapping[str, int], room: int) -> Iterator[list[Piece]]:
    """All bytes of tensors of these sizes, in order, in portions that fit into pinned memory together."""
    portion: list[Piece] = []
    used = 0
    for name, size in sizes.items():
        done = 0
        while done < size:
            length = min(size - done, room - used)
            portion.append(Piece(name, done, used, length))
            done, used = done + length, used + length
            if used == room:
                yield portion
                portion, used = [], 0
    if portion:
        yield portion


class WayOff:
    """Copies from one device to the host. Any thread may use it, one at a time."""

    def __init__(self, stream: torch.cuda.Stream, pinned: Tensor) -> None:
        """`pinned`: bytes [n]."""
        self._stream = stream
        self._pinned = pinned
        self._guard = threading.Lock()

    def __call__(self, tensors: Mapping[str, Tensor]) -> Tensors:
        """Tensors of this device, in ordinary memory."""
        sources = {name: _bytes(tensor) for name, tensor in tensors.items()}
        arrived = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in tensors.items()}
        targets = {name: _bytes(tensor) for name, tensor in arrived.items()}
        sizes = {name: len(source) for name, source in sources.items()}
        with self._guard:
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
            for portion in portions(sizes, len(self._pinned)):
                with torch.cuda.stream(self._stream):
                    for name, first, place, length in portion:
                        passing = self._pinned[place : place + length]
                        passing.copy_(sources[name][first : first + length], non_blocking=True)
                self._stream.synchronize()
                for name, first, place, length in portion:
                    targets[name][first : first + length] = self._pinned[place : place + length]
        return arrived


@functools.cache
def _way_off(device: torch.device) -> WayOff:
    return WayOff(torch.cuda.Stream(device), torch.empty(PINNED, dtype=torch.uint8, pin_memory=True))


def _bytes(tensor: Tensor) -> Tensor:
    """A tensor's values as bytes, without a copy if they are contiguous."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def select_device(wanted: str) -> torch.device:
    """The device for 'auto', 'cpu', or 'cuda', set up to repeat its bits. Raises ConfigError if CUDA is missing."""
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(
            "device 'cuda' is not available here. Use `device='cpu'`, or see `htfl-sim doctor`."
        )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    return torch.device("cuda", torch.cuda.current_device())
