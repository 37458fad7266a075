"""FIARSE: the largest weights, what their gradient is, and the mean over those that changed them; by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, packed, part, unpacked
from simulator.methods import Uplink
from simulator.methods.fiarse import FIARSE
from simulator.methods.heterofl import of_layers
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference

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
    federation = federations.federation(architectures or [MODEL] * 3)
    return FIARSE(federations.config("fiarse", method=options).method, federation)


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


def test_of_a_fraction_the_whole_part_is_held_and_one_weight_at_least() -> None:
    """⌊5 · 0.5⌋ = 2: the head's. ⌊5 · 0.1⌋ = 0, but θ is then the largest, which both have."""
    fiarse, server = line(0.5, 0.2, -0.4, sizes=(0.5, 0.1))
    assert held(fiarse, server, 0) == held(fiarse, server, 1) == [False] * 3


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


@pytest.mark.parametrize(("gradient", "slope"), [("importance", 1 + 0.5 * 0.6 / 0.64), ("mask", 1.0)])
def test_the_gradient_of_a_held_weight(gradient: str, slope: float) -> None:
    """w = .5 and θ = .3: 1 + .5 · 2·.3/(.8)² = 1.46875, or 1; a weight below θ, here .2, gets none.

    The loss is that of two classes with logits (w·x + 1, 0): ∂/∂(w·m) = −(1 − p)·x.
    """
    fiarse = method(gradient=gradient)
    nets = Nets(_Two(0.5, 0.2))
    x = torch.tensor([[[[1.0, 1.0]]]])
    fiarse.loss(nets, {"theta": torch.tensor([0.3])}, Batch(x, torch.tensor([0])), {}).backward()
    grad = nets.model.get_parameter("f.weight").grad
    assert grad is not None
    p = 1 / (1 + math.exp(-1.5))  # the logit is .5·1 + 0·1 + 1: what is below θ does not count
    assert grad.flatten().tolist() == pytest.approx([-(1 - p) * slope, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("momentum", "decay", "stays"), [(0.0, 0.0, True), (0.9, 0.0, False), (0.0, 0.1, False)]
)
def test_a_weight_below_theta_stays_as_it_is_with_plain_sgd_alone(
    momentum: float, decay: float, stays: bool
) -> None:
    """A step in which θ = .1 holds both weights, then one in which θ is above the second weight."""
    fiarse, nets = method(), Nets(_Two(0.5, 0.2))
    weight = nets.model.get_parameter("f.weight")
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=momentum, weight_decay=decay)
    batch = Batch(torch.tensor([[[[1.0, 1.0]]]]), torch.tensor([0]))
    seen = []
    for theta in (0.1, 0.4):
        optimizer.zero_grad()
        fiarse.loss(nets, {"theta": torch.tensor([theta])}, batch, {}).backward()
        optimizer.step()
        seen.append(weight[0, 1].item())
    assert seen[0] < 0.4
    assert (seen[1] == seen[0]) == stays


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


def test_a_weight_moves_by_the_mean_over_those_that_changed_it() -> None:
    """w = (.5, .2, −.4). A holds all and sends (.7, .2, −.1); B holds the two largest and sends .6 and −.4.
    First: (.2 + .1)/2 more. Second: A has it and left it. Third: .3 more, by A alone, though B has it."""
    fiarse, server = line(0.5, 0.2, -0.4, sizes=(1.0, 4 / 5))
    head = {"line/head.weight": torch.ones(1, 1), "line/head.bias": torch.ones(1)}
    first, second = fiarse.federation.clients

    def sent(client: ClientInfo, *values: float) -> Uplink:
        ones = {f"values/head.{key}": torch.ones(1) for key in ("weight", "bias")}
        return Uplink(client, {"values/f.weight": torch.tensor(values)} | ones)

    uplinks = [sent(first, 0.7, 0.2, -0.1), sent(second, 0.6, -0.4)]
    moved = fiarse.aggregate(1, server | head, uplinks).server["line/f.weight"]
    torch.testing.assert_close(moved, torch.tensor([[0.65, 0.2, -0.1]]))


def test_what_is_not_held_is_zero_on_the_client_and_theta_the_least_of_the_rest() -> None:
    parts = federations.built(federations.config("fiarse", federation={"group": MODEL}))
    state = parts.engine.initial_state()
    local = federations.local(parts, 1, state.clients[1])  # γ = ¼
    parts.method.receive(local, parts.method.downlink(1, state.server, parts.federation.clients[1]))
    mask = parts.method.held(state.server, parts.federation.clients[1])  # type: ignore[attr-defined]
    whole = part(state.server, MODEL)
    for name, weight in local.nets.model.named_parameters():
        assert torch.equal(weight, torch.where(mask[name], whole[name], 0.0)), name
    least = min(
        whole[name][mask[name]].abs().min() for name in of_layers(local.nets.model) if mask[name].any()
    )
    assert local.state["theta"].tolist() == [least]


