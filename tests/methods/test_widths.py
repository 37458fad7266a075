"""HeteroFL, FedRolex, and FIARSE: parts of one model by hand, and whole rounds of each against a reference."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, packed, part, unpacked
from simulator.methods.fiarse import FIARSE
from simulator.methods.heterofl import of_layers
from simulator.models import ImageShape, Network, network
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, logits

# HeteroFL

WIDE, HALF, QUARTER = "tiny_resnet10", "tiny_resnet10_w2", "tiny_resnet10_w4"


class Rows(Network):
    """One layer of so many rows that read one input, and a head of two classes."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = torch.nn.Linear(1, rows)
        self.head = torch.nn.Linear(rows, 2)

    def flattened(self) -> dict[str, int]:
        return {}


class Uncut(Rows):
    def flattened(self) -> None:  # type: ignore[override]
        return None


def test_half_of_five_units_are_the_first_three() -> None:
    """⌈5 · ½⌉ = 3."""
    place = network.places(Rows(5), Rows(3), lambda units: 0)
    assert place["rows.bias"][0].tolist() == [0, 1, 2]
    assert place["rows.weight"][0].flatten().tolist() == [0, 1, 2]
    assert place["rows.weight"][1].tolist() == [0]
    assert place["head.weight"][1].tolist() == [0, 1, 2]
    assert place["head.bias"][0].tolist() == [0, 1]
    # The rows of a transformer's qkv are those of q, k and v: a part of the first of them is no narrower layer.
    why = network.nesting_fault(Uncut(6), Uncut(3))
    assert why is not None and "a part of the rows is no narrower layer" in why


def test_widths_are_rounded_up() -> None:
    """CNN-1 at a sixteenth, 16, 32, 2000, 500 → 1, 2, 125, 32: 76 + 52 + (2·25 + 1)·125 + 126·32 + 33·10 = 10,865."""
    sizes = {"resnet18_w2": 2_797_610, "resnet18_w16": 44_622, "cnn1_w4": 165_497, "cnn1_w16": 10_865}
    federation = federations.federation([*sizes], num_classes=10, shape=ImageShape(3, 32, 32))
    for name, parameters in sizes.items():
        weights = federation.architectures[name].parameters()
        assert sum(weight.numel() for weight in weights) == parameters


def test_answers_are_masked_unless_it_is_said_otherwise() -> None:
    """Class 0 is the client's own, so that of two images the scores of class 1 are 0."""
    logits = torch.tensor([[0.5, 2.0], [-1.0, 3.0]])
    nets = SimpleNamespace(model=lambda x: logits)
    for mask_answers in [True, False]:
        heterofl = sharing.of(
            "heterofl", federations.federation([WIDE], classes=[(0,)]), mask_answers=mask_answers
        )
        state = heterofl.init_client(heterofl.federation.clients[0])
        expected = logits * torch.tensor([1.0, 0.0]) if mask_answers else logits
        assert heterofl.predict(nets, state, torch.zeros(2)).tolist() == expected.tolist()


def trained_by(*group: str, **options: object) -> tuple[Any, LocalClient]:
    """HeteroFL over this group, and client 1 as it is when its training begins."""
    _, method, _, local = sharing.working(
        "heterofl", 1, receives=False, options=options, federation={"group": list(group)}
    )
    method.phases(local)
    return method, local


def test_in_training_the_epsilon_of_a_quarter_is_a_sixteenth() -> None:
    for scaler, epsilon in [(True, 1e-5 / 16), (False, 1e-5)]:
        _, local = trained_by(WIDE, QUARTER, scaler=scaler)
        assert local.nets.model.get_submodule("bn1").eps == pytest.approx(epsilon)


def test_without_batchnorm_every_layer_but_the_head_is_divided_by_the_width() -> None:
    """tiny_cnn at ½: a convolution and two linear layers, each made twice as large before its ReLU; the head is not."""
    for options, factor in [({}, 2.0), ({"scaler": False}, 1.0), ({"scale_layers": False}, 1.0)]:
        method, local = trained_by("tiny_cnn", "tiny_cnn_w2", mask=False, **options)
        samples = local.batch(local.train)
        w = dict(local.nets.model.named_parameters())
        h = F.conv2d(samples.x, w["conv1.weight"], w["conv1.bias"]) * factor
        h = F.max_pool2d(h.relu(), 3).flatten(1)
        for layer in ("fc1", "fc2"):
            h = (F.linear(h, w[f"{layer}.weight"], w[f"{layer}.bias"]) * factor).relu()
        expected = F.cross_entropy(F.linear(h, w["head.weight"], w["head.bias"]), samples.y)
        torch.testing.assert_close(method.loss(local.nets, local.state, samples, {}), expected)


