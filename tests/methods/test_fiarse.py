"""FIARSE: the largest weights, what their gradient is, and the mean over those that changed them; by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, packed, part, unpacked
from simulator.methods.fiarse import FIARSE
from simulator.methods.heterofl import of_layers
from simulator.models import Network
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, logits

MODEL = "tiny_resnet10"


class Line(Network):
    """f(x) = w·x of three pixels, without a bias; the head is 1."""

    layers = ("features",)

    def __init__(self, *w: float) -> None:
        super().__init__()
        self.f = nn.Linear(3, 1, bias=False)
        self.f.load_state_dict({"weight": torch.tensor([w])})
        self.head = nn.Linear(1, 1)
        self.head.load_state_dict({"weight": torch.ones(1, 1), "bias": torch.ones(1)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.f(x.flatten(1))}


def method(*architectures: str, **options: object) -> FIARSE:
    return sharing.of("fiarse", federations.federation(architectures or [MODEL] * 3), **options)


def line(*w: float, sizes: tuple[float, ...] = (1.0,)) -> tuple[FIARSE, Tensors]:
    """Two clients of one linear layer w, and a head of ones, which is larger."""
    fiarse = method("line", "line", sizes=sizes)
    network = Line(*w)
    fiarse.federation.__dict__["architectures"] = {"line": network}
    return fiarse, {"line/f.weight": torch.tensor([w])}


def held(fiarse: FIARSE, server: Tensors, client: int) -> list[bool]:
    whole = server | {"line/head.weight": torch.ones(1, 1), "line/head.bias": torch.ones(1)}
    return fiarse.held(whole, fiarse.federation.clients[client])["f.weight"].flatten().tolist()


def test_a_client_holds_the_largest_weights_of_all_layers_together() -> None:
    """Five numbers, .5, .2, −.4 and the head's 1, 1: with γ = 4/5 the least, .2, is out; with 3/5 also −.4."""
    fiarse, server = line(0.5, 0.2, -0.4, sizes=(4 / 5, 3 / 5))
    assert held(fiarse, server, 0) == [True, False, True]
    assert held(fiarse, server, 1) == [True, False, False]


def test_a_share_of_less_than_one_weight_is_one_weight() -> None:
    """⌊5 · 0.1⌋ = 0, and the largest, 5, is held alone."""
    fiarse, server = line(5.0, 3.0, 0.1, sizes=(0.1,))
    assert held(fiarse, server, 0) == [True, False, False]


def test_sizes_are_dealt_out_in_turn_and_a_new_client_holds_everything() -> None:
    fiarse = method(sizes=(1.0, 0.5))
    clients = fiarse.federation.clients
    assert [fiarse.size(client) for client in clients] == [1.0, 0.5, 1.0]
    assert fiarse.init_client(clients[1])["theta"].tolist() == [0.0]


def test_norms_are_held_whole() -> None:
    fiarse = method(sizes=(1 / 64,))
    mask = fiarse.held(fiarse.init_server(), fiarse.federation.clients[0])
    assert mask["bn1.weight"].all() and mask["layer2.1.bn2.bias"].all()
    ranked = of_layers(fiarse.federation.architectures[MODEL])
    kept, number = (sum(int(each(mask[name])) for name in ranked) for each in (torch.sum, torch.numel))
    assert kept == number // 64


def test_the_gradient_of_a_held_weight() -> None:
    """w = .5 and θ = .3: 1 + .5 · 2·.3/(.8)² = 1.46875, or 1; a weight below θ, here .2, gets none.

    The loss is that of two classes with logits (w·x + 1, 0): ∂/∂(w·m) = −(1 − p)·x.
    """
    for gradient, slope in [("importance", 1 + 0.5 * 0.6 / 0.64), ("mask", 1.0)]:
        fiarse = method(gradient=gradient)
        nets = Nets(_Two(0.5, 0.2))
        x = torch.tensor([[[[1.0, 1.0]]]])
        fiarse.loss(nets, {"theta": torch.tensor([0.3])}, Batch(x, torch.tensor([0])), {}).backward()
        grad = nets.model.get_parameter("f.weight").grad
        assert grad is not None
        p = 1 / (1 + math.exp(-1.5))  # the logit is .5·1 + 0·1 + 1: what is below θ does not count
        assert grad.flatten().tolist() == pytest.approx([-(1 - p) * slope, 0.0], abs=1e-6)


