"""HeteroFL, FedRolex, FIARSE, and LoRA: parts of one model by hand, and whole rounds against a reference."""

import math
from collections.abc import Sequence
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
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors, packed, part, unpacked
from simulator.clock.devices import LIBRARY
from simulator.methods import Aggregated, Uplink
from simulator.methods.fiarse import FIARSE
from simulator.methods.heterofl import of_layers
from simulator.methods.lora import A, Adapter, B, LoRA
from simulator.models import ImageShape, Network, network
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, logits
from tests.networks import Plain, batch

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
        federation = federations.federation([WIDE], classes=[(0,)])
        heterofl = sharing.of("heterofl", federation, mask_answers=mask_answers)
        state = heterofl.init_client(heterofl.federation.clients[0])
        expected = logits * torch.tensor([1.0, 0.0]) if mask_answers else logits
        assert heterofl.predict(nets, state, torch.zeros(2)).tolist() == expected.tolist()


def test_in_training_the_epsilon_of_a_quarter_is_a_sixteenth() -> None:
    group = {"group": [WIDE, QUARTER]}
    for scaler, epsilon in [(True, 1e-5 / 16), (False, 1e-5)]:
        options = {"scaler": scaler}
        _, method, _, local = sharing.working(
            "heterofl", 1, receives=False, options=options, federation=group
        )
        method.phases(local)
        assert local.nets.model.get_submodule("bn1").eps == pytest.approx(epsilon)


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
            reference.descend(ce(torch.where(absent, 0.0, resnet(w, x, rate)), y), 0.05, w)
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
    return tuple(slice(weight.shape[k] // 2 if unit else None) for k, unit in enumerate(UNITS[name]))


@pytest.mark.parametrize("options", [{}, {"scaler": False}, {"scale_layers": False}])
def test_three_whole_rounds_equal_the_reference(options: dict[str, Any]) -> None:
    """W rolled back by t, cut at the half, trained, and rolled on again: three of four channels come into use. By
    default, every layer but the head of the half is divided by its width.
    """
    everybody = {"clients": 3, "participation": 1.0, "group": ["tiny_cnn", "tiny_cnn_w2", "tiny_cnn_w2"]}
    sections = {"training": {"lr": 0.05, "momentum": 0.5}, "data": {"partition": "iid"}}
    config = federations.config("fedrolex", method=options, federation=everybody, **sections)
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
                gradients = torch.autograd.grad(
                    ce(logits(w, x, 1.0 if wide or options else 0.5), y), [*w.values()]
                )
                for (name, weight), gradient in zip(w.items(), gradients, strict=True):
                    speed[name] = 0.5 * speed[name] + gradient
                    weight.data -= 0.05 * speed[name]
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


def test_where_everything_is_held_a_weight_of_zero_learns_as_any_other() -> None:
    """At θ = 0, though 0/0 is no share. Two weights of the head are 0."""
    plain, samples = Plain(), batch((1, 0, 0), (3, 2, 1))
    expected = torch.autograd.grad(F.cross_entropy(plain(samples.x), samples.y), plain.head.weight)[0]
    for gradient in ("importance", "mask"):
        nets = Nets(Plain())
        fiarse_with(gradient=gradient).loss(nets, {"theta": torch.zeros(1)}, samples, {}).backward()
        torch.testing.assert_close(nets.model.head.weight.grad, expected)


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


@pytest.mark.parametrize("gradient", ["importance", "mask"])
def test_two_whole_rounds_equal_the_reference(gradient: str) -> None:
    """Clients that hold everything, a half and a tenth of tiny_cnn's weights, in batches of 16."""
    sizes, lr = (1.0, 0.5, 0.1), 0.1
    ran = reference.Rounds.of("fiarse", 2, lr, method={"sizes": sizes, "gradient": gradient})
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
                (g,) = torch.autograd.grad(ce(logits(shaped(effective, whole), x), y), effective)
                share = w.abs() * 2 * theta / (w.abs() + theta) ** 2 if gradient == "importance" else 0
                w = w - lr * g * inside * (1 + share)
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


# LoRA: each client's low-rank update of a frozen body, and four ways to join them


LAYER = "fc2"
"""The layer of tiny_cnn whose update is followed: 12 → 8."""


def method(
    samples: Sequence[int] = (1, 3), architectures: Sequence[str] | None = None, **options: object
) -> LoRA:
    config = federations.config("lora", method=options)
    models = architectures or ["tiny_cnn"] * len(samples)
    lora = LoRA(config.method, federations.federation(models, samples))
    lora.check()
    return lora


def joined(
    lora: LoRA, *factors: tuple[Tensor, Tensor], server: Tensors | None = None, weight: float = 1.0
) -> Aggregated:
    """What the server makes of uplinks: clients 0, 1, … send these B and A of one layer, zeros for all others, and a
    head of their own number + 1.
    """
    sent = []
    for (b, a), info in zip(factors, lora.federation.clients, strict=False):
        payload: Tensors = {}
        for path, layer in lora.layers(info.architecture).items():
            payload[f"adapter/{path}.{B}"] = torch.zeros(layer.out_features, b.shape[1])
            payload[f"adapter/{path}.{A}"] = torch.zeros(b.shape[1], layer.in_features)
        payload |= {f"adapter/{LAYER}.{B}": b, f"adapter/{LAYER}.{A}": a}
        for name, each in lora.federation.architecture_of(info).head.named_parameters():
            payload[f"adapter/head.{name}"] = torch.full(each.shape, info.id + 1.0)
        sent.append(Uplink(info, payload, weight))
    return lora.aggregate(1, lora.init_server() if server is None else server, sent)


def outer(*pairs: tuple[int, int, float]) -> tuple[Tensor, Tensor]:
    """B and A with value · e_i e_jᵀ for each (i, j, value): rank by rank, B has the value."""
    b, a = torch.zeros(8, len(pairs)), torch.zeros(len(pairs), 12)
    for rank, (i, j, value) in enumerate(pairs):
        b[i, rank], a[rank, j] = value, 1.0
    return b, a


def factors(server: Tensors) -> tuple[Tensor, Tensor]:
    return server[f"tiny_cnn/{LAYER}.{B}"], server[f"tiny_cnn/{LAYER}.{A}"]


def shown(lora: LoRA, server: Tensors, client: int) -> Tensor:
    """The product of the factors that a client receives."""
    payload = lora.downlink(2, server, lora.federation.clients[client])
    return payload[f"adapter/{LAYER}.{B}"] @ payload[f"adapter/{LAYER}.{A}"]


def of_memory(memories: Sequence[float | None], ranks: Sequence[int]) -> LoRA:
    """Clients on phones of these memories, in bytes."""
    devices = tuple(replace(LIBRARY["phone"], memory=memory) for memory in memories)
    federation = federations.federation(["tiny_cnn"] * len(memories)).with_devices(devices)
    lora: LoRA = sharing.of("lora", federation, ranks=ranks, order="memory")
    lora.check()
    return lora


def test_ranks_go_round_or_follow_the_data_or_the_memory() -> None:
    """A device without a limit has the most memory. Four sizes make two groups of two. Equal memory has one rank."""
    samples = (50, 10, 40, 20, 30, 60)
    assert method(samples, ranks=[1, 4]).ranks == (1, 4, 1, 4, 1, 4)
    assert method(samples, ranks=[4, 1, 2], order="samples").ranks == (4, 1, 2, 1, 2, 4)
    assert method(samples, ranks=[4, 1, 2], order="inverse").ranks == (1, 4, 2, 4, 2, 1)
    assert of_memory([8e9, 4e9, 80e9, 4e9], [16, 1, 4]).ranks == (4, 1, 16, 1)
    assert of_memory([8e9, None, 16e9, 4e9, None], [1, 4]).ranks == (1, 4, 4, 1, 4)
    assert of_memory([8e9, None, 16e9], [1, 4]).ranks == (1, 4, 1)
    assert of_memory([4e9, 4e9], [3]).ranks == (3, 3)


def test_ranks_and_layers_that_cannot_be_are_refused() -> None:
    """Ranks by memory need devices with as many sizes."""
    for refused, why in (
        (lambda: method(order="memory"), r"and they have none\. Set system\.devices, or"),
        (lambda: of_memory([4e9, 8e9, 8e9], [1, 2, 3]), "has 3 ranks, .* have only 2 sizes of memory"),
        (lambda: of_memory([4e9, 4e9], [1, 2]), "has 2 ranks, .* devices have only 1 size of memory"),
        (lambda: method(ranks=[]), "ranks"),
        (lambda: method(ranks=[0]), "ranks"),
        (lambda: method(ranks=[4, -1]), "ranks"),
        (lambda: method(targets=["fc9"]), r"named fc9: client 0 \(tiny_cnn\) has none"),
        (lambda: method(architectures=["tiny_resnet6"] * 2), "needs a linear layer besides the head"),
    ):
        with pytest.raises(ConfigError, match=why):
            refused()


def test_targets_choose_layers_by_the_last_part_of_their_names() -> None:
    assert list(method(targets=["fc2"]).layers("tiny_cnn")) == ["fc2"]
    vit = method(architectures=["tiny_vit1", "tiny_vit1"], targets=["qkv"])
    assert list(vit.layers("tiny_vit1")) == ["vit.blocks.0.attn.qkv"]


class OneLayer(Network):
    """Two pixels → W (the identity) → head (the identity)."""

    layers = ("features",)

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.head = nn.Linear(2, 2, dtype=torch.float64), nn.Linear(2, 2, dtype=torch.float64)
        for layer in (self.fc, self.head):
            layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.fc(x.flatten(1))}


def test_the_loss_is_that_of_the_body_with_its_update_and_only_the_update_learns() -> None:
    """W + (α/r)·BA = I + 3·(1, 0)ᵀ(2, 0) = diag(7, 1). Logits of (1, 0): (7, 0). With p = softmax(7, 0)₁:

    ∂CE/∂b = −p·(α/r)·(a·x)·(1, −1) = −p·6·(1, −1), ∂CE/∂a = −p·3·x. Of class 0.
    """
    nets = Nets(OneLayer())
    adapter = Adapter(nets.model, {"fc": 1}).double()
    nets["adapter"] = adapter
    pair = adapter.get_submodule("fc")
    pair.load_state_dict({B: torch.tensor([[1.0], [0.0]]), A: torch.tensor([[2.0, 0.0]])})
    loss = method(ranks=[1], alpha=3.0).loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    p = 1 / (1 + math.exp(7))
    assert loss.item() == pytest.approx(math.log1p(math.exp(-7)), rel=1e-9)
    assert pair.get_parameter(B).grad.flatten().tolist() == pytest.approx([-6 * p, 6 * p], rel=1e-9)
    assert pair.get_parameter(A).grad.flatten().tolist() == pytest.approx([-3 * p, 0], rel=1e-9)
    assert adapter.head.weight.grad is not None


def test_means_fill_lower_ranks_up_with_zeros() -> None:
    """n = 1 and 3: the first rank has (4 + 3·8)/4 = 7, the second 3·8/4 = 6. A is 1 in both, so 1 and 3/4."""
    lora = method(ranks=[1, 2], aggregation="mean")
    b, a = factors(joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 8.0))).server)
    assert (b[0, 0], b[1, 1], b.sum()) == (7, 6, 13)
    assert (a[0, 0], a[1, 1]) == (1, 0.75)


