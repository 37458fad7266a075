"""Copy states from a CUDA device through pinned memory, on their own stream.

By default, torch copies one tensor after another into ordinary memory, and the host waits for each. Here, the copies of
a whole state are queued next to the device's other work, into memory that it writes by itself. The host waits once.
Then the values are moved to ordinary memory, so that the same pinned bytes serve the next state.
"""

import functools
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.base.tensors import Tensors

PINNED = 64 * 2**20
"""Bytes of pinned memory for a device, allocated on first use.

A larger state passes in portions, and the host waits for each.
"""


def on_host(tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors in the host's memory, complete when this returns. Tensors that are there stay as they are.

    The values include all work that the current stream of their device has received so far.
    """
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