def test_heterofl_before_it_answers_a_client_takes_statistics_of_its_own_images() -> None:
    """bn1's mean is that over the batches of what conv1 makes of the training images, whatever was tracked before."""
    parts = federations.built(federations.config("heterofl"))
    state = parts.engine.initial_state().clients[0]
    local = federations.local(parts, 0, state | {"model/bn1.running_mean": torch.full((4,), 9.0)})
    parts.method.before_answering(local)
    model = local.nets.model
    means = []
    for indices in local.train.split(16):
        x, _ = parts.data.batch(indices)
        means.append(model.get_submodule("conv1")(x).mean((0, 2, 3)))
    torch.testing.assert_close(model.get_buffer("bn1.running_mean"), torch.stack(means).mean(0))
    assert not model.training


def test_models_that_do_not_nest_are_refused_by_client_and_reason() -> None:
    for architectures, reason in [
        (["tiny_cnn", "tiny_mlp"], r"client 0 \(tiny_cnn\) (has|lacks) "),
        ([WIDE, "tiny_resnet6"], r"client 1 \(tiny_resnet6\) lacks 'layer1.1.conv1.weight'"),
        (["tiny_vit1", "tiny_vit2"], r"client 0 \(tiny_vit1\) lacks 'vit.blocks.1"),
        (["resnet50", "resnet101"], r"client 0 \(resnet50\) lacks"),
        (["resnet18", "resnet4"], r"client 1 \(resnet4\) lacks"),
    ]:
        with pytest.raises(ConfigError, match=f"needs widths that nest: {reason}"):
            sharing.method("heterofl", architectures).check()


def resnet(w: dict[str, Tensor], x: Tensor, rate: float) -> Tensor:
    """tiny_resnet10 with batch statistics, what enters a norm divided by the rate."""

    def norm(h: Tensor, name: str) -> Tensor:
        h = h / rate
        mean, variance = h.mean((0, 2, 3), keepdim=True), h.var((0, 2, 3), correction=0, keepdim=True)
        scale, shift = (w[f"{name}.{key}"][:, None, None] for key in ("weight", "bias"))
        return (h - mean) / (variance + 1e-5).sqrt() * scale + shift

    h = F.conv2d(x, w["conv1.weight"], padding=1)
    h = norm(h, "bn1").relu()
    for block in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        stride = 2 if block == "layer2.0" else 1
        inner = F.conv2d(h, w[f"{block}.conv1.weight"], stride=stride, padding=1)
        inner = F.conv2d(norm(inner, f"{block}.bn1").relu(), w[f"{block}.conv2.weight"], padding=1)
        if stride == 2:
            h = norm(F.conv2d(h, w[f"{block}.downsample.0.weight"], stride=2), f"{block}.downsample.1")
        h = (norm(inner, f"{block}.bn2") + h).relu()
    return h.mean((2, 3)) @ w["head.weight"].T + w["head.bias"]


def test_a_whole_round_equals_the_reference() -> None:
    """Two epochs of batches of 16 at three widths, two classes a client; W cut by plain slices and joined again."""
    rates = {0: 1.0, 1: 0.5, 2: 0.25}
    everybody = {"clients": 3, "participation": 1.0}
    config = federations.config("heterofl", federation=everybody, training={"epochs": 2, "lr": 0.05})
    ran = reference.Rounds(config, 1)
    whole = part(ran.server, WIDE)
    sums = {name: torch.zeros_like(weight) for name, weight in whole.items()}
    holders = {name: torch.zeros_like(weight) for name, weight in whole.items()}
    for client, rate in rates.items():
        sizes = [max(1, int(4 * rate)), max(1, int(8 * rate))]
        cut = {4: sizes[0], 8: sizes[1]}
        spans = {
            name: tuple(
                slice(cut[n])
                if n in cut and not (name.startswith("head") and dimension == 0)
                else slice(None)
                for dimension, n in enumerate(weight.shape[:2])
            )
            for name, weight in whole.items()
        }
        w = reference.leaves({name: whole[name][span] for name, span in spans.items()})
        absent = torch.tensor([label not in ran.data[client][1] for label in range(4)])
        for x, y in ran.batches("model", 1, client):
            ce(torch.where(absent, 0.0, resnet(w, x, rate)), y).backward()
            reference.step(list(w.values()), 0.05)
        for name, span in spans.items():
            counted = torch.ones_like(w[name])
            if name.startswith("head"):
                counted[absent] = 0
            sums[name][span] += (w[name] * counted).detach()
            holders[name][span] += counted
    expected = {name: torch.where(n > 0, sums[name] / n, whole[name]) for name, n in holders.items()}
    ran.assert_ended({WIDE: expected}, {})
    assert any((n == 0).any() for n in holders.values())