def test_hetlora_weighs_clients_by_the_norm_of_their_update_or_by_samples_where_nobody_has_moved() -> None:
    """‖ΔW‖ is 4 and √(6² + 8²) = 10: p = 2/7 and 5/7. B: 4·2/7 + 6·5/7 = 38/7, and 8·5/7 = 40/7. Of B = 0, A is
    (1 + 3·1)/4 in the first rank and 3/4 in the second.
    """
    lora = method(ranks=[1, 2], aggregation="hetlora")
    b, a = factors(joined(lora, outer((0, 0, 4.0)), outer((0, 0, 6.0), (1, 1, 8.0))).server)
    assert (b[0, 0].item(), b[1, 1].item()) == pytest.approx((38 / 7, 40 / 7))
    assert (a[0, 0].item(), a[1, 1].item()) == pytest.approx((1, 5 / 7))
    _, a = factors(joined(lora, outer((0, 0, 0.0)), outer((0, 0, 0.0), (1, 1, 0.0))).server)
    assert (a[0, 0], a[1, 1]) == (1, 0.75)


def test_flexlora_decomposes_the_mean_product_and_cuts_it_to_each_rank() -> None:
    """ΔW = (4 e₀e₀ᵀ + 3·(8 e₀e₀ᵀ + 4 e₁e₁ᵀ))/4 = 7 e₀e₀ᵀ + 3 e₁e₁ᵀ. Rank 1 keeps the 7."""
    lora = method(ranks=[1, 2], aggregation="flexlora")
    server = joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 4.0))).server
    expected = torch.zeros(8, 12)
    expected[0, 0], expected[1, 1] = 7, 3
    b, a = factors(server)
    torch.testing.assert_close(b @ a, expected)
    assert [shown(lora, server, client).sum().item() for client in (0, 1)] == pytest.approx([7, 10])


