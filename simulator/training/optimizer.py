"""The optimizers of a phase: torch's own rules, without its classes around them, which load the compiler."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors

Named = Sequence[tuple[str, nn.Parameter]]

_MOMENTS = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}
_STEP = "step"


class Optimizer(ABC):
    """Updates weights by their gradients. Those without one stay. `state` has the moments of updated weights."""

    def __init__(
        self, weights: Sequence[nn.Parameter], lr: float, weight_decay: float = 0.0, momentum: float = 0.0
    ) -> None:
        self.lr = lr
        self.state: dict[Tensor, Tensors] = {}
        self._weights, self._momentum = list(weights), momentum
        fused = all(weight.device.type != "meta" for weight in weights)  # no values, so nothing to fuse
        self._settings: dict[str, Any] = {"weight_decay": weight_decay, "maximize": False, "fused": fused}

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for weight in self._weights:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update every weight that has a gradient."""
        moving = [weight for weight in self._weights if weight.grad is not None]
        if moving:
            self._move([*moving], [weight.grad for weight in moving if weight.grad is not None])

    @abstractmethod
    def _move(self, weights: list[Tensor], gradients: list[Tensor]) -> None: ...


class PlainSGD(Optimizer):
    """w ← w − ηg, rounded after each operation on every processor, unlike torch's. FedGH's sessions keep their bits."""

    def _move(self, weights: list[Tensor], gradients: list[Tensor]) -> None:
        torch._foreach_sub_(weights, torch._foreach_mul(gradients, self.lr))


class SGD(Optimizer):
    """torch's SGD, with momentum and weight decay."""

    def _move(self, weights: list[Tensor], gradients: list[Tensor]) -> None:
        buffers = [self.state.get(weight, {}).get("momentum_buffer") for weight in weights]
        settings = self._settings | {"momentum": self._momentum, "dampening": 0.0, "nesterov": False}
        sgd(weights, gradients, buffers, lr=self.lr, **settings)
        if self._momentum:
            for weight, buffer in zip(weights, buffers, strict=True):
                assert buffer is not None
                self.state[weight] = {"momentum_buffer": buffer}


class Adam(Optimizer):
    """torch's Adam, with its defaults β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸."""

    _rule: Callable[..., None] = staticmethod(adam)

    def _move(self, weights: list[Tensor], gradients: list[Tensor]) -> None:
        for weight in weights:
            if weight not in self.state:
                moments = {name: torch.zeros_like(weight) for name in _MOMENTS["adam"]}
                self.state[weight] = {_STEP: torch.zeros((), device=weight.device), **moments}
        states = [self.state[weight] for weight in weights]
        first, second, steps = ([each[name] for each in states] for name in (*_MOMENTS["adam"], _STEP))
        settings = self._settings | {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}
        self._rule(weights, gradients, first, second, [], steps, lr=self.lr, **settings)


class AdamW(Adam):
    """Weight decay apart from the gradient."""

    _rule = staticmethod(adamw)


def make(
    kind: Literal["sgd", "adam"] | None, parameters: Named, settings: TrainingConfig, lr: float
) -> Optimizer:
    """A plain optimizer of this kind; for None, the configured one."""
    weights = [parameter for _, parameter in parameters]
    if kind is not None:
        return PlainSGD(weights, lr) if kind == "sgd" else Adam(weights, lr)
    kinds: dict[str, type[SGD | Adam]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}
    return kinds[settings.optimizer](weights, lr, settings.weight_decay, settings.momentum)


def moments(kind: Literal["sgd", "adam"], modules: Mapping[str, nn.Module]) -> Tensors:
    """The moments of these modules before the first step: zeros, on the CPU.

    Named `module.parameter.moment`, and `step` for Adam's count of steps. Put them into the state under the part that a
    phase `keeps`.
    """
    zeros = {
        f"{name}.{key}.{moment}": torch.zeros(parameter.shape, dtype=parameter.dtype)
        for name, module in modules.items()
        for key, parameter in module.named_parameters()
        for moment in _MOMENTS[kind]
    }
    return zeros | ({_STEP: torch.zeros(())} if kind == "adam" else {})


def restore(optimizer: Optimizer, parameters: Named, kept: Mapping[str, Tensor]) -> None:
    """Load saved moments into a new optimizer. Raises KeyError for a missing one."""
    kind = "adam" if isinstance(optimizer, Adam) else "sgd"
    for name, parameter in parameters:
        remembered = {moment: kept[f"{name}.{moment}"].clone() for moment in _MOMENTS[kind]}
        if kind == "adam":
            remembered[_STEP] = kept[_STEP].clone()
        optimizer.state[parameter] = remembered


def kept(optimizer: Optimizer, parameters: Named) -> Tensors:
    """The moments to save, under the names that `moments` gave them."""
    found: Tensors = {}
    for name, parameter in parameters:
        for moment, value in optimizer.state.get(parameter, {}).items():
            found[_STEP if moment == _STEP else f"{name}.{moment}"] = value.detach()
    return found
