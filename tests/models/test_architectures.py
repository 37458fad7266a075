"""The architectures of images, signals, and tables: sizes by hand or as published, their groups, and what all offer."""

import re
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import models
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.data.inputs import random
from simulator.data.specs import InputSpec, SignalSpec, TableSpec
from simulator.methods import needs
from simulator.models import ImageShape, Network
from simulator.models.network import to_width
from tests.federations import federation

CIFAR, IMAGENET, GRAY = ImageShape(3, 32, 32), ImageShape(3, 224, 224), ImageShape(1, 28, 28)
UCI_HAR = SignalSpec(channels=9, time=128)
LARGE = re.compile(r"resnet\d\d+.*|googlenet.*|vit_.*|tr_.*|.*lstm.*|gru|fasttext|text_lr")
"""Models of more than three million parameters."""
SMALL = [name for name in models.names() if not LARGE.fullmatch(name)]
TINY = [name for name in SMALL if name.startswith("tiny")]
FAMILIES = {
    family: [name for name in models.names() if LARGE.fullmatch(name) and name.startswith(family)]
    for family in [
        "resnet",
        "googlenet",
        "vit",
        "tr_",
        "lstm",
        "bilstm",
        "gru",
        "fasttext",
        "text",
        "small",
        "tiny",
    ]
}


def stream(number: int = 0) -> torch.Generator:
    return rng.torch_stream(number, "tests/model")


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=stream())


def parameters(name: str, spec: InputSpec = CIFAR, classes: int = 10) -> int:
    return sum(each.numel() for each in models.architecture(name, spec, classes).parameters())


def shapes(network: Network) -> dict[str, torch.Size]:
    return {key: each.shape for key, each in network.state_dict().items()}


def shown(name: str, spec: InputSpec) -> dict[str, torch.Tensor]:
    """The representations of two samples, on the meta device."""
    return models.architecture(name, spec, 10).eval().represent(torch.empty(2, *spec.shape, device="meta"))


# Every model


def faults(name: str) -> list[str]:
    """What an architecture does not keep of what every one of them offers."""
    spec, before = models.typical(name), torch.get_rng_state()
    network, same, other = (models.build(name, spec, 10, stream(n)).eval() for n in (0, 0, 1))
    first, again, others = (each.state_dict() for each in (network, same, other))
    heads = [key for key in first if key.startswith("head.") and key.endswith("weight")]
    x = random(spec, 2, stream())
    features, represented = network.features(x), network.represent(x)
    architecture = models.architecture(name, spec, 10)
    kept = {
        "features have K numbers": features.shape == (2, network.num_features),
        "the head of the features is the model": torch.equal(network.head(features), network(x)),
        "one score for each class": network(x).shape == (2, 10),
        "representations are the layers": tuple(represented) == network.layers,
        "the last is the features": torch.equal(represented[network.layers[-1]], features),
        "equal streams give equal weights": all(torch.equal(first[key], again[key]) for key in first),
        "another stream draws others": heads
        and not any(torch.equal(first[key], others[key]) for key in heads),
        "no global draw": torch.equal(torch.get_rng_state(), before),
        "an architecture has no memory": all(each.is_meta for each in architecture.state_dict().values()),
        "and the same names and shapes": shapes(architecture) == shapes(network),
    }
    return [f"{name}: {what}" for what, is_so in kept.items() if not is_so]


@pytest.mark.parametrize(
    "names",
    [
        TINY,
        pytest.param([*{*SMALL} - {*TINY}], marks=pytest.mark.long),
        *(pytest.param(names, marks=pytest.mark.slow) for names in FAMILIES.values()),
    ],
    ids=["tiny ones", "small ones", *FAMILIES],
)
def test_every_model_keeps_the_interface(names: list[str]) -> None:
    assert [fault for name in names for fault in faults(name)] == []


@pytest.mark.parametrize(
    "spec",
    [
        CIFAR,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (GRAY, ImageShape(3, 64, 64), IMAGENET)),
    ],
    ids=str,
)
def test_every_model_of_every_group_of_images_takes_images_of_every_size(spec: ImageShape) -> None:
    every = {name for group in models.GROUPS.values() for name in group}
    for name in sorted(name for name in every if "image" in models.get(name).kinds):
        x = torch.empty(2, *spec.shape, device="meta")
        assert models.architecture(name, spec, 7).eval()(x).shape == (2, 7), name