def test_with_alpha_a_product_counts_by_the_scale_of_its_rank() -> None:
    """α = 2: scales 2 and 1. ΔW = (2·4 + 3·1·8)/4 = 8 e₀e₀ᵀ. Both clients get BA whose scaled product is ΔW again."""
    lora = method(ranks=[1, 2], aggregation="flexlora", alpha=2.0)
    server = joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 0.0))).server
    b, a = factors(server)
    assert (b @ a)[0, 0].item() == pytest.approx(8)
    for client, scale in ((0, 2.0), (1, 1.0)):
        assert scale * shown(lora, server, client)[0, 0].item() == pytest.approx(8)


def test_flora_adds_the_mean_product_to_the_body_without_loss() -> None:
    """Two rounds of ΔW = 7 e₀e₀ᵀ + 3 e₁e₁ᵀ: the sum is 14 and 6. Lower ranks receive all of it."""
    lora = method(ranks=[1, 2], aggregation="flora")
    sent = outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 4.0))
    first = joined(lora, *sent).server
    payload = lora.downlink(3, joined(lora, *sent, server=first).server, lora.federation.clients[0])
    assert payload[f"adapter/{LAYER}.weight"][0, 0] == 14 and payload[f"adapter/{LAYER}.weight"][1, 1] == 6
    assert not [name for name in payload if "lora_" in name]


