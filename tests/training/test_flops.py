"""Floating-point operations, against torch's own counter and by hand; and products in forward mode."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from simulator import models
from simulator.base import rng
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors, named, of_module
from simulator.data.inputs import blank
from simulator.methods.fedgh import FedGH
from simulator.methods.hooks import Hooks
from simulator.runners import Job, Work
from simulator.runners.local import update
from simulator.training.flops import FlopCache, counting_flops
from simulator.training.forward_mode import derivative_along, plain_attention
from simulator.training.trainer import TrainingContext
from tests import federations

# Floating-point operations, against torch's own counter and by hand.


LARGE = re.compile(r"resnet(50|1\d\d).*|vit_b_.*|tr_h.*_l(8|16)|.*lstm.*|.*gru")


@pytest.mark.parametrize(
    "large", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_training_step_counts_what_torchs_own_counter_counts(large: bool) -> None:
    """On the meta device, where operations are counted and not done."""
    wrong = {}
    for name in models.names():
        if bool(LARGE.fullmatch(name)) != large:
            continue
        spec = models.typical(name)
        network = models.architecture(name, spec, 10)
        x, y = blank(spec, 4, "meta"), torch.zeros(4, dtype=torch.int64, device="meta")
        with FlopCounterMode(display=False) as torchs, counting_flops() as ours:
            F.cross_entropy(network(x), y).backward()
        if not ours.total == torchs.get_total_flops() > 0:
            wrong[name] = (ours.total, torchs.get_total_flops())
    assert wrong == {}


def test_a_linear_layer_by_hand() -> None:
    """[5, 3] · [3, 7]: 2·5·3·7 forward, and as much again for the gradient of the weights; the input needs none."""
    layer = nn.Linear(3, 7)
    with counting_flops() as forward, torch.no_grad():
        layer(torch.zeros(5, 3))
    with counting_flops() as step:
        layer(torch.zeros(5, 3)).sum().backward()
    assert forward.total == 2 * 5 * 3 * 7
    assert step.total == 2 * 2 * 5 * 3 * 7


def test_only_the_threads_own_work_is_counted() -> None:
    with ThreadPoolExecutor(1) as pool, counting_flops() as flops:
        pool.submit(torch.mm, torch.zeros(50, 50), torch.zeros(50, 50)).result()
        torch.mm(torch.zeros(2, 3), torch.zeros(3, 4))
    assert flops.total == 2 * 2 * 3 * 4


def test_a_kind_of_step_is_counted_once_and_then_looked_up() -> None:
    """One that fails leaves no count."""
    cache = FlopCache()
    with pytest.raises(ValueError, match="broken"), cache.step("a", "model", 8):
        raise ValueError("broken")
    for size in (8, 2):
        with cache.step("a", "model", 8):
            torch.mm(torch.zeros(size, 3), torch.zeros(3, 4))
    assert cache.of("a", "model", 8) == 2 * 8 * 3 * 4
    with cache.step("a", "model", 2):
        torch.mm(torch.zeros(2, 3), torch.zeros(3, 4))
    assert cache.of("a", "model", 2) == 2 * 2 * 3 * 4


def test_the_ledger_adds_up_clients_and_server() -> None:
    """FedGH's server: one step on [|S_k|, 8] · [8, 4] for each participant, forward and gradient of the header."""
    parts = federations.built(federations.config("fedgh"))
    record = federations.run(parts.engine, 1).record
    seen = [len(parts.federation.clients[client].classes) for client in record["participants"]]
    assert record["flops"]["server"] == sum(2 * 2 * count * 8 * 4 for count in seen)
    assert record["flops"]["total"] == record["flops"]["clients"] + record["flops"]["server"]


