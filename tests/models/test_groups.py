"""The convolutional networks and transformers of the papers' groups, and the groups themselves."""

import functools
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from simulator import models
from simulator.base import rng
from simulator.base.rng import drawing_from
from simulator.methods import needs
from simulator.models import ImageShape, Network
from simulator.models.network import to_width
from tests.federations import federation

IMAGENET = ImageShape(3, 224, 224)
GRAY, CIFAR = ImageShape(1, 28, 28), ImageShape(3, 32, 32)
OTHERS = [pytest.param(shape, marks=pytest.mark.slow) for shape in (GRAY, ImageShape(3, 64, 64), IMAGENET)]
TRANSFORMERS = ["vit_s8", "vit_s9", "vit_s10", "vit_s11", "vit_s12"]
POOLED_TO_512 = ["htfe2", "htfe3", "htfe4", "htfe8", "htfe8_htc4", "htfe9", "htm10", "res34_htc4"]
IMAGES = sorted(
    group
    for group, names in models.GROUPS.items()
    if all("image" in models.get(name).kinds for name in names)
)


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def shapes(name: str) -> dict[str, torch.Size]:
    return {key: t.shape for key, t in models.architecture(name, CIFAR, 10).state_dict().items()}


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=rng.torch_stream(0, "tests/groups"))


@pytest.mark.parametrize(
    ("name", "published", "width"), [("googlenet", 6_624_904, 1024), ("mobilenet_v2", 3_504_872, 1280)]
)
def test_convnets_have_the_published_size_but_for_the_pooled_head(
    name: str, published: int, width: int
) -> None:
    """torchvision's model table, 1000 classes: the published head reads `width` features, ours 512."""
    assert parameters(models.architecture(name, IMAGENET, 1000)) == published - (width - 512) * 1000


@pytest.mark.parametrize(("name", "published"), [("vit_b_16", 86_567_656), ("vit_b_32", 88_224_232)])
def test_vit_b_has_the_published_size_but_for_its_own_head(name: str, published: int) -> None:
    """Published: 768 → 1000. Here: 512 → 768 → 1000, so 512·768 + 768 more."""
    assert parameters(models.architecture(name, IMAGENET, 1000)) == published + 512 * 768 + 768


def test_the_4_layer_cnn_has_the_parameters_of_its_layers() -> None:
    """32 → 28 → 14 → 10 → 5 pixels a side, so FC1 reads 64·5·5 = 1600."""
    conv1, conv2, fc1, head = 32 * (3 * 25 + 1), 64 * (32 * 25 + 1), 512 * (1600 + 1), 10 * (512 + 1)
    assert parameters(models.architecture("cnn_4layer", CIFAR, 10)) == conv1 + conv2 + fc1 + head


@pytest.mark.parametrize("group", POOLED_TO_512)
def test_in_fedl2gs_groups_every_model_has_512_features(group: str) -> None:
    widths = {models.architecture(name, CIFAR, 10).num_features for name in models.members(group)}
    assert widths == {512}


@pytest.mark.parametrize("shape", [CIFAR, *OTHERS], ids=str)
@pytest.mark.parametrize("group", IMAGES)
def test_every_model_of_every_group_of_images_takes_images_of_every_size(
    group: str, shape: ImageShape
) -> None:
    for name in models.members(group):
        assert answered(name, shape) == (2, 7), name


@functools.cache  # groups share models
def answered(name: str, shape: ImageShape) -> torch.Size:
    """The shape of a model's answer about two images, of seven classes."""
    network = models.architecture(name, shape, 7).eval()
    logits: torch.Tensor = network(torch.empty(2, shape.channels, shape.height, shape.width, device="meta"))
    return logits.shape


def test_the_transformers_of_inco_are_nested() -> None:
    for smaller, larger in pairwise(TRANSFORMERS):
        assert shapes(smaller).items() < shapes(larger).items()


def test_a_transformers_stage_is_a_blocks_two_layer_norms() -> None:
    network = models.architecture("tiny_vit2", CIFAR, 10)
    assert network.stages() == tuple(
        (f"vit.blocks.{block}.norm1.weight", f"vit.blocks.{block}.norm2.weight") for block in (0, 1)
    )
    assert all(network.get_parameter(name).shape == (8,) for stage in network.stages() for name in stage)