# FedRolex


def places(round: int, *architectures: str, begun: int = 0) -> dict[str, network.Place]:
    """Where the weights of client 1 lie in a round."""
    federation = replace(federations.federation(architectures), begun=begun)
    return sharing.of("fedrolex", federation).places(round, federation.clients[1])  # type: ignore[no-any-return]


def test_of_eight_units_half_roll_forwards_with_the_rounds_of_the_method() -> None:
    """The window of round t (from 1) begins at (t − 1) mod 8. The authors' code rolls backwards: 5, 6, 7, 0 in the
    fourth round.
    """
    for begun in (0, 30):
        found = [places(begun + t, WIDE, HALF, begun=begun)["layer2.0.conv1.weight"][0] for t in (1, 4, 7, 9)]
        windows = [each.flatten().tolist() for each in found]
        assert windows == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 0, 1], [0, 1, 2, 3]]


def test_layers_of_equal_width_have_the_same_window_so_that_shortcuts_add_like_to_like() -> None:
    """In round 4. Of four channels the half of tiny_cnn has the last and the first, and so columns 12 … 15 and 0 … 3 of
    the sixteen of the flattened map.
    """
    place = places(4, WIDE, HALF)
    block, shortcut = place["layer2.0.conv2.weight"], place["layer2.0.downsample.0.weight"]
    assert block[0].tolist() == shortcut[0].tolist() == [[3], [4], [5], [6]]
    assert shortcut[1].tolist() == [3, 0]  # stage 1 has four channels, of which the half has two
    assert place["head.weight"][1].tolist() == [3, 4, 5, 6]
    columns = places(4, "tiny_cnn", "tiny_cnn_w2")["fc1.weight"][1]
    assert columns.tolist() == [12, 13, 14, 15, 0, 1, 2, 3]


UNITS = {
    "conv1.weight": (1, 0), "conv1.bias": (1,), "fc1.weight": (1, 4), "fc1.bias": (1,), "fc2.weight": (1, 1),
    "fc2.bias": (1,), "head.weight": (0, 1), "head.bias": (0,),
}  # fmt: skip
"""Entries to a unit of every dimension that is cut; 0 for one that stays whole."""


def rolled(weight: Tensor, name: str, by: int) -> Tensor:
    for dimension, unit in enumerate(UNITS[name]):
        if unit:
            weight = weight.roll(by * unit, dimension)
    return weight


