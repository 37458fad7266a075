"""A forward-mode product: the derivative of a function along one direction, at the cost of about two evaluations."""

import functools
import math
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from simulator.base.tensors import Tensors

NO_DERIVATIVE = ("forward AD", "forward mode AD", "autograd.Function", "has no plain form")
"""Errors of `derivative_along` about a missing formula have one of these in their first line."""
_ONE_AT_A_TIME = threading.Lock()
"""torch counts nested forward-mode levels per process, so products of two threads would disturb each other."""


def derivative_along(function: Callable[[Tensors], Tensor], point: Tensors, direction: Tensors) -> Tensor:
    """J·d: the change of `function` as `point` moves by `direction`. It draws nothing, or from a stream of its own."""
    with _ONE_AT_A_TIME:
        _load()
        with plain_attention():
            change: Tensor = torch.func.jvp(function, (point,), (direction,))[1]
    return change


@functools.cache
def _load() -> None:
    """The first product makes torch load its formulas and print warnings that users cannot act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))


class plain_attention(TorchFunctionMode):
    """This thread's attention from products and a softmax. torch's fused kernels have no forward-mode derivative."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if func is F.multi_head_attention_forward:  # with `need_weights`, it computes them step by step
            kwargs = {**kwargs, "need_weights": True}
            return func(*args, **kwargs)[0], None
        return func(*args, **kwargs)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ · scale + mask) V, each [..., length, width]."""
    if dropout_p or is_causal or enable_gqa:
        raise TypeError("attention with dropout, a causal mask, or grouped queries has no plain form here")
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        masked = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if masked else scores + attn_mask
    return scores.softmax(-1) @ value
