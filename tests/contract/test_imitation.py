"""The imitated device: it computes as the host does, and notices waits, strays, and mixed devices."""

from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base import tensors as moving
from simulator.contract import Subject
from simulator.methods.standalone import Standalone
from simulator.training import loop
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, parts_of
from tests.contract.imitation import ALLOWED, CUDA, STAYS, imitated_device


def noticed(work: Callable[[Tensor], object], *, in_step: bool = False) -> list[str]:
    """What is noticed while the work has a tensor [2, 3] on the device."""
    with pytest.MonkeyPatch.context() as patch, imitated_device() as device:
        tensor = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=CUDA)
        if in_step:
            patch.setattr(loop, "steps", work)
        work(tensor)
    return [event.kind for event in device.events]


READS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x.any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "mask": lambda x: x[x > 2],
    "equal": lambda x: torch.equal(x, x),
    "copy_": lambda x: torch.empty(2, 3).copy_(x),
}


def test_a_read_is_noticed() -> None:
    for name in READS:
        assert set(noticed(READS[name])) == {"reads a value"}


MIXES: dict[str, Callable[[Tensor], object]] = {
    "a matrix": lambda x: x + torch.ones(2, 3),
    "a scalar": lambda x: x + torch.ones(()),
    "indices": lambda x: x[torch.arange(2)],
    "a generator": lambda x: torch.empty_like(x).uniform_(generator=torch.Generator()),
}


def test_what_is_on_the_host_does_not_mix_with_what_is_on_the_device() -> None:
    for name in MIXES:
        assert noticed(MIXES[name]) == ["mixes devices"]


def test_work_that_stays_on_the_device_is_not_noticed() -> None:
    def work(x: Tensor) -> None:
        draws = torch.Generator(CUDA).manual_seed(0)
        noise = torch.rand(2, 3, device=x.device, generator=draws)
        weight = torch.nn.Parameter(x * noise + torch.zeros_like(x))
        loss = F.cross_entropy(weight, F.one_hot(x.argmax(1), 3).argmax(1))
        loss.backward()
        x[x > 2] = 0.0

    assert noticed(work, in_step=True) == []


def test_only_a_step_may_neither_make_tensors_on_the_host_nor_copy_them_to_the_device() -> None:
    for in_step in [False, True]:
        expected = ["makes a tensor on the host", "copies to the device"] if in_step else []
        assert noticed(lambda x: torch.zeros(3).to(x.device), in_step=in_step) == expected


def test_numbers_are_those_of_the_host() -> None:
    """x·wᵀ = 1·1 + 2·3 = 7; the gradient of its square by w is 2·7·x."""
    with imitated_device():
        x = torch.tensor([1.0, 2.0], device=CUDA)
        w = torch.tensor([1.0, 3.0], device=CUDA, requires_grad=True)
        (x @ w).square().backward()
        assert w.grad is not None
        assert w.grad.device == CUDA
        assert w.grad.tolist() == [14.0, 28.0]


def test_a_derivative_in_forward_mode_stays_on_the_device() -> None:
    """d(3x²) = 6x·dx: at 2, along 5, it is 60."""

    def cubed(x: Tensor) -> Tensor:
        assert x.device == CUDA
        return x.square() * torch.full((1,), 3.0, device=x.device)

    with imitated_device() as device:
        point, along = (torch.tensor([value], device=CUDA) for value in (2.0, 5.0))
        change = torch.func.jvp(cubed, (point,), (along,))[1]
        assert change.tolist() == [60.0]
    assert [event.operation for event in device.faults] == ["aten._to_copy.default"]  # tolist


def test_afterwards_torch_is_as_it_was() -> None:
    with imitated_device():
        pass
    assert torch.ones(1).device.type == "cpu"
    assert torch.Generator is torch._C.Generator
    assert "device" not in vars(torch.Tensor)


def test_every_function_that_may_wait_exists() -> None:
    """Otherwise, a renamed function would lose its reason unnoticed."""
    for name in ALLOWED:
        assert callable(resolve_name(name)), name


def test_a_constant_on_the_host_in_a_loss_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def strayed(phase: Phase) -> Phase:
        def loss(nets: Nets, state: Any, batch: Batch, draws: Draws) -> LossParts:
            whole = parts_of(phase.loss(nets, state, batch, draws))
            return whole._replace(loss=whole.loss + torch.zeros(()))

        return replace(phase, loss=loss)

    right, subject = Standalone.phases, Subject("standalone", runner="sequential", precision="float32")
    assert subject.first
    monkeypatch.setattr(Standalone, "phases", lambda *given: [strayed(each) for each in right(*given)])
    broken = STAYS.broken_by(subject)
    assert broken is not None and "mixes devices in a training step (aten.add.Tensor)" in broken


def test_a_checkpoint_that_loses_bytes_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    right, subject = moving.portions, Subject("standalone", runner="sequential", precision="float32")
    assert subject.first
    monkeypatch.setattr(moving, "portions", lambda sizes, room: [*right(sizes, room)][:-1])
    broken = STAYS.broken_by(subject)
    assert broken is not None and broken.startswith("a checkpoint has other tensors of client")
