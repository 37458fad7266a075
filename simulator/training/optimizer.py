"""The optimisers of a phase, and their moments as named tensors where a method keeps them from round to round."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from simulator.sections import TrainingConfig
from simulator.tensors import Tensors

Named = Sequence[tuple[str, nn.Parameter]]

_MOMENTS = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}
_STEP = "step"


class PlainSGD(torch.optim.Optimizer):
    """w ← w − ηg, rounded after the product and after the difference.

    torch's own rounds once, or twice, as the processor has it. FedGH's server has stepped like this from its first
    version, and its sessions are to keep their bits.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            moving = [weight for weight in group["params"] if weight.grad is not None]
            if moving:
                steps = torch._foreach_mul([weight.grad for weight in moving], group["lr"])
                torch._foreach_sub_(moving, steps)


def make(
    kind: Literal["sgd", "adam"] | None, parameters: Named, settings: TrainingConfig, lr: float
) -> torch.optim.Optimizer:
    """A plain optimiser of this kind; for None the one that the configuration describes."""
    weights = [parameter for _, parameter in parameters]
    fused = all(weight.device.type != "meta" for weight in weights)  # where no values are, nothing is fused
    match kind, settings.optimizer:
        case "sgd", _:
            return PlainSGD(weights, lr)
        case None, "sgd":
            momentum, decay = settings.momentum, settings.weight_decay
            return torch.optim.SGD(weights, lr, momentum=momentum, weight_decay=decay, fused=fused)
        case None, "adamw":
            return torch.optim.AdamW(weights, lr, weight_decay=settings.weight_decay, fused=fused)
    decay = settings.weight_decay if kind is None else 0.0
    return torch.optim.Adam(weights, lr, weight_decay=decay, fused=fused)


def moments(kind: Literal["sgd", "adam"], modules: Mapping[str, nn.Module]) -> Tensors:
    """What an optimiser of these modules remembers, before its first step: zeros, on the CPU.

    Named `module.parameter.moment`, and `step` for Adam's count of steps. Put them into the state under the part that
    a phase `keeps`.
    """
    zeros: Tensors = {}
    for name, module in modules.items():
        for key, parameter in module.named_parameters():
            for moment in _MOMENTS[kind]:
                zeros[f"{name}.{key}.{moment}"] = torch.zeros(parameter.shape, dtype=parameter.dtype)
    if kind == "adam":
        zeros[_STEP] = torch.zeros(())
    return zeros


def restore(optimizer: torch.optim.Optimizer, parameters: Named, kept: Mapping[str, Tensor]) -> None:
    """Let a fresh optimiser go on from the moments that are kept; raises KeyError for one that is missing."""
    kind = "adam" if isinstance(optimizer, torch.optim.Adam) else "sgd"
    for name, parameter in parameters:
        remembered = {moment: kept[f"{name}.{moment}"].clone() for moment in _MOMENTS[kind]}
        if kind == "adam":
            remembered[_STEP] = kept[_STEP].clone()
        optimizer.state[parameter].update(remembered)


def kept(optimizer: torch.optim.Optimizer, parameters: Named) -> Tensors:
    """The moments to keep, under the names that `moments` gave them."""
    found: Tensors = {}
    for name, parameter in parameters:
        for moment, value in optimizer.state[parameter].items():
            found[_STEP if moment == _STEP else f"{name}.{moment}"] = value.detach()
    return found
