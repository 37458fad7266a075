"""The interface of every architecture: named representations, the features before the head, and the head."""

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simulator.base.errors import ConfigError


class HiddenHead(nn.Sequential):
    """K → hidden layers, each with an activation → C."""

    def __init__(
        self, features: int, hidden: Sequence[int], num_classes: int, activation: type[nn.Module] = nn.ReLU
    ) -> None:
        widths = (features, *hidden, num_classes)
        layers: list[nn.Module] = []
        for given, made in pairwise(widths):
            layers += [nn.Linear(given, made), activation()]
        super().__init__(*layers[:-1])
        self.in_features = features
        self.out_features = num_classes
        self.hidden = tuple(hidden)
        self.activation = activation

    def reading(self, features: int) -> "HiddenHead":
        """A head with the same layers for another number of features. Its weights are drawn."""
        return HiddenHead(features, self.hidden, self.out_features, self.activation)


class Network(nn.Module):
    """A classifier as features f (output width K) ∘ head h (C classes).

    A subclass sets `head`. It lists in `layers` the names of its representations, shallow to deep; the last is the
    features.
    """

    layers: tuple[str, ...]
    head: nn.Linear | HiddenHead
    """Reads the features. `needs.same_head` rejects all but a linear layer."""

    published = ""
    """The prefix of the published weights' names in this network's parameter names."""

    rate: float = 1.0
    """The network's width as a share of its family's full width."""

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        """Every representation of a batch x [B, …] by name, all from one forward pass."""
        raise TypeError(f"{type(self).__name__} does not say how it represents a batch")

    def features(self, x: Tensor) -> Tensor:
        """f(x): [B, K], what the head reads."""
        return self.represent(x)[self.layers[-1]]

    def forward(self, x: Tensor) -> Tensor:
        """Logits h(f(x)): [B, C]."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Names of the parameters that may learn from a shallower one, stage by stage, shallow to deep.

        InCo Aggregation (§3.2) mixes the update of a layer with that of layer 0, the first of its shape in the same
        stage. A residual network lists each stage's convolution weights, a transformer the weights of each block's two
        LayerNorms. A network without such a list is not mixed.
        """
        return ()

    def flattened(self) -> Mapping[str, int] | None:
        """How HeteroFL cuts narrower networks out of this one. A unit is a row of a weight, or an input of it.

        Lists the weights that read flattened maps, with the number of columns for each channel. None if a part of the
        rows does not form a network of these layers.
        """
        return None

    @property
    def num_features(self) -> int:
        """K, the width of the features."""
        return self.head.in_features


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


class NoHead(nn.Module):
    """In place of a head. Networks ask their head for its width."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features


class Pooled(Network):
    """The features of `body`, averaged to K even windows → a head of the body's kind for K features."""

    def __init__(self, body: Network, head: nn.Linear | HiddenHead) -> None:
        super().__init__()
        body.head = NoHead(body.num_features, body.head.out_features)  # type: ignore[assignment]  # it is never called
        self.body = body
        self.head = head
        self.layers = body.layers
        self.published = f"body.{body.published}"
        self.rate = body.rate

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown = self.body.represent(x)
        last = self.layers[-1]
        return shown | {last: to_width(shown[last], self.num_features)}

    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f"body.{name}" for name in stage) for stage in self.body.stages())


def with_width(network: Network, width: int | None, name: str) -> Network:
    """The network with features of that width and a new, drawn head. Raises ConfigError for unknown heads."""
    head = network.head
    if width is None or network.num_features == width:
        return network
    if isinstance(head, HiddenHead):
        return Pooled(network, head.reading(width))
    if isinstance(head, nn.Linear):
        return Pooled(network, nn.Linear(width, head.out_features, head.bias is not None))
    raise ConfigError(
        f"models.features cannot change the features of '{name}', because its head is a {type(head).__name__}. "
        "Leave it out, or choose another model."
    )


# The position of a narrower network's weights in those of a wider one with the same layers (HeteroFL, FedRolex). A
# dimension of a network consists of units: output channels, inputs, rows of a linear layer. A weight that reads
# flattened maps has several columns per unit, those of one channel. The narrower network has n consecutive units of K.

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
    found: dict[str, Place] = {}
    for name, weight in narrow.named_parameters():
        rows, *others = (
            _held(full, own, columns.get(name, 1) if dimension == 1 else 1, first, device)
            for dimension, (full, own) in enumerate(zip(sizes[name], weight.shape, strict=True))
        )
        found[name] = (rows[:, None], others[0]) if others else (rows,)
    return found


def nesting_fault(wide: Network, narrow: Network) -> str | None:
    """Why the narrower network is not part of the wider one, such as '…, which X lacks', or None."""
    wide_sizes, narrow_sizes = (
        {name: list(weight.shape) for name, weight in each.named_parameters()} for each in (wide, narrow)
    )
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
