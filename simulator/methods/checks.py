"""Checks of values that a method's hooks return. Each raises Unusable with the reason."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from simulator.base.errors import a_type
from simulator.base.tensors import TRAVELS, Tensors, part
from simulator.training.phase import Nets, Phase

_DEEPEST = 20
"""The maximum nesting of lists in a metric."""
_LARGEST = 1 << 64
_NAME = re.compile(r"[^/\s]+(/[^/\s]+)*")


class Unusable(ValueError):
    """A hook's result cannot be used. The message continues 'aggregate() of method X …'."""


def tensors(value: object) -> Tensors:
    """A mapping from names to tensors."""
    if not isinstance(value, Mapping):
        raise Unusable(f"returned {_kind(value)} instead of named tensors: {{'head/weight': …}}")
    for name, tensor in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Unusable(f"named a tensor {name!r}; a name reads part/parameter, as 'head/weight'")
        if not isinstance(tensor, Tensor):
            raise Unusable(f"returned {_kind(tensor)} as '{name}'; it must be a tensor")
        if tensor.layout is not torch.strided:
            raise Unusable(f"returned '{name}' as a sparse tensor; make it dense, with to_dense()")
    return dict(value)


def payload(value: object) -> Tensors:
    """Named tensors with dtypes that can be sent."""
    sent = tensors(value)
    for name, tensor in sent.items():
        if tensor.dtype not in TRAVELS:
            raise Unusable(
                f"sends '{name}' as {_dtype(tensor)}; labels and counts travel as int32, values as floats"
            )
    return sent


def state(value: object, before: Mapping[str, Tensor]) -> Tensors:
    """The named tensors with their names, shapes, and dtypes unchanged, on the same device."""
    now = fitting(value, before)
    for name, tensor in now.items():
        if tensor.device != before[name].device:
            raise Unusable(f"moved '{name}' from {before[name].device} to {tensor.device}")
    return now


def fitting(value: object, before: Mapping[str, Tensor]) -> Tensors:
    """Named tensors with the same names, shapes, and dtypes as those, in their order."""
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
    return {name: now[name] for name in before}


def adopted(value: object, fresh: Mapping[str, Tensor]) -> Tensors:
    """Some of a state's tensors, with its shapes and dtypes."""
    taken = tensors(value)
    if new := [name for name in taken if name not in fresh]:
        raise Unusable(f"takes over '{new[0]}', which init_server() does not begin with")
    return state(taken, {name: fresh[name] for name in taken})


def finite(named: Tensors) -> Tensors:
    """The tensors, without NaN and infinity. Reads one value on the host if all is well."""
    looked_at = [(name, tensor.isfinite().all()) for name, tensor in named.items() if not tensor.is_meta]
    if not looked_at or bool(torch.stack([sound for _, sound in looked_at]).all()):
        return named
    name = next(name for name, sound in looked_at if not sound)
    raise Unusable(f"gave numbers that are not finite in '{name}'; lower its learning rates, or mend it")


def metrics(value: object) -> dict[str, Any]:
    """Metrics for the ledger as plain JSON values. Tensors with one number become that number."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise Unusable(f"returned {_kind(value)} instead of metrics by name: {{'spread': 0.5}}")
    return {name: _plain(name, each) for name, each in value.items()}


def phases(value: object, nets: Nets, kept: Iterable[str], on_server: bool = False) -> list[Phase]:
    """Phases with different names, existing modules, and existing settings."""
    if not isinstance(value, Sequence) or not all(isinstance(phase, Phase) for phase in value):
        raise Unusable(f"returned {_kind(value)} instead of a list of phases")
    modules, parts = [name for name, _ in nets.named_children()], {name.partition("/")[0] for name in kept}
    for phase in value:
        if [each.name for each in value].count(phase.name) > 1:
            raise Unusable(f"has two phases named '{phase.name}'; its losses could not be told apart")
        if missing := [name for name in phase.trains if name not in modules]:
            raise Unusable(f"trains '{missing[0]}' in phase '{phase.name}'; there are {', '.join(modules)}")
        if not any(True for name in phase.trains for _ in nets[name].parameters()):
            raise Unusable(f"trains no parameters in phase '{phase.name}'; its `trains` names what moves")
        _settings(phase)
        _changes(phase, nets)
        if phase.keeps is not None and phase.keeps not in parts:
            raise Unusable(
                f"keeps the moments of phase '{phase.name}' in '{phase.keeps}', which its state does not have; "
                "begin with `optimizer.moments` before round 1"
            )
        if on_server and phase.batches is None:
            raise Unusable(f"gives phase '{phase.name}' no `batches`; the server has no samples of its own")
    return list(value)


def networks(value: object) -> dict[str, nn.Module]:
    """Modules by name."""
    if not isinstance(value, Mapping):
        raise Unusable(f"returned {_kind(value)} instead of modules by name: {{'generator': …}}")
    for name, module in value.items():
        if not isinstance(module, nn.Module):
            raise Unusable(f"returned {_kind(module)} as '{name}'; it must be a torch module")
    return dict(value)


def weights(state: Mapping[str, Tensor], name: str, wanted: Mapping[str, Tensor]) -> None:
    """All weights of the server's network `name`, in its shapes, and no others under its name."""
    given = part(state, name)
    for key in [*wanted, *given]:
        if key not in given:
            raise Unusable(f"leaves out '{name}/{key}'; return all weights of server_networks(), or none")
        if key not in wanted:
            raise Unusable(f"returned '{name}/{key}', which the network '{name}' does not have")
        if (given[key].shape, given[key].dtype) != (wanted[key].shape, wanted[key].dtype):
            raise Unusable(
                f"made '{name}/{key}' {_layout(given[key])}; the network has {_layout(wanted[key])}"
            )