def test_where_everything_is_held_a_weight_of_zero_learns_as_any_other() -> None:
    """θ = 0, and 0/0 is no share: both gradients are −(1 − p), with the logit .5 + 0 + 1."""
    nets = Nets(_Two(0.5, 0.0))
    sample = Batch(torch.ones(1, 1, 1, 2), torch.tensor([0]))
    method().loss(nets, {"theta": torch.zeros(1)}, sample, {}).backward()
    grad = nets.model.get_parameter("f.weight").grad
    assert grad is not None
    assert grad.flatten().tolist() == pytest.approx([1 / (1 + math.exp(-1.5)) - 1] * 2, abs=1e-6)


class _Two(Network):
    """Logits (w·x + 1, 0) of two pixels."""

    layers = ("features",)

    def __init__(self, *w: float) -> None:
        super().__init__()
        self.f = nn.Linear(2, 1, bias=False)
        self.f.load_state_dict({"weight": torch.tensor([w])})
        self.head = nn.Linear(1, 2)
        self.head.load_state_dict({"weight": torch.tensor([[1.0], [0.0]]), "bias": torch.tensor([1.0, 0.0])})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.f(x.flatten(1))}


def test_a_client_answers_without_the_weights_that_fell_below_theta() -> None:
    parts, _, _, local = sharing.working("fiarse", receives=False, federation={"group": MODEL})
    local.state = {"theta": torch.tensor([0.2])}
    with torch.no_grad():
        local.nets.model.head.bias[:3] = torch.tensor([0.2, 0.1, -0.3])  # the first is θ
    parts.method.before_answering(local)
    assert local.nets.model.head.bias[:3].tolist() == [pytest.approx(0.2), 0.0, pytest.approx(-0.3)]
    left = local.nets.model.get_parameter("layer2.1.conv2.weight").abs()
    assert (left == 0).any() and left[left > 0].min() >= 0.2


def test_before_it_answers_a_client_takes_statistics_of_its_own_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, _, _, local = sharing.working("fiarse", receives=False, federation={"group": MODEL})
    local.state = {"theta": torch.tensor([0.0])}
    taken: list[str] = []
    monkeypatch.setattr(local, "take_statistics", lambda: taken.append("taken"))
    parts.method.before_answering(local)
    assert taken == ["taken"]


@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_a_packed_mask_unpacks_to_itself(bits: list[bool]) -> None:
    mask = torch.tensor(bits)
    words = packed(mask)
    assert words.dtype == torch.int32 and len(words) == math.ceil(len(bits) / 32)
    assert torch.equal(unpacked(words, mask.shape), mask)


def test_sizes_that_are_no_shares_are_refused() -> None:
    for sizes in [(), (0.0,), (1.5,), (0.5, 1.5)]:
        with pytest.raises(ConfigError, match="sizes are shares above 0"):
            federations.config("fiarse", method={"sizes": sizes})


def test_two_whole_rounds_equal_the_reference() -> None:
    """Clients that hold everything, a half and a tenth of tiny_cnn's weights, in batches of 16."""
    sizes, lr = (1.0, 0.5, 0.1), 0.1
    config = federations.config(
        "fiarse",
        method={"sizes": sizes},
        federation={"clients": 3, "participation": 1.0, "group": "tiny_cnn"},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    whole = part(ran.server, "tiny_cnn")
    names = list(whole)
    left = 0
    for t in (1, 2):
        flat = torch.cat([whole[name].flatten() for name in names])
        change, changed = torch.zeros_like(flat), torch.zeros_like(flat)
        for client, size in enumerate(sizes):
            k = int(len(flat) * size)
            theta = flat.abs().sort(descending=True).values[k - 1]
            w = torch.where(flat.abs() >= theta, flat, 0.0)
            for x, y in ran.batches("model", t, client):
                inside = (w.abs() >= theta).double()
                effective = (w * inside).requires_grad_()
                ce(logits(shaped(effective, whole), x), y).backward()
                assert effective.grad is not None
                w = w - lr * effective.grad * inside * (1 + w.abs() * 2 * theta / (w.abs() + theta) ** 2)
            left += int(((flat.abs() >= theta) & (w.abs() < theta)).sum())
            change += torch.where(flat.abs() >= theta, w - flat, 0.0)
            changed += (flat.abs() >= theta) & (w != flat)
        flat = flat + change / changed.clamp(min=1)
        whole = shaped(flat, whole)
    ran.assert_ended({"tiny_cnn": whole}, {})
    assert left > 0  # some weights fell below θ on the way


def shaped(flat: Tensor, like: Tensors) -> Tensors:
    """Weights in a row as tensors of these shapes."""
    sizes = [weight.numel() for weight in like.values()]
    return {name: each.view(like[name].shape) for name, each in zip(like, flat.split(sizes), strict=True)}
