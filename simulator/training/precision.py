"""The precision of training.

float32: all computations. tf32: matrix products and convolutions on CUDA round their factors to 10 bits of mantissa
and add in float32. bf16: while clients or the server train, networks run under torch's autocast to bfloat16 (8 bits):
products and convolutions, and the maps between them.

Also with bf16, these stay float32: weights, their gradients, and the optimizer's moments; BatchNorm's statistics; a
network's outputs (logits, features, representations), and so every loss and all other arithmetic of a method; draws;
messages; aggregation; evaluation and CKA. tf32 is torch's switch for the whole process, so it applies to the whole
round.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from simulator.base.errors import ConfigError
from simulator.models import Network

Precision = Literal["float32", "tf32", "bf16"]


def refuse_lacking(precision: Precision, device: torch.device) -> None:
    """Raise ConfigError for a precision that the device does not have. Every CPU has bf16, though some are slow."""
    on_cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device) if on_cuda and precision == "tf32" else (0, 0)
    if precision == "tf32" and not (torch.version.cuda and capability >= (8, 0)):
        here = f"compute capability {'.'.join(map(str, capability))}" if on_cuda else "the CPU"
        raise ConfigError(
            f"training.precision 'tf32' needs a CUDA device of compute capability 8.0 or more, and this is {here}; "
            "use float32 or bf16."
        )
    if precision == "bf16" and on_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ConfigError(
            "training.precision 'bf16' needs a CUDA device that computes in bfloat16 (compute capability 8.0 or "
            "more), and this one does not; use float32."
        )


def slow_here(precision: Precision, device: torch.device) -> str | None:
    """Why this precision costs time on this CPU instead of saving it; None where it does not, or torch cannot tell."""
    if precision != "bf16" or device.type != "cpu":
        return None
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older torch lacks it
    if known.get("architecture") != "x86_64" or known.get("avx512_bf16") or known.get("amx_bf16"):
        return None
    return (
        "This CPU has no arithmetic in bfloat16 (AVX512-BF16 or AMX), so bf16 is slower than float32 here: 1.5 to 2 "
        "times where it was measured. Use training.precision=float32, unless you only try bf16."
    )


@contextmanager
def networks_in(precision: Precision, nets: nn.Module, device: torch.device) -> Iterator[None]:
    """A context in which the modules compute in this precision, and return float32. Not on the meta device."""
    if precision != "bf16" or device.type == "meta":
        yield
        return
    entrances: list[tuple[nn.Module, str]] = []
    for module in nets.children():
        if isinstance(module, Network):
            entrances += [(module, "represent"), (module.head, "forward")]
        else:
            entrances.append((module, "forward"))
    for module, name in dict.fromkeys(entrances):
        vars(module)[name] = _in_bf16(getattr(module, name), device)
    try:
        yield
    finally:
        for module, name in dict.fromkeys(entrances):
            del vars(module)[name]


def _in_bf16(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    def rounded(*args: Any, **kwargs: Any) -> Any:
        # All threads of the process share the cache of rounded weights. A step reads each weight only once.
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            return tree_map(widened, function(*args, **kwargs))

    def widened(value: object) -> object:
        return value.float() if isinstance(value, Tensor) and value.dtype == torch.bfloat16 else value

    return rounded


_GUARD = threading.Lock()
_USERS: list[bool] = []
"""Whether TF32 is on, once for each run that computes on CUDA. All of them agree."""


@contextmanager
def tf32_in_force(precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which CUDA computes in TF32 if that is the precision, and otherwise does not.

    By default, torch uses TF32 for convolutions but not for products. Its switches belong to the process, so they are
    set while any run computes, and then reset. Raises ConfigError if another run computes with other switches. Does
    nothing on a CPU.
    """
    global _before
    if device.type != "cuda":
        yield
        return
    on = precision == "tf32"
    with _GUARD:
        if _USERS and on not in _USERS:
            raise ConfigError(
                "another run of this process computes on CUDA in another precision, and torch switches TF32 for "
                "the whole process. Run one of them in a process of its own."
            )
        if not _USERS:
            _before = _switched(on, on)
        _USERS.append(on)
    try:
        yield
    finally:
        with _GUARD:
            _USERS.remove(on)
            if not _USERS:
                _switched(*_before)


_before = (False, False)
"""torch's switches while no run computes."""


def _switched(products: bool, convolutions: bool) -> tuple[bool, bool]:
    """Turn torch's switches. Returns how they were."""
    with warnings.catch_warnings():
        # Newer versions of torch recommend other names. The oldest supported version lacks them.
        warnings.simplefilter("ignore", UserWarning)
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, convolutions
    return before
