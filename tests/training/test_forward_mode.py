"""One forward-mode product: against derivatives by hand, through attention, and from several threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base import rng
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors
from simulator.training.forward_mode import derivative_along, plain_attention

DOUBLE = torch.float64


def drawn(*shape: int, purpose: str = "x") -> Tensor:
    return torch.randn(shape, generator=rng.torch_stream(0, f"tests/{purpose}"), dtype=DOUBLE)


def test_the_product_is_the_derivative_along_the_direction() -> None:
    """f(a, b) = (a²b, b): along (1, 10) from (3, 2) it changes by (2ab·1 + a²·10, 10) = (102, 10)."""
    point = {"a": torch.tensor(3.0), "b": torch.tensor(2.0)}
    direction = {"a": torch.tensor(1.0), "b": torch.tensor(10.0)}
    change = derivative_along(lambda at: torch.stack([at["a"] ** 2 * at["b"], at["b"]]), point, direction)
    assert change.tolist() == [102.0, 10.0]


def test_it_works_where_no_gradients_are_kept() -> None:
    with torch.no_grad():
        change = derivative_along(lambda at: at["a"] ** 2, {"a": torch.tensor(3.0)}, {"a": torch.tensor(1.0)})
    assert change.item() == 6.0


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


def test_plain_attention_refuses_what_it_does_not_compute() -> None:
    x = drawn(1, 1, 2, 4)
    with plain_attention(), pytest.raises(TypeError, match="no plain form"):
        F.scaled_dot_product_attention(x, x, x, is_causal=True)


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
        torch.testing.assert_close(
            derivative_along(function, {"x": x}, {"x": direction}), difference.detach(), rtol=1e-6, atol=1e-7
        )
