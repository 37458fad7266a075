"""The optimizers of a phase: bit for bit those of torch's classes, without what those load and look at."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from simulator.base import rng
from simulator.base.sections import TrainingConfig
from simulator.training import optimizer

TORCHS = {
    "sgd": lambda weights, lr, **said: torch.optim.SGD(weights, lr, fused=True, **said),
    "adam": lambda weights, lr, **said: torch.optim.Adam(weights, lr, fused=True, **said),
    "adamw": lambda weights, lr, **said: torch.optim.AdamW(weights, lr, fused=True, **said),
}
SETTINGS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
    ("adam", {"weight_decay": 0.1}),
    ("adamw", {"weight_decay": 0.1}),
]


def weights() -> list[torch.nn.Parameter]:
    """Two tensors of one seed; the second will have no gradient."""
    stream = rng.torch_stream(0, "tests/optimizer/weights")
    return [torch.nn.Parameter(torch.randn(shape, generator=stream)) for shape in ((5, 3), (4,))]


def moved(stepper: Any, those: list[torch.nn.Parameter]) -> list[list[float]]:
    """Three steps with gradients of one seed."""
    stream = rng.torch_stream(0, "tests/optimizer/gradients")
    for _ in range(3):
        stepper.zero_grad()
        those[0].grad = torch.randn(those[0].shape, generator=stream)
        stepper.step()
    return [weight.flatten().tolist() for weight in those]


def test_three_steps_are_those_of_torchs_own_class() -> None:
    for kind, said in SETTINGS:
        ours, theirs, before = weights(), weights(), weights()
        named = [(f"w{number}", weight) for number, weight in enumerate(ours)]
        settings = TrainingConfig.model_validate({"optimizer": kind, **said})
        assert moved(optimizer.make(None, named, settings, 0.1), ours) == moved(
            TORCHS[kind](theirs, 0.1, **said), theirs
        )
        assert ours[1].tolist() == before[1].tolist() and ours[0].tolist() != before[0].tolist()


@pytest.mark.long
def test_a_round_loads_neither_torchs_compiler_nor_scikit_learn() -> None:
    """Either takes about as long as torch itself, at the start of every run."""
    code = (
        "import sys; from simulator.contract import Subject; Subject('fedgh').states(1); "
        "print([name for name in ('torch._dynamo', 'torch._inductor', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
