"""The position of a narrower network's weights in those of a wider one with the same layers (HeteroFL, FedRolex).

A dimension of a network consists of units: output channels, inputs, rows of a linear layer. A weight that reads
flattened maps has several columns per unit, those of one channel. The narrower network has n consecutive units of K.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from simulator.models.network import Network

Place = tuple[Tensor, ...]
"""Open indices into a tensor's first two dimensions, or its only one. `tensor[place]` is the part, and can be set."""


def places(
    wide: Network, narrow: Network, first: Callable[[int], int], device: torch.device | None = None
) -> dict[str, Place]:
    """The place of every parameter of the narrower network, by name, in the wider one's, as indices on `device`.

    Of K units, it has those from `first(K)` on, and continues from 0 after the last. All of them keep their own order.
    The networks are nested: see `needs.nested_widths`.
    """
    columns = wide.flattened() or {}
    sizes = {name: weight.shape for name, weight in wide.named_parameters()}
    return {
        name: _open(
            [
                _held(full, own, columns.get(name, 1) if dimension == 1 else 1, first, device)
                for dimension, (full, own) in enumerate(zip(sizes[name], weight.shape, strict=True))
            ][:2]
        )
        for name, weight in narrow.named_parameters()
    }


def misfit(wide: Network, narrow: Network) -> str | None:
    """Why the narrower network is not part of the wider one, such as '…, which X lacks', or None."""
    wide_sizes, narrow_sizes = _sizes(wide), _sizes(narrow)
    if wide_sizes == narrow_sizes:
        return None
    for name in {**wide_sizes, **narrow_sizes}:
        own, full = narrow_sizes.get(name), wide_sizes.get(name)
        if full is None or own is None:
            return f"{'has' if full is None else 'lacks'} '{name}'"
        unit = (wide.flattened() or {}).get(name, 1)
        fits = len(own) == len(full) and all(n <= k for n, k in zip(own, full, strict=True))
        if not (fits and own[2:] == full[2:] and (len(own) < 2 or own[1] % unit == 0)):
            return f"has '{name}' {list(own)} where the largest has {list(full)}"
    if wide.flattened() is None or narrow.flattened() != wide.flattened():
        return "has layers of which a part of the rows is no narrower layer"
    return None


def _held(
    full: int, own: int, columns: int, first: Callable[[int], int], device: torch.device | None
) -> Tensor:
    """Indices of the narrower network's `own` entries, of `full` along a dimension, with `columns` entries per unit."""
    units, n = full // columns, own // columns
    start = 0 if n == units else first(units)
    held = (start + torch.arange(n, device=device)) % units
    return (held[:, None] * columns + torch.arange(columns, device=device)).flatten()


def _open(indices: list[Tensor]) -> Place:
    return tuple(indices) if len(indices) == 1 else (indices[0][:, None], indices[1])


def _sizes(network: Network) -> Mapping[str, list[int]]:
    return {name: list(weight.shape) for name, weight in network.named_parameters()}