def test_heads_are_averaged_by_samples() -> None:
    """(1 + 3·2)/4 = 1.75."""
    for aggregation in ["mean", "hetlora", "flexlora", "flora"]:
        server = joined(method(ranks=[1], aggregation=aggregation), *[outer((0, 0, 1.0))] * 2).server
        assert (server["tiny_cnn/head.weight"] == 1.75).all() and (server["tiny_cnn/head.bias"] == 1.75).all()


def test_a_stale_update_moves_the_server_half_as_far() -> None:
    """From no update, half of the way to 4 e₀e₀ᵀ. In `mean` with A as it is sent, so that the product is half."""
    for aggregation in ("mean", "flexlora", "flora"):
        lora = method(ranks=[1], aggregation=aggregation)
        server = {name: torch.zeros_like(each) for name, each in lora.init_server().items()}
        if aggregation == "mean":
            server[f"tiny_cnn/{LAYER}.{A}"] = outer((0, 0, 4.0))[1]
        after = joined(lora, *[outer((0, 0, 4.0))] * 2, server=server, weight=0.5).server
        if aggregation == "flora":
            assert after[f"tiny_cnn/{LAYER}.weight"][0, 0].item() == pytest.approx(2)
        else:
            b, a = factors(after)
            assert (b @ a)[0, 0].item() == pytest.approx(2)