def test_the_smallest_image_works_and_one_pixel_less_is_refused() -> None:
    for name in [name for name in models.names() if models.get(name).smallest_side > 1]:
        side = models.get(name).smallest_side
        x = torch.empty(2, 1, side, side, device="meta")
        assert models.architecture(name, ImageShape(1, side, side), 2)(x).shape == (2, 2), name
        with pytest.raises(ConfigError, match=f"at least {side}×{side} pixels, these are {side}×{side - 1}"):
            models.architecture(name, ImageShape(1, side, side - 1), 2)


@pytest.mark.long
def test_importing_the_models_imports_neither_torchvision_nor_timm() -> None:
    code = "import sys, simulator.models; sys.exit(bool({'timm', 'torchvision'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Sizes


def test_the_cnns_have_the_printed_sizes() -> None:
    """FedGH Table 2 in MiB, float32 with CIFAR-10's head. CNN-4 is printed as 3.81, but computes to 4.04."""
    found = [round(parameters(f"cnn{number}") * 4 / 2**20, 2) for number in range(1, 6)]
    assert found == [10.00, 6.92, 5.04, 4.04, 2.56]


def test_convolutional_networks_have_the_parameters_of_their_layers() -> None:
    """32 → 28 → 14 → 10 → 5 pixels a side, so FC1 reads 32·5·5 = 800, and 64·5·5 = 1600 in the 4-layer CNN."""
    conv1, conv2 = 16 * (3 * 25 + 1), 32 * (16 * 25 + 1)
    assert parameters("cnn5") == conv1 + conv2 + 500 * (800 + 1) + 500 * (500 + 1) + 10 * (500 + 1)
    conv1, conv2, fc1 = 32 * (3 * 25 + 1), 64 * (32 * 25 + 1), 512 * (1600 + 1)
    assert parameters("cnn_4layer") == conv1 + conv2 + fc1 + 10 * (512 + 1)


@pytest.mark.parametrize(
    ("name", "published", "more"),
    [
        ("resnet18", 11_689_512, 0),
        ("resnet34", 21_797_672, 0),
        # The published head reads 2048, 1024, or 1280 features. Ours reads the 512 they are pooled to.
        ("resnet50", 25_557_032, (512 - 2048) * 1000),
        ("resnet101", 44_549_160, (512 - 2048) * 1000),
        ("resnet152", 60_192_808, (512 - 2048) * 1000),
        ("googlenet", 6_624_904, (512 - 1024) * 1000),
        ("mobilenet_v2", 3_504_872, (512 - 1280) * 1000),
        # Published: 768 → 1000. Here: 512 → 768 → 1000.
        ("vit_b_16", 86_567_656, 512 * 768 + 768),
        ("vit_b_32", 88_224_232, 512 * 768 + 768),
    ],
)
def test_networks_have_the_published_size_but_for_the_head(name: str, published: int, more: int) -> None:
    """torchvision's model table, 1000 classes."""
    assert parameters(name, IMAGENET, 1000) == published + more


def test_a_hidden_layer_of_the_head_adds_its_parameters() -> None:
    for hidden in (512, 128):
        added = parameters(f"resnet34_h{hidden}") - parameters("resnet34")
        assert added == (512 + 1) * hidden + (hidden + 1) * 10 - (512 + 1) * 10


def test_an_mlp_has_its_hidden_layers_and_one_of_100() -> None:
    """5,000 features and two classes, as HtFLlib's AmazonMLP."""
    for name, hidden, read in (
        ("mlp", 0, 5000),
        ("mlp_500", 500 * 5001, 500),
        ("mlp_1000_500", 1000 * 5001 + 500 * 1001, 500),
    ):
        assert parameters(name, TableSpec(5000), 2) == hidden + 100 * (read + 1) + 2 * 101
    for spec in (ImageShape(3, 4, 5), SignalSpec(3, 20), TableSpec(60)):
        assert models.architecture("mlp", spec, 2).get_parameter("hidden.0.weight").shape == (100, 60)


# Names, and what nests


def test_resnet_50_has_torchvisions_names() -> None:
    from torchvision.models import resnet50

    with torch.device("meta"):
        theirs = {name for name in resnet50().state_dict() if not name.startswith("fc.")}
    ours = shapes(models.architecture("resnet50", CIFAR, 10))
    assert {name for name in ours if not name.startswith("head.")} == theirs


