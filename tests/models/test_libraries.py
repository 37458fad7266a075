"""Any model of timm or torchvision by name: published sizes, keyed draws, and refusals that say why."""

import pytest
import torch

from simulator import models
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.models import ImageShape
from tests.federations import built, config, generated, run

IMAGENET, CIFAR, GRAY = ImageShape(3, 224, 224), ImageShape(3, 32, 32), ImageShape(1, 28, 28)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("torchvision:resnet50", 25_557_032),
        ("torchvision:googlenet", 6_624_904),
        ("torchvision:mobilenet_v2", 3_504_872),
        ("torchvision:vit_b_16", 86_567_656),
        ("timm:resnet18", 11_689_512),
        ("timm:vit_base_patch16_224", 86_567_656),
        ("timm:vit_small_patch16_224", 22_050_664),
    ],
)
def test_a_librarys_model_has_its_published_size(name: str, published: int) -> None:
    architecture = models.architecture(name, IMAGENET, 1000)
    assert sum(parameter.numel() for parameter in architecture.parameters()) == published


@pytest.mark.parametrize("shape", [GRAY, CIFAR], ids=str)
@pytest.mark.parametrize(
    "name",
    ["timm:test_vit", "timm:test_resnet", "torchvision:mobilenet_v3_small", "torchvision:shufflenet_v2_x0_5"],
)
def test_its_weights_come_from_the_stream_alone_and_its_head_reads_its_features(
    name: str, shape: ImageShape
) -> None:
    before = torch.get_rng_state()
    first, same, other = (
        models.build(name, shape, 5, rng.torch_stream(seed, "tests/library")).eval() for seed in (0, 0, 1)
    )
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), same.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.zeros(2, shape.channels, shape.height, shape.width)
    assert first.features(x).shape == (2, first.num_features)
    assert torch.equal(first.head(first.features(x)), first(x))
    assert first(x).shape == (2, 5)


def test_a_group_may_name_models_of_libraries_beside_our_own() -> None:
    group = ("timm:resnet18", "tiny_cnn", "torchvision:mobilenet_v2")
    assert models.assign(group, 4) == (*group, "timm:resnet18")
    assert models.assign("timm:resnet18", 2) == ("timm:resnet18", "timm:resnet18")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("timm:resnet81", "timm has no model 'resnet81'"),
        ("torchvision:resnet81", "torchvision has no classifier 'resnet81'"),
        ("tinn:resnet18", "unknown model 'tinn:resnet18'"),
    ],
)
def test_an_unknown_name_is_refused_by_its_library(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        models.assign(name, 1)


def test_a_model_that_reads_values_while_it_is_built_has_an_architecture_too() -> None:
    before = torch.get_rng_state()
    architecture = models.architecture("torchvision:regnet_x_400mf", CIFAR, 10)
    assert all(tensor.is_meta for tensor in architecture.state_dict().values())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_without_a_linear_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not end in a linear layer"):
        models.architecture("torchvision:squeezenet1_0", CIFAR, 10)


def test_images_a_model_cannot_take_are_refused_before_it_is_built() -> None:
    """AlexNet's first stride of 4 and three poolings leave nothing of 32 pixels."""
    with pytest.raises(ConfigError, match="does not take images of 3×32×32"):
        models.architecture("torchvision:alexnet", CIFAR, 10)


def test_a_federation_of_library_models_trains() -> None:
    parts = built(
        config(
            "standalone",
            federation={"clients": 2, "participation": 1.0, "group": ["timm:test_vit", "timm:test_resnet"]},
        ),
        generated(side=32, channels=3),
    )
    record = run(parts.engine, 1).record
    assert record is not None and record["diverged"] == [] and record["loss"]["mean"] > 0