@pytest.mark.parametrize(("side", "tokens"), [(28, 1 + 4), (32, 1 + 4), (64, 1 + 16), (224, 1 + 196)])
def test_a_transformer_cuts_the_image_rounded_up_to_whole_patches(side: int, tokens: int) -> None:
    """28 pixels become 32 = 2 patches of 16 a side, and one class token."""
    network = models.architecture("vit_s8", ImageShape(1, side, side), 10)
    shown = network.represent(torch.empty(2, 1, side, side, device="meta"))
    assert shown["block1"].shape == (2, tokens, 384)


def test_attention_has_a_forward_mode_derivative() -> None:
    """FedL2G needs one; fused attention kernels have none."""
    network = models.build("tiny_vit1", GRAY, 3, rng.torch_stream(0, "tests/vit"))
    weights = dict(network.named_parameters())
    x, tangent = drawn(2, 1, 28, 28), {name: torch.ones_like(weight) for name, weight in weights.items()}

    def logits(w: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(network, w, (x,))

    _, forward = torch.func.jvp(logits, (weights,), (tangent,))
    step = 1e-3
    ahead, behind = (
        logits({name: w + sign * step * tangent[name] for name, w in weights.items()}) for sign in (1, -1)
    )
    torch.testing.assert_close(forward, (ahead - behind) / (2 * step), rtol=0.02, atol=0.02)


def test_a_transformers_own_head_is_refused_by_methods_that_share_heads() -> None:
    reason = needs.same_head(federation(["cnn_4layer", "vit_b_32"], shape=CIFAR))
    assert reason is not None and "client 1 (vit_b_32)" in reason and "one linear layer" in reason
    assert needs.same_head(federation(["cnn_4layer", "resnet10"], shape=CIFAR)) is None


def test_features_of_one_width_agree_whatever_the_models_call_them() -> None:
    """FC1 of the 4-layer CNN and the pooled class token are 512 wide."""
    mixed = federation(["cnn_4layer", "vit_b_32"], shape=CIFAR)
    assert needs.same_width(mixed, features) is None
    refusal = needs.same_width(federation(["cnn_4layer", "cnn5"], shape=CIFAR), features)
    assert refusal is not None and "'fc1' of width 512" in refusal and "'fc2' of width 500" in refusal


def features(network: Network) -> str:
    return network.layers[-1]


@pytest.mark.parametrize("given", [8, 64, 512, 1024, 1280, 2048])
def test_pooling_to_a_width_is_adaptive_average_pooling(given: int) -> None:
    x = drawn(3, given)
    torch.testing.assert_close(to_width(x, 512), F.adaptive_avg_pool1d(x, 512))


@settings(max_examples=40)
@given(length=st.integers(1, 90), width=st.integers(1, 40))
def test_pooling_on_the_cpu_has_the_bits_of_a_product_with_weights_made_by_torch(
    length: int, width: int
) -> None:
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


@pytest.mark.parametrize("name", ["googlenet", "mobilenet_v2"])
@pytest.mark.parametrize("shape", [CIFAR, IMAGENET], ids=str)
def test_small_images_reach_the_last_stage_four_pixels_wide(name: str, shape: ImageShape) -> None:
    network = models.architecture(name, shape, 10)
    shown = network.represent(torch.empty(2, 3, shape.height, shape.width, device="meta"))
    assert shown["stage4"].shape[2] == (4 if shape == CIFAR else 7)


def test_dropout_before_the_head_draws_from_the_stream_given() -> None:
    network = models.build("mobilenet_v2", ImageShape(1, 16, 16), 3, rng.torch_stream(0, "tests/groups"))
    x, before = drawn(2, 1, 16, 16), torch.get_rng_state()

    def trained(stream: int) -> torch.Tensor:
        with drawing_from(rng.torch_stream(stream, "tests/dropout")):
            return network(x).detach()

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_importing_the_models_imports_neither_torchvision_nor_timm() -> None:
    code = "import sys, simulator.models; sys.exit(bool({'timm', 'torchvision'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
