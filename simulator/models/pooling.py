"""Adaptive average pooling of feature vectors. FedL2G §4.1 puts it before every head so that all have the same K."""

import torch
from torch import Tensor


def to_width(features: Tensor, width: int) -> Tensor:
    """Feature vectors [B, in] averaged over `width` even windows: [B, width].

    Window i covers ⌊i·in/width⌋ to ⌈(i+1)·in/width⌉. If in < width, values repeat. The means are one matrix product,
    because torch's own adaptive pooling has no deterministic gradient on CUDA.
    """
    given = features.shape[1]
    if given == width:
        return features
    window = torch.arange(width, device=features.device)[:, None]
    position = torch.arange(given, device=features.device)
    start, end = window * given // width, -(-(window + 1) * given // width)
    means = ((start <= position) & (position < end)).to(features.dtype) / (end - start)
    return features @ means.T
