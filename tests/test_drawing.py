"""Inside `drawing_from(stream)`, layers draw from the stream; outside, nothing has happened."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from simulator.base import rng
from simulator.base.rng import drawing_from, drawing_nothing


def stream(number: int = 0) -> torch.Generator:
    return rng.torch_stream(number, "tests/draws")


@pytest.fixture(autouse=True)
def _global_generator_stays_as_it_is() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def drawn(layer: Callable[[Tensor], Tensor], x: Tensor, number: int = 0) -> Tensor:
    with drawing_from(stream(number)):
        return layer(x)


LAYERS = {
    "Dropout": (nn.Dropout(0.5), (64,)),
    "Dropout in place": (nn.Dropout(0.5, inplace=True), (64,)),
    "Dropout1d": (nn.Dropout1d(0.5), (8, 8, 3)),
    "Dropout2d": (nn.Dropout2d(0.5), (8, 8, 3, 3)),
    "Dropout3d": (nn.Dropout3d(0.5), (8, 8, 2, 2, 2)),
    "torch.dropout": (lambda x: torch.dropout(x, 0.5, True), (64,)),
    "StochasticDepth (torchvision)": (torchvision.ops.StochasticDepth(0.5, "row"), (64, 2)),
    "DropPath (timm)": (timm.layers.DropPath(0.5), (64, 2)),
    "torch.rand_like": (torch.rand_like, (8,)),
    "torch.randn": (lambda x: torch.randn(8), (8,)),
    "torch.randperm": (lambda x: torch.randperm(50), (8,)),
    "torch.normal": (lambda x: torch.normal(x, x), (8,)),
    "multinomial": (lambda x: x.multinomial(8, replacement=True), (8,)),
}


def test_draws_come_from_the_stream() -> None:
    for name in LAYERS:
        layer, shape = LAYERS[name]
        first, same, other = (drawn(layer, torch.ones(shape), number) for number in (0, 0, 1))
        assert torch.equal(first, same)
        assert not torch.equal(first, other)


SHARES = [0.1, 0.5, 0.9]


def test_dropout_zeroes_a_share_p_and_scales_the_rest() -> None:
    """The survivors are 1/(1−p), and of 20,000 elements a share of p ± 5 standard deviations is zero."""
    for p in SHARES:
        dropped = drawn(nn.Dropout(p), torch.ones(20_000))
        zeros = (dropped == 0).sum().item()
        assert abs(zeros - 20_000 * p) < 5 * (20_000 * p * (1 - p)) ** 0.5
        assert dropped[dropped != 0].unique().tolist() == [pytest.approx(1 / (1 - p))]


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    x = torch.ones(64, requires_grad=True)
    dropped = drawn(nn.Dropout(0.5), x)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())


def test_dropout_of_nothing_and_of_everything_and_layers_in_evaluation_draw_nothing() -> None:
    source, ones = stream(), torch.ones(2, 8)
    before = source.get_state()
    layers = (nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.RReLU(), nn.FeatureAlphaDropout(0.5))
    with drawing_from(source):
        for p, value in ((0.0, 1.0), (1.0, 0.0)):
            assert (F.dropout(ones, p) == value).all()
        assert torch.equal(nn.Sequential(*layers).eval()(ones), ones)
    assert torch.equal(source.get_state(), before)


class Called(TorchDispatchMode):
    """Notes the names of the operations that reach torch's kernels, or their stand-ins."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


def test_where_there_are_no_values_none_are_drawn() -> None:
    with Called() as called, torch.device("meta"), drawing_nothing():
        network = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
        nn.init.trunc_normal_(network[0].weight)
    assert network[0].weight.is_meta and network[0].weight.shape == (2, 3)
    assert not called.names & {"uniform_", "normal_"} and "fill_" in called.names


def attention(dropout: float) -> nn.MultiheadAttention:
    with drawing_from(stream()):
        return nn.MultiheadAttention(4, 1, dropout=dropout)


REFUSED = {
    "AlphaDropout": nn.AlphaDropout(0.5),
    "FeatureAlphaDropout": nn.FeatureAlphaDropout(0.5),
    "RReLU": nn.RReLU(),
    "FractionalMaxPool2d": nn.FractionalMaxPool2d(2, output_size=2),
    "gumbel_softmax": F.gumbel_softmax,
    "attention dropout": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "attention dropout by position": lambda x: F.scaled_dot_product_attention(x, x, x, None, 0.5),
    "MultiheadAttention": lambda x: attention(dropout=0.5)(x[0], x[0], x[0])[0],
}


def test_what_cannot_draw_from_the_stream_is_refused() -> None:
    for name in REFUSED:
        with pytest.raises(TypeError, match="cannot draw from a keyed stream"):
            drawn(REFUSED[name], torch.ones(1, 2, 4, 4))


def test_attention_without_dropout_is_left_alone() -> None:
    x = torch.ones(2, 4, 4)
    layer = attention(dropout=0.0)
    assert torch.equal(drawn(lambda x: layer(x, x, x)[0], x), layer(x, x, x)[0])
    dropping = attention(dropout=0.5).eval()
    assert torch.equal(drawn(lambda x: dropping(x, x, x)[0], x), dropping(x, x, x)[0])


def test_threads_draw_each_from_its_own_stream() -> None:
    """Two threads that draw in step get what each gets alone."""
    alone = [drawn(nn.Dropout(0.5), torch.ones(64), number) for number in (0, 1)]
    barrier = Barrier(2)

    def work(number: int) -> list[Tensor]:
        with drawing_from(stream(number)):
            results = []
            for _ in range(20):
                barrier.wait()
                results.append(F.dropout(torch.ones(64)))
            return results

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, (0, 1)))
    for number in (0, 1):
        assert torch.equal(together[number][0], alone[number])
        with drawing_from(stream(number)):
            assert all(torch.equal(F.dropout(torch.ones(64)), result) for result in together[number])


BUILDS = [
    lambda: torchvision.models.resnet18(num_classes=10),
    lambda: torchvision.models.mobilenet_v2(num_classes=10),
    lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=10),
    lambda: timm.create_model("resnet10t", num_classes=10),
]


@pytest.mark.long
def test_library_models_are_initialised_from_the_stream() -> None:
    for build in BUILDS:

        def weights(number: int, build: Callable[[], nn.Module] = build) -> dict[str, Tensor]:
            with drawing_from(stream(number)):
                return build().state_dict()

        first, same, other = weights(0), weights(0), weights(1)
        assert all(torch.equal(first[name], same[name]) for name in first)
        assert any(not torch.equal(first[name], other[name]) for name in first)


HARMLESS = [
    nn.Dropout(0.0),
    nn.Dropout(0.5).eval(),
    nn.RReLU().eval(),
    lambda x: F.scaled_dot_product_attention(x, x, x),
    lambda x: torch.rand(3, generator=stream()),
]


def test_what_would_draw_with_other_arguments_counts_as_drawing() -> None:
    for harmless in HARMLESS:
        with drawing_from(stream()) as mode:
            harmless(torch.ones(2, 3, 3))
        assert mode.needed


def test_a_network_of_layers_that_cannot_draw_needs_no_stream() -> None:
    with drawing_from(stream()):  # of which the initial weights are
        network = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
        )
    with drawing_from(stream()) as mode:
        F.cross_entropy(network(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1]))
    assert not mode.needed
