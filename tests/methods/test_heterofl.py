"""HeteroFL: parts of a wide model by hand; masks, scaler and static BatchNorm; a whole round against a reference."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.methods.heterofl import HeteroFL
from simulator.models import ImageShape, Network, slices
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce

WIDE, HALF, QUARTER = "tiny_resnet10", "tiny_resnet10_w2", "tiny_resnet10_w4"


class Rows(Network):
    """One layer of so many rows that read one input, and a head of two classes."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = torch.nn.Linear(1, rows)
        self.head = torch.nn.Linear(rows, 2)

    def flattened(self) -> dict[str, int]:
        return {}


def method(
    architectures: list[str], classes: list[tuple[int, ...]] | None = None, **options: object
) -> HeteroFL:
    return sharing.of("heterofl", federations.federation(architectures, classes=classes), **options)


def test_half_of_five_units_are_the_first_three() -> None:
    """⌈5 · ½⌉ = 3."""
    place = slices.places(Rows(5), Rows(3), lambda units: 0)
    assert place["rows.bias"][0].tolist() == [0, 1, 2]
    assert place["rows.weight"][0].flatten().tolist() == [0, 1, 2]
    assert place["rows.weight"][1].tolist() == [0]
    assert place["head.weight"][1].tolist() == [0, 1, 2]
    assert place["head.bias"][0].tolist() == [0, 1]


def test_widths_are_rounded_up() -> None:
    """CNN-1 at a sixteenth, 16, 32, 2000, 500 → 1, 2, 125, 32: 76 + 52 + (2·25 + 1)·125 + 126·32 + 33·10 = 10,865."""
    for name, parameters in [
        ("resnet18_w2", 2_797_610),
        ("resnet18_w16", 44_622),
        ("cnn1_w4", 165_497),
        ("cnn1_w16", 10_865),
    ]:
        network = federations.federation([name], num_classes=10, shape=ImageShape(3, 32, 32)).architectures[
            name
        ]
        assert sum(weight.numel() for weight in network.parameters()) == parameters


def test_answers_are_masked_unless_it_is_said_otherwise() -> None:
    """Class 0 is the client's own, so that of two images the scores of class 1 are 0."""
    for mask_answers in [True, False]:
        heterofl = method([WIDE], classes=[(0,)], mask_answers=mask_answers)
        nets = type("Nets", (), {"model": staticmethod(lambda x: torch.tensor([[0.5, 2.0], [-1.0, 3.0]]))})()
        state = heterofl.init_client(heterofl.federation.clients[0])
        expected = [[0.5, 0.0], [-1.0, 0.0]] if mask_answers else [[0.5, 2.0], [-1.0, 3.0]]
        assert heterofl.predict(nets, state, torch.zeros(2)).tolist() == expected


def test_in_training_the_epsilon_of_a_quarter_is_a_sixteenth() -> None:
    for scaler, epsilon in [(True, 1e-5 / 16), (False, 1e-5)]:
        config = federations.config(
            "heterofl", method={"scaler": scaler}, federation={"group": [WIDE, QUARTER]}
        )
        parts = federations.built(config)
        local = federations.local(parts, 1, parts.engine.initial_state().clients[1])
        parts.method.phases(local)
        assert local.nets.model.get_submodule("bn1").eps == pytest.approx(epsilon)


def test_without_batchnorm_every_layer_but_the_head_is_divided_by_the_width() -> None:
    """tiny_cnn at ½: a convolution and two linear layers, each made twice as large before its ReLU; the head is not."""
    for options, factor in [({}, 2.0), ({"scaler": False}, 1.0), ({"scale_layers": False}, 1.0)]:
        group = {"group": ["tiny_cnn", "tiny_cnn_w2"]}
        parts = federations.built(
            federations.config("heterofl", method=options | {"mask": False}, federation=group)
        )
        local = federations.local(parts, 1, parts.engine.initial_state().clients[1])
        parts.method.phases(local)
        samples = local.batch(local.train)
        w = dict(local.nets.model.named_parameters())
        h = F.conv2d(samples.x, w["conv1.weight"], w["conv1.bias"]) * factor
        h = F.max_pool2d(h.relu(), 3).flatten(1)
        for layer in ("fc1", "fc2"):
            h = (F.linear(h, w[f"{layer}.weight"], w[f"{layer}.bias"]) * factor).relu()
        expected = F.cross_entropy(F.linear(h, w["head.weight"], w["head.bias"]), samples.y)
        found = parts.method.loss(local.nets, local.state, samples, {})
        torch.testing.assert_close(found, expected)


def test_before_it_answers_a_client_takes_statistics_of_its_own_images() -> None:
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
            method(architectures).check()


def test_layers_whose_rows_cannot_be_cut_are_refused() -> None:
    """The rows of a transformer's qkv are those of q, k and v: a part of the first of them is no narrower layer."""
    why = slices.misfit(_Plain(6), _Plain(3))
    assert why is not None and "a part of the rows is no narrower layer" in why


class _Plain(Rows):
    def flattened(self) -> None:  # type: ignore[override]
        return None


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
