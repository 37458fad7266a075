"""Adaptive average pooling of feature vectors. FedL2G §4.1 puts it before every head so that all have the same K."""

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ALIGNMENT = 64
"""Bytes to which torch aligns tensors on the CPU. The bits of a product can depend on it."""


def to_width(features: Tensor, width: int) -> Tensor:
    """Feature vectors [B, in] averaged over `width` even windows: [B, width].

    Window i covers ⌊i·in/width⌋ to ⌈(i+1)·in/width⌉. If in < width, values repeat. The means are one matrix product,
    because torch's own adaptive pooling has no deterministic gradient on CUDA.
    """
    given = features.shape[1]
    if given == width:
        return features
    if (
        features.device.type == "cpu"
        and features.dtype == torch.float32
        and not torch.compiler.is_compiling()
    ):
        # An exported program computes the weights, because a constant is not in the network's state.
        # Not a cached tensor: one that is made inside torch.func.grad or inference_mode is of no use outside.
        return features @ torch.from_numpy(_means(given, width)).T
    window = torch.arange(width, device=features.device)[:, None]
    position = torch.arange(given, device=features.device)
    start, end = window * given // width, -(-(window + 1) * given // width)
    means = ((start <= position) & (position < end)).to(features.dtype) / (end - start)
    return features @ means.T


@functools.cache
def _means(given: int, width: int) -> NDArray[np.float32]:
    """The weights of `to_width` [width, given], with the same bits, as making them takes longer than a model's step."""
    window, position = np.arange(width)[:, None], np.arange(given)
    start, end = window * given // width, -(-(window + 1) * given // width)
    room = np.empty(width * given + _ALIGNMENT, dtype=np.float32)
    first = -room.ctypes.data % _ALIGNMENT // room.itemsize
    means = room[first : first + width * given].reshape(width, given)
    inside = (start <= position) & (position < end)
    np.divide(inside.astype(np.float32), (end - start).astype(np.float32), out=means)
    return means