def scores(value: object, samples: int, classes: int) -> Tensor:
    """A number for every sample and class: [samples, classes]."""
    if isinstance(value, Tensor) and value.shape == (samples, classes) and value.dtype.is_floating_point:
        return value
    raise Unusable(f"returned {_kind(value)} instead of scores, floats [{samples}, {classes}]")


def _settings(phase: Phase) -> None:
    said, samples = f"in phase '{phase.name}'", phase.samples
    for key, right, wanted in (
        ("lr", _is_above_zero(phase.lr), "a learning rate is above zero"),
        ("epochs", _is_above_zero(phase.epochs), "it is a number above zero"),
        ("steps", isinstance(phase.steps, int) and phase.steps >= 1, "it is a whole number from 1"),
        ("optimizer", phase.optimizer in ("sgd", "adam"), "it is 'sgd', 'adam' or None"),
    ):
        if (given := getattr(phase, key)) is not None and not right:
            raise Unusable(f"has {key} = {given!r} {said}; {wanted}")
    if phase.epochs is not None and phase.steps is not None:
        raise Unusable(f"has both epochs and steps {said}; one of them is its length")
    if not callable(phase.loss) or not (phase.draws is None or callable(phase.draws)):
        raise Unusable(f"has a loss or draws {said} that cannot be called")
    if not (phase.batches is None or isinstance(phase.batches, Iterable)):
        raise Unusable(f"has {_kind(phase.batches)} as batches {said}; they are a list of Batch(x, y)")
    indices = isinstance(samples, Tensor) and samples.dim() == 1 and samples.dtype == torch.int64
    if samples is not None and not indices:
        raise Unusable(f"has {_kind(samples)} as samples {said}; indices are int64 [n]")


def _is_above_zero(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _changes(phase: Phase, nets: Nets) -> None:
    """`correction` and `within`, which change weights after a step."""
    if not (phase.correction or phase.within):
        return
    weights = {
        f"{module}/{name}": parameter
        for module, network in nets.named_children()
        for name, parameter in network.named_parameters()
        if module in phase.trains
    }
    for verb, names in (("corrects", phase.correction), ("bounds", phase.within)):
        for name in names:
            if name not in weights:
                raise Unusable(
                    f"{verb} '{name}' in phase '{phase.name}', and there is no such weight; "
                    f"a name reads module/parameter, as '{next(iter(weights), 'model/head.weight')}'"
                )
    for name, direction in phase.correction.items():
        if direction.shape != weights[name].shape:
            raise Unusable(
                f"corrects '{name}' in phase '{phase.name}' by {_layout(direction)}; it is {_layout(weights[name])}"
            )
    for name, (low, high) in phase.within.items():
        if not low <= high:
            raise Unusable(
                f"bounds '{name}' in phase '{phase.name}' from {low} to {high}; the first is the lower"
            )


def _plain(name: str, value: object, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise Unusable(f"gave as the figure '{name}' lists in lists without end")
    match value:
        case int() if abs(value) >= _LARGEST:
            raise Unusable(f"gave a whole number of more than 64 bits as the figure '{name}'")
        case None | str() | bool() | int() | float():
            return value
        case Tensor() if value.numel() == 1:
            return value.item()
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: _plain(name, each, depth + 1) for key, each in value.items()}
        case list() | tuple():
            return [_plain(name, each, depth + 1) for each in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # NumPy's scalars
        return _plain(name, value.item(), depth)
    raise Unusable(f"gave {_kind(value)} as the figure '{name}', which JSON cannot hold")


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {_layout(value)}"
    return "nothing" if value is None else a_type(value)


def _layout(tensor: Tensor) -> str:
    return f"{_dtype(tensor)} {list(tensor.shape)}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