def halved(weight: Tensor, name: str) -> tuple[slice, ...]:
    return tuple(
        slice(weight.shape[dimension] // 2 if unit else None) for dimension, unit in enumerate(UNITS[name])
    )


def test_three_whole_rounds_equal_the_reference() -> None:
    """W rolled back by t, cut at the half, trained, and rolled on again: three of four channels come into use."""
    everybody = {"clients": 3, "participation": 1.0, "group": ["tiny_cnn", "tiny_cnn_w2", "tiny_cnn_w2"]}
    config = federations.config(
        "fedrolex", federation=everybody, training={"lr": 0.05, "momentum": 0.5}, data={"partition": "iid"}
    )
    ran = reference.Rounds(config, 3)
    whole = part(ran.server, "tiny_cnn")
    for t in range(3):
        sums = {name: torch.zeros_like(weight) for name, weight in whole.items()}
        holders = {name: torch.zeros_like(weight) for name, weight in whole.items()}
        for client in range(3):
            turn, wide = (0, True) if client == 0 else (t, False)
            view = {name: rolled(weight, name, -turn) for name, weight in whole.items()}
            spans = {name: (...,) if wide else halved(weight, name) for name, weight in view.items()}
            w = reference.leaves({name: weight[spans[name]] for name, weight in view.items()})
            speed = {name: torch.zeros_like(weight) for name, weight in w.items()}
            for x, y in ran.batches("model", t + 1, client, epochs=1):
                ce(logits(w, x, 1.0 if wide else 0.5), y).backward()
                for name, weight in w.items():
                    assert weight.grad is not None
                    speed[name] = 0.5 * speed[name] + weight.grad
                    weight.grad = speed[name].clone()
                reference.step(list(w.values()), 0.05)
            for name, weight in w.items():
                place, held = torch.zeros_like(whole[name]), torch.zeros_like(whole[name])
                place[spans[name]], held[spans[name]] = weight.detach(), 1.0
                sums[name] += rolled(place, name, turn)
                holders[name] += rolled(held, name, turn)
        whole = {name: torch.where(n > 0, sums[name] / n, whole[name]) for name, n in holders.items()}
    ran.assert_ended({"tiny_cnn": whole}, {})


# FIARSE


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


def fiarse_with(*architectures: str, **options: object) -> FIARSE:
    return sharing.of("fiarse", federations.federation(architectures or [WIDE] * 3), **options)


def line(*w: float, sizes: tuple[float, ...] = (1.0,)) -> tuple[FIARSE, Tensors]:
    """Two clients of one linear layer w, and a head of ones, which is larger."""
    fiarse = fiarse_with("line", "line", sizes=sizes)
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
    fiarse, server = line(5.0, 3.0, 0.1, sizes=(0.1,))  # ⌊5 · 0.1⌋ = 0, and the largest is held alone
    assert held(fiarse, server, 0) == [True, False, False]


def test_sizes_are_dealt_out_in_turn_and_a_new_client_holds_everything() -> None:
    fiarse = fiarse_with(sizes=(1.0, 0.5))
    clients = fiarse.federation.clients
    assert [fiarse.size(client) for client in clients] == [1.0, 0.5, 1.0]
    assert fiarse.init_client(clients[1])["theta"].tolist() == [0.0]


def test_norms_are_held_whole() -> None:
    fiarse = fiarse_with(sizes=(1 / 64,))
    mask = fiarse.held(fiarse.init_server(), fiarse.federation.clients[0])
    assert mask["bn1.weight"].all() and mask["layer2.1.bn2.bias"].all()
    ranked = of_layers(fiarse.federation.architectures[WIDE])
    kept, number = (sum(int(each(mask[name])) for name in ranked) for each in (torch.sum, torch.numel))
    assert kept == number // 64


def test_the_gradient_of_a_held_weight() -> None:
    """w = .5 and θ = .3: 1 + .5 · 2·.3/(.8)² = 1.46875, or 1; a weight below θ, here .2, gets none. If θ = 0,
    everything is held, and a weight of 0 learns as any other, though 0/0 is no share.

    The loss is that of two classes with logits (w·x + 1, 0): ∂/∂(w·m) = −(1 − p)·x, with the logit .5·1 + 0·1 + 1.
    """
    sample, p = Batch(torch.ones(1, 1, 1, 2), torch.tensor([0])), 1 / (1 + math.exp(-1.5))
    for gradient, theta, w, slopes in [
        ("importance", 0.3, 0.2, (1 + 0.5 * 0.6 / 0.64, 0.0)),
        ("mask", 0.3, 0.2, (1.0, 0.0)),
        ("importance", 0.0, 0.0, (1.0, 1.0)),
    ]:
        nets = Nets(Two(0.5, w))
        fiarse_with(gradient=gradient).loss(nets, {"theta": torch.tensor([theta])}, sample, {}).backward()
        grad = nets.model.get_parameter("f.weight").grad
        assert grad is not None
        assert grad.flatten().tolist() == pytest.approx([-(1 - p) * slope for slope in slopes], abs=1e-6)


class Two(Network):
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


def test_a_client_answers_without_the_weights_that_fell_below_theta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, _, _, local = sharing.working("fiarse", receives=False, federation={"group": WIDE})
    local.state, taken = {"theta": torch.tensor([0.2])}, []
    monkeypatch.setattr(local, "take_statistics", lambda: taken.append("of its own images"))
    with torch.no_grad():
        local.nets.model.head.bias[:3] = torch.tensor([0.2, 0.1, -0.3])  # the first is θ
    parts.method.before_answering(local)
    assert local.nets.model.head.bias[:3].tolist() == [pytest.approx(0.2), 0.0, pytest.approx(-0.3)]
    left = local.nets.model.get_parameter("layer2.1.conv2.weight").abs()
    assert (left == 0).any() and left[left > 0].min() >= 0.2
    assert taken


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
    ran = reference.Rounds.of("fiarse", 2, lr, method={"sizes": sizes})
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
