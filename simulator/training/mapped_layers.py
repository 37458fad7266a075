"""Layers in a function that is mapped over clients. Each client draws from its own stream, as it would alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.rng import TAKES_GENERATOR, drawing_from


class layers_of_each(drawing_from):
    """A context within `torch.vmap`: dropout of the client with number `who` draws from that client's stream.

    `who` is mapped over: 0, 1, 2, … Raises TypeError for a draw that cannot be made per client. It replaces two
    functions that a map does not accept: `one_hot`, which reads values, and BatchNorm of bfloat16 maps with float32
    statistics.
    """

    def __init__(self, streams: Sequence[torch.Generator], who: Tensor) -> None:
        super().__init__(streams[0])
        self._streams = streams
        self._who = who

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func is F.batch_norm and args[0].dtype == torch.bfloat16:
            return func(args[0].float(), *args[1:], **(kwargs or {})).to(torch.bfloat16)
        if func is F.one_hot and (classes := _classes(*args, **(kwargs or {}))) is not None:
            return (args[0][..., None] == torch.arange(classes, device=args[0].device)).long()
        if name in TAKES_GENERATOR:
            match args:
                case (Tensor() as tensor, float() as share) if name == "bernoulli_" and not kwargs:
                    return tensor.copy_(self.kept(tensor.shape, tensor, share))
            raise TypeError(f"{name} cannot draw for each of several clients at once")
        return super().__torch_function__(func, types, args, kwargs)

    def kept(self, shape: Sequence[int], like: Tensor, share: float) -> Tensor:
        def each() -> Tensor:
            masks = [torch.empty(shape, dtype=like.dtype, device=like.device) for _ in self._streams]
            return torch.stack(
                [
                    mask.bernoulli_(share, generator=stream)
                    for mask, stream in zip(masks, self._streams, strict=True)
                ]
            )

        drawn: Tensor = _Drawn.apply(self._who, each)
        return drawn


def _classes(tensor: Tensor | None = None, num_classes: int = -1, **others: Any) -> int | None:
    """The number of classes that `one_hot` is given; None if it would search for the largest label."""
    return num_classes if tensor is not None and num_classes > 0 and not others else None


class _Drawn(torch.autograd.Function):
    """The draws of `each` for all clients: [n, …] outside of the map and [… ] within it."""

    @staticmethod
    def forward(who: Tensor, each: Callable[[], Tensor]) -> Tensor:
        raise TypeError("draws for each of several clients are made where a function is mapped over them")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, who: Tensor, each: Callable[[], Tensor]) -> tuple[Tensor, int]:
        return each(), 0
