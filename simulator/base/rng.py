"""Random streams keyed by (seed, purpose, round, client), and a context that makes torch's layers draw from one.

Every draw of a run comes from a stream for one purpose. No global generator is seeded or read. So there is no generator
state to save, and a new draw changes no other draw.

torch's layers (initial weights, dropout, stochastic depth) draw from a global generator that threads share. Within
`drawing_from(stream)`, the same calls on this thread draw from `stream`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

EVERYONE = -1


def seed_of(seed: int, purpose: str, round: int = 0, client: int = EVERYONE) -> int:
    """The 64-bit seed of one stream: the head of the SHA-256 of its four coordinates."""
    name = f"{seed}/{purpose}/{round}/{client}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "little")


def numpy_stream(seed: int, purpose: str, round: int = 0, client: int = EVERYONE) -> np.random.Generator:
    """A NumPy generator for one purpose (participants, partitions, splits)."""
    return np.random.Generator(np.random.Philox(seed_of(seed, purpose, round, client)))


def torch_stream(
    seed: int, purpose: str, round: int = 0, client: int = EVERYONE, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A torch generator for one purpose, on `device`; on the CPU for the meta device, which has no values."""
    if torch.device(device).type == "meta":
        device = "cpu"
    return torch.Generator(device=device).manual_seed(seed_of(seed, purpose, round, client) % 2**63)


TAKES_GENERATOR = frozenset(
    {
        "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "kaiming_normal_", "kaiming_uniform_",
        "log_normal_", "multinomial", "normal", "normal_", "rand", "rand_like", "randint", "randint_like", "randn",
        "randn_like", "random_", "randperm", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_",
    }
)  # fmt: skip
"""Names of torch's functions that draw."""
_DROPOUT_DIMS = {"dropout": 0, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
_CANNOT_KEY = frozenset({"alpha_dropout", "feature_alpha_dropout", "rrelu"})  # in training
_NEVER_KEY = frozenset(
    {
        "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
        "fractional_max_pool3d_with_indices", "gumbel_softmax",
    }
)  # fmt: skip
_ATTENTION = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}
"""The position of `dropout_p` among the arguments."""
_MAY_DRAW = TAKES_GENERATOR | _DROPOUT_DIMS.keys() | _ATTENTION.keys() | _CANNOT_KEY | _NEVER_KEY


class drawing_from(TorchFunctionMode):
    """A context in which this thread's torch functions draw from `stream`. Raises TypeError for those that cannot."""

    def __init__(self, stream: torch.Generator) -> None:
        super().__init__()
        self.stream = stream
        self.needed = False
        """Whether a function was called that draws, or would draw with other arguments."""
        self._elsewhere: dict[torch.device, torch.Generator] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in _MAY_DRAW:
            return func(*args, **kwargs)
        self.needed = True
        if name in TAKES_GENERATOR:
            if kwargs.get("generator") is None:
                kwargs = {**kwargs, "generator": self._on(_device_drawn_on(args, kwargs))}
        elif name in _DROPOUT_DIMS:
            return self._dropout(_DROPOUT_DIMS[name], *args, **kwargs)
        elif name in _ATTENTION:
            # It draws its dropout inside one function, where this mode does not see it.
            place = _ATTENTION[name]
            dropout = kwargs.get("dropout_p", args[place] if len(args) > place else 0.0)
            if dropout > 0.0 and kwargs.get("training", True):
                raise TypeError(
                    "attention dropout cannot draw from a keyed stream; set it to 0 and use dropout layers"
                )
        elif name in _NEVER_KEY or kwargs.get("training", any(arg is True for arg in args)):
            raise TypeError(f"{name} cannot draw from a keyed stream; use dropout instead")
        return func(*args, **kwargs)

    def _dropout(
        self, channel_dims: int, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        """Inverted dropout of single elements, or of whole channels of [B, channels, …]."""
        if not training or p == 0.0:
            return input
        shape = (
            input.shape[:channel_dims] + (1,) * (input.dim() - channel_dims) if channel_dims else input.shape
        )
        keep = self.kept(shape, input, 1.0 - p).div_(1.0 - p) if p < 1.0 else input.new_zeros(shape)
        return input.mul_(keep) if inplace else input * keep

    def kept(self, shape: Sequence[int], like: Tensor, share: float) -> Tensor:
        """Ones with that probability, else zeros, with this shape, and with the dtype and device of `like`."""
        stream = self._on(like.device)
        return torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(share, generator=stream)

    def _on(self, device: torch.device) -> torch.Generator | None:
        """The stream for draws on a device. None if there are no values to draw."""
        if device.type == "meta":
            return None
        if device.type == self.stream.device.type:
            return self.stream
        if device not in self._elsewhere:
            twin = torch.Generator(device=device).manual_seed(self.stream.initial_seed())
            self._elsewhere[device] = twin
        return self._elsewhere[device]


class drawing_nothing(TorchFunctionMode):
    """A context for the meta device: functions that fill tensors do nothing, as torch would run slow Python kernels."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        filled = args[0] if args else kwargs.get("tensor")  # torch.nn.init gives it by name
        if name in TAKES_GENERATOR and name.endswith("_") and isinstance(filled, Tensor) and filled.is_meta:
            return filled
        return func(*args, **kwargs)


def _device_drawn_on(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """The target of a drawing function: its `out` tensor, or a new one like its input."""
    if (device := kwargs.get("device")) is not None:
        return torch.device(device)
    given = next((arg for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor)), None)
    return given.device if given is not None else torch.get_default_device()
