"""What a method's hook may hand back: each check raises Unusable, saying what is wrong with it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from simulator.tensors import TRAVELS, Tensors
from simulator.training.phase import Nets, Phase

_NAME = re.compile(r"[^/\s]+(/[^/\s]+)*")


class Unusable(ValueError):
    """What a hook handed back cannot be used; the message goes on from 'aggregate() of method X …'."""


def tensors(value: object) -> Tensors:
    """A mapping from names to tensors."""
    if not isinstance(value, Mapping):
        raise Unusable(f"handed back {_kind(value)} where named tensors belong: {{'head/weight': …}}")
    for name, tensor in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Unusable(f"named a tensor {name!r}; a name reads part/parameter, as 'head/weight'")
        if not isinstance(tensor, Tensor):
            raise Unusable(f"handed back {_kind(tensor)} as '{name}'; it must be a tensor")
    return dict(value)


def payload(value: object) -> Tensors:
    """Named tensors of dtypes that travel."""
    sent = tensors(value)
    for name, tensor in sent.items():
        if tensor.dtype not in TRAVELS:
            raise Unusable(
                f"sends '{name}' as {_dtype(tensor)}; labels and counts travel as int32, values as floats"
            )
    return sent


def state(value: object, before: Mapping[str, Tensor]) -> Tensors:
    """Named tensors with the names, shapes and dtypes that they had before."""
    now = tensors(value)
    if lost := [name for name in before if name not in now]:
        raise Unusable(f"dropped '{lost[0]}', which was kept before; states keep their tensors")
    if new := [name for name in now if name not in before]:
        raise Unusable(f"added '{new[0]}', which was not kept before; begin with it before round 1")
    for name, tensor in now.items():
        if (tensor.shape, tensor.dtype) != (before[name].shape, before[name].dtype):
            raise Unusable(
                f"made '{name}' {_layout(tensor)} of {_layout(before[name])}; states keep their shapes"
            )
        if tensor.device != before[name].device:
            raise Unusable(f"moved '{name}' from {before[name].device} to {tensor.device}")
    return now


def finite(named: Mapping[str, Tensor]) -> None:
    """No NaN and no infinity. Looks at one value on the host where all is well."""
    looked_at = [(name, tensor.isfinite().all()) for name, tensor in named.items() if not tensor.is_meta]
    if not looked_at or bool(torch.stack([sound for _, sound in looked_at]).all()):
        return
    name = next(name for name, sound in looked_at if not sound)
    raise Unusable(f"gave numbers that are not finite in '{name}'; lower its learning rates, or mend it")


def metrics(value: object) -> dict[str, Any]:
    """Figures for the ledger as plain JSON values; tensors of one number become that number."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise Unusable(f"handed back {_kind(value)} where figures by name belong: {{'spread': 0.5}}")
    return {name: _plain(name, each) for name, each in value.items()}


def phases(value: object, nets: Nets, kept: Iterable[str]) -> list[Phase]:
    """Phases of different names that train modules which are there."""
    if not isinstance(value, Sequence) or not all(isinstance(phase, Phase) for phase in value):
        raise Unusable(f"handed back {_kind(value)} where a list of phases belongs")
    modules = [name for name, _ in nets.named_children()]
    parts = {name.partition("/")[0] for name in kept}
    for phase in value:
        if [each.name for each in value].count(phase.name) > 1:
            raise Unusable(f"has two phases named '{phase.name}'; its losses could not be told apart")
        if missing := [name for name in phase.trains if name not in modules]:
            raise Unusable(f"trains '{missing[0]}' in phase '{phase.name}'; there are {', '.join(modules)}")
        if phase.keeps is not None and phase.keeps not in parts:
            raise Unusable(
                f"keeps the moments of phase '{phase.name}' in '{phase.keeps}', which its state does not have; "
                "begin with `optimizer.moments` before round 1"
            )
    return list(value)


def scores(value: object, images: int, classes: int) -> Tensor:
    """A number for every image and class: [images, classes]."""
    if not isinstance(value, Tensor) or value.shape != (images, classes):
        raise Unusable(f"handed back {_kind(value)} where scores [{images}, {classes}] belong")
    return value


def _plain(name: str, value: object) -> Any:
    match value:
        case None | str() | bool() | int() | float():
            return value
        case Tensor() if value.numel() == 1:
            return value.item()
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: _plain(name, each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(name, each) for each in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # NumPy's scalars
        return _plain(name, value.item())
    raise Unusable(f"gave {_kind(value)} as the figure '{name}', which JSON cannot hold")


def _kind(value: object) -> str:
    match value:
        case Tensor():
            return f"a tensor {_layout(value)}"
        case None:
            return "nothing"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _layout(tensor: Tensor) -> str:
    return f"{_dtype(tensor)} {list(tensor.shape)}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