def test_the_count_does_not_depend_on_which_client_came_first() -> None:
    """FedGH's class means of clients with equal samples and different numbers of classes."""
    images = federations.generated()
    labels = torch.from_numpy(images.labels)
    few, many = (labels < 2).nonzero()[:20, 0], torch.arange(20)
    data = federations.pixels(torch.from_numpy(images.images), labels, [few, many], num_classes=4)
    federation = federations.federation(["tiny_cnn"] * 2, [20, 20], [(0, 1), (0, 1, 2, 3)], num_classes=4)
    method = FedGH(federations.config("fedgh").method, federation)
    model = federation.build("tiny_cnn", rng.torch_stream(0, "tests/model"))

    def counted(*order: int) -> dict[int, int]:
        place = TrainingContext(federation, data, FlopCache())
        payload = method.init_server()
        jobs = {k: Job(named("model", of_module(model)), payload) for k in order}
        work = Work(Hooks(method, federation), 1, jobs)
        return {k: update(place, federation.clients[k], work).flops for k in order}

    assert counted(0, 1) == counted(1, 0)


# One forward-mode product: against derivatives by hand, through attention, and from several threads.


DOUBLE = torch.float64


def drawn(*shape: int, purpose: str = "x") -> Tensor:
    return torch.randn(shape, generator=rng.torch_stream(0, f"tests/{purpose}"), dtype=DOUBLE)


def test_the_product_is_the_derivative_along_the_direction() -> None:
    """f(a, b) = (a²b, b): along (1, 10) from (3, 2) it changes by (2ab·1 + a²·10, 10) = (102, 10)."""
    point = {"a": torch.tensor(3.0), "b": torch.tensor(2.0)}
    direction = {"a": torch.tensor(1.0), "b": torch.tensor(10.0)}
    for kept in (True, False):  # also where no gradients are kept
        with torch.set_grad_enabled(kept):
            change = derivative_along(
                lambda at: torch.stack([at["a"] ** 2 * at["b"], at["b"]]), point, direction
            )
        assert change.tolist() == [102.0, 10.0]


def test_threads_do_not_disturb_one_another() -> None:
    """f(a) = a³ at k along 1 changes by 3k²: each thread gets its own."""

    def product(k: int) -> float:
        point, direction = {"a": torch.tensor(float(k))}, {"a": torch.tensor(1.0)}
        return derivative_along(lambda at: at["a"] ** 3, point, direction).item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(product, range(60))) == [3.0 * k**2 for k in range(60)]


def test_plain_attention_is_attention() -> None:
    for mask in [None, torch.ones(5, 5).tril().bool(), drawn(5, 5, purpose="mask")]:
        query, key, value = (drawn(2, 3, 5, 4, purpose=name) for name in "qkv")
        expected = F.scaled_dot_product_attention(query, key, value, mask)
        with plain_attention():
            torch.testing.assert_close(F.scaled_dot_product_attention(query, key, value, mask), expected)
            with pytest.raises(TypeError, match="no plain form"):
                F.scaled_dot_product_attention(query, key, value, is_causal=True)


def test_a_product_passes_through_an_attention_layer() -> None:
    """Against a central difference, also with the context of keyed draws around the layer."""
    for draws in [False, True]:
        layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=DOUBLE)
        for name, parameter in layer.named_parameters():
            parameter.data = drawn(*parameter.shape, purpose=name)
        x = drawn(2, 5, 8)

        def function(at: Tensors, draws: bool = draws, layer: Any = layer) -> Tensor:
            def attend() -> Tensor:
                return layer(at["x"], at["x"], at["x"], need_weights=False)[0]

            if not draws:
                return attend()
            with drawing_from(rng.torch_stream(0, "tests/draws")):
                return attend()

        direction, h = drawn(2, 5, 8, purpose="direction"), 1e-5
        difference = (function({"x": x + h * direction}) - function({"x": x - h * direction})) / (2 * h)
        slope = derivative_along(function, {"x": x}, {"x": direction})
        torch.testing.assert_close(slope, difference.detach(), rtol=1e-6, atol=1e-7)
