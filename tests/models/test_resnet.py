"""ResNets: torchvision's sizes, nested by name and shape, and what they do with small images."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from simulator import models
from simulator.base import rng
from simulator.models import ImageShape

IMAGENET = ImageShape(3, 224, 224)
NESTED = ["resnet10", "resnet14", "resnet18", "resnet22", "resnet26"]


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def shapes(name: str) -> dict[str, torch.Size]:
    return {
        key: t.shape for key, t in models.architecture(name, ImageShape(3, 32, 32), 10).state_dict().items()
    }


@pytest.mark.parametrize(("name", "published"), [("resnet18", 11_689_512), ("resnet34", 21_797_672)])
def test_basic_resnets_have_the_published_size(name: str, published: int) -> None:
    """torchvision's model table, 1000 classes."""
    assert parameters(models.architecture(name, IMAGENET, 1000)) == published


@pytest.mark.parametrize(
    ("name", "published"), [("resnet50", 25_557_032), ("resnet101", 44_549_160), ("resnet152", 60_192_808)]
)
def test_bottleneck_resnets_have_the_published_size_but_for_the_pooled_head(
    name: str, published: int
) -> None:
    """The published head reads 2048 features; ours reads the 512 they are pooled to."""
    assert parameters(models.architecture(name, IMAGENET, 1000)) == published - (2048 - 512) * 1000


def test_resnet_50_has_torchvisions_names() -> None:
    from torchvision.models import resnet50

    with torch.device("meta"):
        theirs = {name for name in resnet50().state_dict() if not name.startswith("fc.")}
    ours = {name for name in shapes("resnet50") if not name.startswith("head.")}
    assert ours == theirs


@pytest.mark.parametrize(("smaller", "larger"), [*pairwise(NESTED), ("tiny_resnet6", "tiny_resnet10")])
def test_the_shallower_is_nested_in_the_deeper(smaller: str, larger: str) -> None:
    assert shapes(smaller).items() < shapes(larger).items()


def test_resnet_4_6_and_8_repeat_their_features_up_to_512() -> None:
    """One stage gives 64 channels: each is seen eight times by the head."""
    network = models.build("resnet4", ImageShape(1, 8, 8), 10, rng.torch_stream(0, "tests/resnet")).eval()
    shown = network.represent(torch.rand(2, 1, 8, 8, generator=rng.torch_stream(1, "tests/resnet")))
    channels = shown["stage1"].mean((2, 3))
    torch.testing.assert_close(shown["features"], channels.repeat_interleave(8, dim=1))


@pytest.mark.parametrize(
    ("side", "stages"),
    [(28, [28, 14, 7, 4]), (32, [32, 16, 8, 4]), (64, [64, 32, 16, 8]), (224, [56, 28, 14, 7])],
)
def test_small_images_keep_their_resolution_through_the_stem(side: int, stages: list[int]) -> None:
    network = models.architecture("resnet10", ImageShape(3, side, side), 10)
    shown = network.represent(torch.empty(1, 3, side, side, device="meta"))
    assert [shown[f"stage{number}"].shape[2] for number in (1, 2, 3, 4)] == stages


def test_a_stage_lists_its_convolutions_and_those_of_one_shape_follow_the_first() -> None:
    """Stage 2 of [2, 2] blocks: the first convolution doubles the channels, the three after it are alike."""
    network = models.architecture("tiny_resnet10", ImageShape(1, 8, 8), 10)
    stage_2 = network.stages()[1]
    assert stage_2 == (
        "layer2.0.conv1.weight",
        "layer2.0.conv2.weight",
        "layer2.0.downsample.0.weight",
        "layer2.1.conv1.weight",
        "layer2.1.conv2.weight",
    )
    assert [tuple(network.get_parameter(name).shape) for name in stage_2] == [
        (8, 4, 3, 3),
        (8, 8, 3, 3),
        (8, 4, 1, 1),
        (8, 8, 3, 3),
        (8, 8, 3, 3),
    ]


@pytest.mark.parametrize(
    ("name", "imagenet", "cifar"),
    [
        # The 7×7 kernel has 64·3·(49 − 9) weights more than the 3×3 one.
        ("resnet18", 11_181_642, 11_181_642 - 64 * 3 * 40),
        ("googlenet", 5_605_034, 5_605_034 - 64 * 3 * 40),
        ("mobilenet_v2", None, None),  # its first kernel is 3×3 in both; strides differ
    ],
)
def test_the_stem_decides_the_resolution_and_the_first_kernel(
    name: str, imagenet: int | None, cifar: int | None
) -> None:
    """32 pixels leave one pixel for the last stage behind ImageNet's stem, four by four behind CIFAR's."""
    sides, sizes = {}, {}
    for stem in ("imagenet", "cifar", None):
        network = models.architecture(name, ImageShape(3, 32, 32, stem), 10).eval()
        sizes[stem] = sum(parameter.numel() for parameter in network.parameters())
        sides[stem] = network.represent(torch.empty(1, 3, 32, 32, device="meta"))["stage4"].shape[-1]
    assert sides == {"imagenet": 1, "cifar": 4, None: 4}
    if imagenet is not None:
        assert sizes == {"imagenet": imagenet, "cifar": cifar, None: cifar}


def test_large_images_enter_through_imagenets_stem_unless_told_otherwise() -> None:
    sides = {
        stem: models.architecture("resnet18", ImageShape(3, 96, 96, stem), 10)
        .eval()
        .represent(torch.empty(1, 3, 96, 96, device="meta"))["stage4"]
        .shape[-1]
        for stem in ("cifar", None)
    }
    assert sides == {"cifar": 12, None: 3}