@pytest.mark.long
def test_the_shallower_is_nested_in_the_deeper() -> None:
    for group in ("inco_resnet", "inco_resnet_narrow", "inco_vit", "tiny_resnet", "tiny_vit"):
        for smaller, larger in pairwise(models.members(group)):
            nested = [shapes(models.architecture(name, CIFAR, 10)).items() for name in (smaller, larger)]
            assert nested[0] < nested[1], (smaller, larger)
    assert needs.nested(federation(models.GROUPS["tiny_signal"], shape=UCI_HAR)) is None
    for group in ("tiny_mlp_widths", "tiny_table"):
        facts = federation(models.GROUPS[group], shape=TableSpec(6))
        assert (needs.nested_widths(facts) is None) == (group == "tiny_mlp_widths")
        assert (needs.nested(facts) is None) == (group == "tiny_table")


def test_a_stage_lists_its_convolutions_and_those_of_one_shape_follow_the_first() -> None:
    """Stage 2 of [2, 2] blocks: the first convolution doubles the channels, the three after it are alike."""
    network = models.architecture("tiny_resnet10", ImageShape(1, 8, 8), 10)
    found = {name: tuple(network.get_parameter(name).shape) for name in network.stages()[1]}
    assert found == {
        "layer2.0.conv1.weight": (8, 4, 3, 3),
        "layer2.0.conv2.weight": (8, 8, 3, 3),
        "layer2.0.downsample.0.weight": (8, 4, 1, 1),
        "layer2.1.conv1.weight": (8, 8, 3, 3),
        "layer2.1.conv2.weight": (8, 8, 3, 3),
    }


def test_a_transformers_stage_is_a_blocks_two_layer_norms() -> None:
    network = models.architecture("tiny_vit2", CIFAR, 10)
    norms = ("vit.blocks.%d.norm1.weight", "vit.blocks.%d.norm2.weight")
    assert network.stages() == tuple(tuple(each % block for each in norms) for block in (0, 1))
    assert all(network.get_parameter(name).shape == (8,) for stage in network.stages() for name in stage)


# Maps


@pytest.mark.parametrize(
    ("name", "spec", "maps"),
    [
        ("resnet10", ImageShape(3, 28, 28), [28, 14, 7, 4]),
        ("resnet10", ImageShape(3, 64, 64), [64, 32, 16, 8]),
        ("resnet10", IMAGENET, [56, 28, 14, 7]),
        ("resnet18", ImageShape(3, 96, 96, "cifar"), [96, 48, 24, 12]),
        ("resnet18", ImageShape(3, 96, 96), [24, 12, 6, 3]),
        ("googlenet", IMAGENET, [56, 28, 14, 7]),
        ("mobilenet_v2", IMAGENET, [56, 28, 14, 7]),
    ],
)
def test_stages_halve_the_side(name: str, spec: ImageShape, maps: list[int]) -> None:
    """Images of up to 64 pixels keep their resolution through the stem, unless told otherwise."""
    assert [each.shape[2] for key, each in shown(name, spec).items() if key != "features"] == maps


@pytest.mark.long
def test_the_stem_decides_the_resolution_and_the_first_kernel() -> None:
    """32 pixels leave one pixel for the last stage behind ImageNet's stem, four by four behind CIFAR's.

    The 7×7 kernel has 64·3·(49 − 9) weights more than the 3×3 one. MobileNet's is 3×3 in both.
    """
    for name, size in (("resnet18", 11_181_642), ("googlenet", 5_605_034), ("mobilenet_v2", None)):
        for stem, side, fewer in (("imagenet", 1, 0), ("cifar", 4, 64 * 3 * 40), (None, 4, 64 * 3 * 40)):
            spec = ImageShape(3, 32, 32, stem)  # type: ignore[arg-type]
            assert shown(name, spec)["stage4"].shape[-1] == side, (name, stem)
            assert size is None or parameters(name, spec) == size - fewer


@pytest.mark.parametrize(("side", "tokens"), [(28, 1 + 4), (32, 1 + 4), (224, 1 + 196)])
def test_a_transformer_cuts_the_image_rounded_up_to_whole_patches(side: int, tokens: int) -> None:
    """28 pixels become 32 = 2 patches of 16 a side, and one class token."""
    assert shown("vit_s8", ImageShape(1, side, side))["block1"].shape == (2, tokens, 384)


@pytest.mark.parametrize(
    ("name", "maps"),
    [
        ("harcnn2_s1", [(32, 60), (64, 26)]),  # 128 → 120 → 60 → 52 → 26
        ("harcnn1_s3", [(32, 20)]),  # 128 → 40 → 20
        ("harcnn3_s1", [(32, 62), (64, 29), (128, 12)]),  # 128 → 124 → 62 → 58 → 29 → 25 → 12
    ],
)
def test_maps_shrink_as_in_htfllib(name: str, maps: list[tuple[int, int]]) -> None:
    found = [tuple(each.shape) for each in shown(name, UCI_HAR).values()]
    assert found == [*((2, *each) for each in maps), (2, 512)]


