"""The imitated device: it computes as the host does, and notices waits, strays, and mixed devices; also those that a
change of any method would bring."""

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator import methods
from simulator.base import tensors as moving
from simulator.contract import Subject
from simulator.methods import registry
from simulator.training import loop
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, parts_of
from tests.contract.device import STAYS
from tests.contract.imitation import ALLOWED, CUDA, imitated_device


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
        parts = name.split(".")
        split = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in sys.modules)
        assert callable(functools.reduce(getattr, parts[split:], sys.modules[".".join(parts[:split])])), name


@functools.cache
def subject(name: str) -> Subject:
    return Subject(name, runner="sequential", precision="float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_a_constant_on_the_host_in_the_loss_of_a_method_breaks_the_promise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strayed(phase: Phase) -> Phase:
        def loss(nets: Nets, state: Any, batch: Batch, draws: Draws) -> LossParts:
            whole = parts_of(phase.loss(nets, state, batch, draws))
            return whole._replace(loss=whole.loss + torch.zeros(()))

        return replace(phase, loss=loss)

    right = methods.get(name).phases
    assert subject(name).first
    monkeypatch.setattr(methods.get(name), "phases", lambda *given: [strayed(each) for each in right(*given)])
    broken = STAYS.broken_by(subject(name))
    assert broken is not None and "mixes devices in a training step (aten.add.Tensor)" in broken


MAKES = {
    "zeros_like",
    "ones_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "one_hot",
    "stack",
    "cat",
}
"""Functions whose result is on the device of what they are given."""


WITHOUT_EFFECT = {
    "return nn.Linear(meme.num_features, model.num_features, bias=False, device=device)",  # gets the client's weights
    'n = uplink.payload.get("counts", torch.ones_like(uplink.payload["labels"])).to(sums.dtype)',  # has counts
    "own, scale = g_k, torch.ones_like(norm_k)",  # the next line makes another scale
    '"effective_rank": torch.stack(ranks).mean(),',  # the host reads each metric at once
    '"energy_beyond_lowest": torch.stack(energies).mean(),',
}
"""Lines whose constants the round does not use, or only as a number on the host."""


class Strayed(ast.NodeTransformer):
    """A module with one constant on the host. Initial states are left out, because the engine moves them itself."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.line = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.name in ("init_server", "init_client", "adopt") else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        option = next((each for each in node.keywords if each.arg == "device"), None)
        if option is not None and not isinstance(option.value, ast.Constant) and self._is_next(node):
            option.value = ast.parse("strayed()", mode="eval").body
        elif name == "to" and ast.unparse(node).endswith("device)") and self._is_next(node):
            node.args = [ast.parse("strayed()", mode="eval").body]
        elif name in MAKES and option is None and self._is_next(node):
            return ast.copy_location(
                ast.parse(f"({ast.unparse(node)}).to(strayed())", mode="eval").body, node
            )
        return node

    def _is_next(self, node: ast.Call) -> bool:
        self.left -= 1
        self.line = node.lineno if self.left == 0 else self.line
        return self.left == 0


def mutants(module: ModuleType, patch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[bool]]]:
    """The module with each of its constants on the host, one after the other, registered in its place.

    Yields the constant's line, and a list that is no longer empty once the line has run.
    """
    for number in range(1, 1000):
        tree, strays = ast.parse(inspect.getsource(module)), Strayed(number)
        tree = ast.fix_missing_locations(strays.visit(tree))
        if not strays.line:
            return
        ran = list[bool]()

        def strayed(ran: list[bool] = ran) -> torch.device:
            ran.append(True)
            return torch.device("cpu")

        inside = {**vars(module), "strayed": strayed}
        others = {key: each for key, each in registry._METHODS.items() if each.__module__ != module.__name__}
        patch.setattr(registry, "_METHODS", others)
        exec(compile(tree, str(module.__file__), "exec"), inside)
        yield strays.line, ran


MODULES = sorted({methods.get(name).__module__ for name in methods.names()})


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_a_constant_of_a_method_on_the_host_breaks_the_promise(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each constant that the defaults make: a line that does not run in the round is left out."""
    own = [name for name in methods.names() if methods.get(name).__module__ == module]
    lines = inspect.getsource(sys.modules[module]).splitlines()
    right = {name: subject(name) for name in own}
    kept = []
    for line, ran in mutants(sys.modules[module], monkeypatch):
        for name in own:
            wrong = Subject(name, runner="sequential", precision="float32")
            wrong.__dict__["_undisturbed"] = [right[name].first]
            ran.clear()
            broken = STAYS.broken_by(wrong)
            if ran:
                kept += [] if broken else [lines[line - 1].strip()]
                break
    assert set(kept) <= WITHOUT_EFFECT


def test_a_checkpoint_that_loses_bytes_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    right = moving.portions
    assert subject("standalone").first
    monkeypatch.setattr(moving, "portions", lambda sizes, room: [*right(sizes, room)][:-1])
    broken = STAYS.broken_by(subject("standalone"))
    assert broken is not None and broken.startswith("a checkpoint has other tensors of client")
