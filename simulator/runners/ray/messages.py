"""Tensors on their way between processes: their exact bytes, of any dtype, in private memory after arrival."""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simulator.base.tensors import Copies, Identity

PAYLOADS = 32
"""Payloads that stay in the object store because another client may receive the same. Older ones are stored again."""

Packed = list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]]
"""Name, dtype, shape, and bytes of each tensor."""


class Message(dict[str, Tensor]):
    """Named tensors. Another process receives them as a plain dict of contiguous CPU tensors that it owns.

    In transit, their bytes are NumPy arrays, which Ray does not pickle and copies once.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[Packed], dict[str, Tensor]], tuple[Packed]]:
        packed = [
            (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), bytes_of(tensor))
            for name, tensor in self.items()
        ]
        return opened, (packed,)


def opened(packed: Packed) -> dict[str, Tensor]:
    """The tensors of a message, in memory that torch allocated: aligned as usual, and writable."""
    tensors = {}
    for name, dtype, shape, content in packed:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        bytes_of(tensor)[...] = content
        tensors[name] = tensor
    return tensors


def bytes_of(tensor: Tensor) -> NDArray[np.uint8]:
    """The tensor's values as bytes [n]. A contiguous tensor on the CPU shares its memory."""
    flat: NDArray[np.uint8] = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return flat


class Payloads:
    """The clients' payloads in the object store. Equal payloads are stored once.

    Copies of the same tensors are equal. Other payloads are compared by their hashes.
    """

    def __init__(self, put: Callable[[Message], Any]) -> None:
        self._put = put
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        """The references, by hash."""
        self._hashes: deque[tuple[Identity, bytes]] = deque(maxlen=PAYLOADS)
        """The hashes of the latest tensors."""

    def put(self, payload: Mapping[str, Tensor] | None) -> Any:
        """The reference to a payload; None for no payload."""
        if payload is None:
            return None
        key = self._hash(payload)
        if key not in self._kept:
            self._kept[key] = self._put(Message(payload))
        self._kept.move_to_end(key)
        while len(self._kept) > PAYLOADS:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _hash(self, payload: Mapping[str, Tensor]) -> bytes:
        originals = payload.originals if isinstance(payload, Copies) else payload
        for identity, key in self._hashes:
            if identity.matches(originals):
                return key
        digest = hashlib.sha256()
        for name, tensor in payload.items():
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
            digest.update(bytes_of(tensor).data)
        self._hashes.append((Identity(originals), digest.digest()))
        return digest.digest()