@pytest.mark.parametrize(("name", "shortest"), [("harcnn2_s3", 78), ("harcnn3_s2", 127)])
def test_the_shortest_signal_works_and_one_step_less_is_refused(name: str, shortest: int) -> None:
    """Backwards: one step needs 2 before the pooling, so 1·3 + 9 = 12 before the convolution, then 23·3 + 9 = 78."""
    blank = torch.empty(2, 1, shortest, device="meta")
    assert models.architecture(name, SignalSpec(1, shortest), 3)(blank).shape == (2, 3)
    with pytest.raises(ConfigError, match=rf"at least {shortest} steps\. These have {shortest - 1}\."):
        models.architecture(name, SignalSpec(1, shortest - 1), 3)


def test_resnet_4_repeats_its_features_up_to_512() -> None:
    """One stage gives 64 channels: each is seen eight times by the head."""
    seen = models.build("resnet4", ImageShape(1, 8, 8), 10, stream()).eval().represent(drawn(2, 1, 8, 8))
    channels = seen["stage1"].mean((2, 3))
    torch.testing.assert_close(seen["features"], channels.repeat_interleave(8, dim=1))


@pytest.mark.long
def test_dropout_before_the_head_draws_from_the_stream_given() -> None:
    network = models.build("mobilenet_v2", ImageShape(1, 16, 16), 3, stream())
    x, before = drawn(2, 1, 16, 16), torch.get_rng_state()

    def trained(number: int) -> torch.Tensor:
        with rng.drawing_from(rng.torch_stream(number, "tests/dropout")):
            return network(x).detach()

    assert torch.equal(trained(1), trained(1)) and not torch.equal(trained(1), trained(2))
    assert torch.equal(torch.get_rng_state(), before)


# Groups


def test_client_i_gets_model_i_mod_x() -> None:
    assert models.assign("htm5", 7) == ("cnn1", "cnn2", "cnn3", "cnn4", "cnn5", "cnn1", "cnn2")
    assert models.assign(("cnn2", "tiny_mlp"), 3) == ("cnn2", "tiny_mlp", "cnn2")
    assert models.assign("cnn4", 2) == ("cnn4", "cnn4")
    for group in ("htm6", ("cnn1", "cnn9"), ()):
        with pytest.raises(ConfigError):
            models.assign(group, 2)
    with pytest.raises(ConfigError, match="Did you mean 'tiny_mlp'"):
        models.get("tiny_mpl")


def test_the_papers_groups_have_512_features() -> None:
    groups = {"htfe2", "htfe3", "htfe4", "htfe8", "htfe8_htc4", "htfe9", "htm10", "res34_htc4"}
    names = {name for group in groups for name in models.members(group)}
    assert {models.architecture(name, CIFAR, 10).num_features for name in names} == {512}
    facts = federation(models.GROUPS["htfe_sen8"], shape=UCI_HAR)
    assert needs.same_head(facts) is None
    assert {each.num_features for each in facts.architectures.values()} == {512}


# Pooling


@settings(max_examples=40)
@given(length=st.integers(1, 90), width=st.integers(1, 40))
def test_pooling_on_the_cpu_has_the_bits_of_a_product_with_torchs_weights(length: int, width: int) -> None:
    """So sessions of earlier versions resume with equal bits. Window i covers ⌊i·n/w⌋ to ⌈(i+1)·n/w⌉, equally."""
    weights = torch.zeros(width, length)
    for window in range(width):
        start, end = window * length // width, -(-(window + 1) * length // width)
        weights[window, start:end] = torch.ones(()) / torch.tensor(end - start)
    x = drawn(3, length)
    assert torch.equal(to_width(x, width), x if length == width else x @ weights.T)


def test_pooling_first_used_inside_a_gradient_or_without_one_is_of_use_elsewhere() -> None:
    """Each of these uses widths of its own first: weights made inside a transform of torch.func are dead after it."""

    def total(x: torch.Tensor) -> torch.Tensor:
        return to_width(x, 7).sum()

    torch.func.vmap(torch.func.grad(total))(drawn(2, 3, 21))
    with torch.inference_mode():
        to_width(drawn(3, 14), 7)
    for length in (21, 14):
        x = drawn(3, length).requires_grad_()
        total(x).backward()
        assert x.grad is not None and torch.equal(x.grad, torch.full((3, length), 7 / length))
