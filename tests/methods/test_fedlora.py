"""FedLoRA: its two losses on fixed tensors, its two phases, its adapters' sizes."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.tensors import of_module, part
from simulator.methods.fedlora import Adapter, FedLoRA
from simulator.models import ImageShape, Network
from simulator.training.loop import steps
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import sharing

CIFAR = ImageShape(3, 32, 32)
HTM5 = ["cnn1", "cnn2", "cnn3", "cnn4", "cnn5"]


def method(architectures: list[str], samples: list[int] | None = None, **options: Any) -> FedLoRA:
    """FedLoRA among clients of CIFAR-10's shape."""
    return sharing.of(
        "fedlora", federations.federation(architectures, samples, num_classes=10, shape=CIFAR), **options
    )


class Shown(Network):
    """A network that shows its image as both representations, and reads its logits off directly."""

    layers = ("fc1", "fc2")

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.head.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"fc1": -x.flatten(1), "fc2": x.flatten(1)}


def fixed(structure: str) -> tuple[FedLoRA, Nets, Batch]:
    """R = (1, 2) of class 0 in FC2 and (−1, −2) in FC1; the head gives the logits (1, 2).

    The adapter's hidden unit is r_1 + r_2 − 1, and its logits are (hidden, 0).
    """
    fedlora = method(["tiny_cnn"], structure=structure, hidden=1)
    nets = Nets(Shown())
    nets["adapter"] = Adapter(2, 1, 2, nonlinear=structure == "direct")
    nets["adapter"].load_state_dict(
        {
            "down.weight": torch.tensor([[1.0, 1.0]]),
            "down.bias": torch.tensor([-1.0]),
            "up.weight": torch.tensor([[1.0], [0.0]]),
            "up.bias": torch.zeros(2),
        }
    )
    x = torch.tensor([1.0, 2.0], dtype=torch.float64).reshape(1, 1, 1, 2)
    return fedlora, nets.double(), Batch(x, torch.tensor([0]))


def test_the_models_loss_mixes_the_adapters_answer_with_its_own() -> None:
    """Head: logits (1, 2), CE = log(1 + e). Adapter: hidden 1 + 2 − 1 = 2, logits (2, 0), CE = log(1 + e⁻²).
    With μ = 0.9: 0.1 log(1 + e⁻²) + 0.9 log(1 + e)."""
    fedlora, nets, batch = fixed("decomposed")
    expected = 0.1 * math.log1p(math.exp(-2)) + 0.9 * math.log1p(math.e)
    assert fedlora.model_loss(nets, {}, batch, {}).item() == pytest.approx(expected, rel=1e-14)


def test_the_decomposed_adapter_is_linear() -> None:
    """For −R the hidden unit is −1 − 2 − 1 = −4 and stays so: logits (−4, 0), CE = log(1 + e⁴)."""
    fedlora, nets, batch = fixed("decomposed")
    loss = fedlora.adapter_loss(nets, {}, Batch(-batch.x, batch.y), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(4)), rel=1e-14)


def test_the_direct_adapter_reads_fc1_through_a_relu() -> None:
    """FC1 is (−1, −2), so the hidden unit is relu(−4) = 0, the logits (0, 0) and the loss log 2."""
    fedlora, nets, batch = fixed("direct")
    assert fedlora.adapter_loss(nets, {}, batch, {}).item() == pytest.approx(math.log(2), rel=1e-14)
    expected = 0.1 * math.log(2) + 0.9 * math.log1p(math.e)
    assert fedlora.model_loss(nets, {}, batch, {}).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("client", [0, 1])
def test_each_phase_trains_its_part_and_leaves_the_other_untouched(client: int) -> None:
    """The model's statistics included: client 1 has a BatchNorm."""
    _, fedlora, _, local = sharing.working("fedlora", client)
    first, second = fedlora.phases(local)
    for phase, moves, stays in ((first, "model", "adapter"), (second, "adapter", "model")):
        before = {name: copy.deepcopy(of_module(local.nets[name])) for name in (moves, stays)}
        for _ in steps(local, phase):
            pass
        assert federations.bits(of_module(local.nets[stays])) == federations.bits(before[stays])
        weights = local.nets[moves].named_parameters()
        assert not any(torch.equal(each, before[moves][name]) for name, each in weights)


def shapes(fedlora: FedLoRA) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in part(fedlora.init_server(), "adapter").items()}


def test_the_decomposed_adapter_lies_beside_fc3() -> None:
    """500 → 60 → 10: 500·60 + 60 + 60·10 + 10 = 30,670 parameters."""
    fedlora = method(HTM5)
    assert shapes(fedlora) == {
        "down.weight": (60, 500),
        "down.bias": (60,),
        "up.weight": (10, 60),
        "up.bias": (10,),
    }
    assert sum(tensor.numel() for tensor in fedlora.init_server().values()) == 30_670


def test_the_direct_adapter_lies_beside_fc2_and_fc3() -> None:
    """2000 → 200 → 10: 2000·200 + 200 + 200·10 + 10 = 402,210 parameters."""
    fedlora = method(["cnn1", "cnn1"], structure="direct")
    assert shapes(fedlora) == {
        "down.weight": (200, 2000),
        "down.bias": (200,),
        "up.weight": (10, 200),
        "up.bias": (10,),
    }
    assert sum(tensor.numel() for tensor in fedlora.init_server().values()) == 402_210


def test_the_adapter_has_its_own_learning_rate_where_one_is_given() -> None:
    parts, _, _, local = sharing.working("fedlora", receives=False, options={"eta_theta": 0.5})
    assert [phase.lr for phase in parts.method.phases(local)] == [None, 0.5]


def test_direct_is_refused_when_fc1_differs() -> None:
    """CNN-1 and CNN-2 have an FC1 of 2000, CNN-3 of 1000: client 2 is the first that differs."""
    with pytest.raises(
        ConfigError, match=r"client 0 \(cnn1\) has 'fc1' of width 2000, client 2 \(cnn3\) has .* 1000"
    ):
        method(HTM5, structure="direct").check()
    method(HTM5, structure="decomposed").check()