def test_a_group_without_a_participant_keeps_its_adapter() -> None:
    lora = method((1, 3), ["tiny_cnn", "tiny_mlp"], ranks=[1])
    server = lora.init_server()
    after = joined(lora, outer((0, 0, 1.0)), server=server).server
    assert all(torch.equal(after[name], server[name]) for name in server if name.startswith("tiny_mlp/"))


def test_the_used_rank_is_measured() -> None:
    """Singular values 2 and 2 of fc2 and none of fc1: ranks 2 and 0, mean 1. Half of the energy is beyond rank 1."""
    lora = method(ranks=[2, 1])
    metrics = joined(lora, outer((0, 0, 2.0), (1, 1, 2.0))).metrics
    assert metrics["effective_rank"].item() == pytest.approx(1)
    assert metrics["energy_beyond_lowest"].item() == pytest.approx(0.25)


def test_factors_that_are_cut_for_a_client_lie_in_memory_as_sent_ones() -> None:
    """Products of other strides can have other bits."""
    for aggregation in ["mean", "flexlora"]:
        lora = method(ranks=[1, 2], aggregation=aggregation)
        payload = lora.downlink(1, lora.init_server(), lora.federation.clients[0])
        assert all(each.is_contiguous() for each in payload.values())


def test_a_client_trains_the_head_of_the_server_unless_it_is_local() -> None:
    for head in ("shared", "local"):
        _, lora, state, local = sharing.working("lora", receives=False, options={"head": head})
        own = local.nets.model.head.state_dict()["bias"].clone()
        payload = lora.downlink(1, state.server, local.info)
        payload |= {name: torch.full_like(each, 5.0) for name, each in payload.items() if "head" in name}
        lora.receive(local, payload)
        if head == "shared":
            assert (local.nets["adapter"].get_submodule("head").get_parameter("bias") == 5).all()
        else:
            assert torch.equal(local.nets.model.head.state_dict()["bias"], own)
            assert not [name for name in (*state.server, *payload, *lora.uplink(local)) if "head" in name]


def test_a_round_changes_the_body_of_a_client_by_an_update_of_its_rank_alone() -> None:
    for aggregation in ["flexlora", "flora"]:
        options = {"ranks": [2], "aggregation": aggregation}
        with drawing_from(reference.stream("factors", 0)):
            _, lora, _, local = sharing.working("lora", options=options)
        (phase,) = lora.phases(local)
        for _ in steps(local, phase):
            pass
        lora.uplink(local)
        first = lora.federation.first_weights[local.info.architecture]
        for name, weight in local.nets.model.state_dict().items():
            if name.removesuffix(".weight") in lora.layers(local.info.architecture):
                assert torch.linalg.matrix_rank(weight - first[name], tol=1e-6) == 2
            else:
                assert torch.equal(weight, first[name]) or name.startswith("head.")


def test_a_merged_model_answers_as_the_body_with_its_adapter() -> None:
    _, lora, state, local = sharing.working("lora", receives=False)
    payload = lora.downlink(1, state.server, local.info)
    lora.receive(local, payload | {n: torch.ones_like(each) for n, each in payload.items() if n.endswith(B)})
    x = local.batch(local.train[:5])
    expected = lora.loss(local.nets.eval(), {}, x, {})
    lora.before_answering(local)
    torch.testing.assert_close(F.cross_entropy(local.nets.model(x.x), x.y), expected)