def test_a_client_answers_without_the_weights_that_fell_below_theta() -> None:
    parts = federations.built(federations.config("fiarse", federation={"group": MODEL}))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
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
    parts = federations.built(federations.config("fiarse", federation={"group": MODEL}))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    local.state = {"theta": torch.tensor([0.0])}
    taken: list[str] = []
    monkeypatch.setattr(local, "take_statistics", lambda: taken.append("taken"))
    parts.method.before_answering(local)
    assert taken == ["taken"]


def test_the_held_values_travel_with_a_bit_for_every_weight_down_and_alone_up() -> None:
    """tiny_resnet10 for grey images of four classes. Ranked are 36 + 4·144 + 288 + 3·576 + 32 weights and a head of
    36; the norms have 2·(5·4 + 5·8) = 120. Client 0 holds all, and nobody has to say so; client 1 a quarter."""
    ranked = 36 + 4 * 144 + 288 + 3 * 576 + 32 + 36
    everybody = {"clients": 2, "participation": 1.0, "group": MODEL}
    record = federations.run(
        federations.built(federations.config("fiarse", federation=everybody)).engine, 1
    ).record
    assert record is not None
    up = [4 * (ranked + 120), 4 * (ranked // 4 + 120)]
    words = [9 * 4, *[144] * 4, 288, *[576] * 3, 32, 32, 4]  # 36 → 2 words, 144 → 5, …
    masks = 4 * sum(math.ceil(size / 32) for size in words)
    assert record["bytes"]["per_client_up"] == up
    assert record["bytes"]["per_client_down"] == [up[0], up[1] + masks]


@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_a_packed_mask_unpacks_to_itself(bits: list[bool]) -> None:
    mask = torch.tensor(bits)
    words = packed(mask)
    assert words.dtype == torch.int32 and len(words) == math.ceil(len(bits) / 32)
    assert torch.equal(unpacked(words, mask.shape), mask)


@pytest.mark.parametrize("sizes", [(), (0.0,), (1.5,), (0.5, 1.5)])
def test_sizes_that_are_no_shares_are_refused(sizes: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="sizes are shares above 0"):
        federations.config("fiarse", method={"sizes": sizes})


def test_it_goes_on_from_the_models_of_fedavg() -> None:
    fiarse = method(MODEL, "tiny_cnn")
    before = methods.get("fedavg")(federations.config("fedavg").method, fiarse.federation).init_server()
    assert fiarse.adopt(before).keys() == fiarse.init_server().keys()


@pytest.mark.parametrize("gradient", ["importance", "mask"])
def test_two_whole_rounds_equal_the_reference(gradient: str) -> None:
    """Clients that hold everything, a half and a tenth of tiny_cnn's weights, in batches of 16."""
    sizes, lr = (1.0, 0.5, 0.1), 0.1
    config = federations.config(
        "fiarse",
        method={"sizes": sizes, "gradient": gradient},
        federation={"clients": 3, "participation": 1.0, "group": "tiny_cnn"},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        state = parts.engine.initial_state()
        whole = part(state.server, "tiny_cnn")
        for _ in range(2):
            state = parts.engine.round(state, lambda event: None)

    names = list(whole)
    left = 0
    for t in (1, 2):
        flat = torch.cat([whole[name].flatten() for name in names])
        change, changed = torch.zeros_like(flat), torch.zeros_like(flat)
        for client, size in enumerate(sizes):
            k = int(len(flat) * size)
            theta = flat.abs().sort(descending=True).values[k - 1]
            w = torch.where(flat.abs() >= theta, flat, 0.0)
            x, y = reference.samples(parts, client)
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                inside = (w.abs() >= theta).double()
                effective = (w * inside).requires_grad_()
                F.cross_entropy(_cnn(effective, whole, x[rows]), y[rows]).backward()
                assert effective.grad is not None
                slope = inside
                if gradient == "importance":
                    slope = inside * (1 + w.abs() * 2 * theta / (w.abs() + theta) ** 2)
                w = w - lr * effective.grad * slope
            left += int(((flat.abs() >= theta) & (w.abs() < theta)).sum())
            change += torch.where(flat.abs() >= theta, w - flat, 0.0)
            changed += (flat.abs() >= theta) & (w != flat)
        flat = flat + change / changed.clamp(min=1)
        whole = dict(
            zip(
                names,
                [
                    each.view(whole[name].shape)
                    for name, each in zip(names, flat.split([w.numel() for w in whole.values()]), strict=True)
                ],
                strict=True,
            )
        )
    reference.assert_equal(part(state.server, "tiny_cnn"), whole)
    assert left > 0  # some weights fell below θ on the way


def _cnn(flat: Tensor, like: Tensors, x: Tensor) -> Tensor:
    """TinyCNN of its weights in a row."""
    sizes = [weight.numel() for weight in like.values()]
    w = {name: each.view(like[name].shape) for name, each in zip(like, flat.split(sizes), strict=True)}
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"]).relu()
    h = F.max_pool2d(h, 3).flatten(1)
    for layer in ("fc1", "fc2"):
        h = (h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]).relu()
    return h @ w["head.weight"].T + w["head.bias"]
