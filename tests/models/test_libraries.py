"""Any model of timm or torchvision by name, and published weights: sizes, keyed draws, and refusals that say why."""

import copy
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import Tensor

from simulator import models
from simulator.base import rng
from simulator.base.errors import ConfigError, DataError
from simulator.models import ImageShape, libraries
from tests.federations import built, config, generated, run

IMAGENET, CIFAR, GRAY = ImageShape(3, 224, 224), ImageShape(3, 32, 32), ImageShape(1, 28, 28)


@pytest.mark.long
def test_a_librarys_model_has_its_published_size() -> None:
    for name, published in {
        "torchvision:googlenet": 6_624_904,
        "torchvision:vit_b_16": 86_567_656,
        "timm:resnet18": 11_689_512,
        "timm:vit_small_patch16_224": 22_050_664,
    }.items():
        assert size(models.architecture(name, IMAGENET, 1000)) == published, name


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("timm:test_vit", GRAY),
        pytest.param("timm:test_resnet", CIFAR, marks=pytest.mark.long),
        pytest.param("torchvision:shufflenet_v2_x0_5", GRAY, marks=pytest.mark.long),
    ],
)
def test_its_weights_come_from_the_stream_and_its_head_reads_features(name: str, shape: ImageShape) -> None:
    before = torch.get_rng_state()
    streams = (rng.torch_stream(seed, "tests/library") for seed in (0, 0, 1))
    first, same, other = (models.build(name, shape, 5, each).eval() for each in streams)
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


def test_an_unknown_name_is_refused_by_its_library() -> None:
    for name, why in (
        ("timm:resnet81", "timm has no model 'resnet81'"),
        ("torchvision:resnet81", "torchvision has no classifier 'resnet81'"),
        ("tinn:resnet18", "unknown model 'tinn:resnet18'"),
    ):
        with pytest.raises(ConfigError, match=why):
            models.assign(name, 1)


@pytest.mark.long
def test_a_model_that_reads_values_while_it_is_built_has_an_architecture_too() -> None:
    before = torch.get_rng_state()
    architecture = models.architecture("torchvision:regnet_x_400mf", CIFAR, 10)
    assert all(tensor.is_meta for tensor in architecture.state_dict().values())
    assert torch.equal(torch.get_rng_state(), before)


def test_images_a_model_cannot_take_are_refused_before_it_is_built() -> None:
    """AlexNet's first stride of 4 and three poolings leave nothing of 32 pixels."""
    with pytest.raises(ConfigError, match="does not take images of 3×32×32"):
        models.architecture("torchvision:alexnet", CIFAR, 10)


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), [("shvit_s1", 320), ("efficientvit_m0", 192)])
def test_what_stands_before_a_librarys_head_stays_in_its_features(name: str, width: int) -> None:
    """A BatchNorm with a weight and a bias for each feature: 640 and 384 parameters."""
    own = models.architecture(f"timm:{name}", IMAGENET, 1000)
    with torch.device("meta"):
        whole = timm.create_model(name, num_classes=1000)
    assert size(own.body.head.bn) == 2 * width
    assert size(own) == size(whole)
    assert own.features(torch.zeros(2, 3, 224, 224, device="meta")).shape == (2, width)


def test_a_model_that_asks_for_the_version_of_its_state_loads_one_without() -> None:
    """torchvision's MNASNet does. A client's state has names and tensors alone."""
    network = models.architecture("torchvision:mnasnet0_5", CIFAR, 10)
    copy.deepcopy(network).load_state_dict({**network.state_dict()}, assign=True)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"load_state_dict": lambda *_, **__: 1 / 0}, "cannot be trained here .division by zero."),
        ({"forward": lambda self, x: (self.head(self.features(x)), x)}, "cannot be trained here"),
        ({"forward": lambda self, x: self.head(self.features(x)).detach()}, "cannot be trained here"),
        (
            {"forward": lambda self, x: torch.rrelu(self.head(self.features(x)), training=True)},
            "keyed stream",
        ),
        ({"represent": lambda self, x: {"features": x.nosuch}}, "does not take images"),
    ],
    ids=["state", "tuple", "no gradient", "draws", "features"],
)
def test_failures_of_round_1_are_refused(
    broken: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, function in broken.items():
        monkeypatch.setattr(libraries.Published, name, function)
    with pytest.raises(ConfigError, match=why):
        models.architecture("timm:test_resnet", CIFAR, 10)


def test_a_model_that_reads_values_in_training_is_tried_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return self.head(self.features(x)) * (2.0 if float(x.sum()) > 0 else 1.0)

    monkeypatch.setattr(libraries.Published, "forward", forward)
    assert models.architecture("timm:test_resnet", CIFAR, 10).num_features > 0


@pytest.mark.long
def test_a_model_whose_state_changes_its_shape_is_refused_before_round_1() -> None:
    """ConViT makes its table of relative places anew for the first images."""
    with pytest.raises(ConfigError, match=r"it changes the shape of 'body.blocks.0.attn.rel_indices'"):
        models.architecture("timm:convit_tiny", CIFAR, 10)


@pytest.mark.long
def test_a_head_of_another_kind_is_refused() -> None:
    """Two heads, a module of several layers, a convolution, none, and a convolution of torchvision's."""
    for name in (
        *("timm:levit_128", "timm:repvit_m0_9", "timm:dla46_c", "timm:mobilenetv5_300m_enc"),
        "torchvision:squeezenet1_0",
    ):
        with pytest.raises(ConfigError, match="does not end in a linear layer"):
            models.architecture(name, CIFAR, 10)


FAMILIES = (
    "timm:test_vit", "timm:test_resnet", "timm:test_efficientnet", "timm:test_byobnet",
    "timm:test_convnext", "timm:test_mambaout", "timm:test_nfnet", "timm:resnet10t", "timm:skresnet18",
    "timm:resnest14d", "timm:legacy_seresnet18", "timm:lcnet_035", "timm:mobilenetv2_035",
    "timm:mobilenetv3_small_050", "timm:mobilenetv4_conv_small_035", "timm:mnasnet_small",
    "timm:semnasnet_050", "timm:tinynet_e", "timm:fbnetc_100", "timm:mixnet_s", "timm:ghostnet_050",
    "timm:hardcorenas_a", "timm:regnetx_002", "timm:regnety_002", "timm:repghostnet_050",
    "timm:rexnet_100", "timm:efficientnet_lite0", "timm:efficientvit_m0", "timm:efficientvit_b0",
    "timm:shvit_s1", "timm:fasternet_t0", "timm:starnet_s050", "timm:convnextv2_atto",
    "timm:edgenext_xx_small", "timm:mobilevit_xxs", "timm:mobilevitv2_050", "timm:mobileone_s1",
    "timm:fastvit_t8", "timm:inception_next_atto", "timm:mambaout_femto", "timm:hgnetv2_b0",
    "timm:ese_vovnet19b_slim", "timm:cs3darknet_focus_s", "timm:cspnext_tiny", "timm:selecsls42",
    "timm:repvgg_a0", "timm:poolformerv2_s12", "timm:pvt_v2_b0", "timm:xcit_nano_12_p16_224",
    "timm:pit_ti_224", "timm:coat_lite_tiny", "timm:resmlp_12_224",
    "timm:tiny_vit_5m_224", "timm:gernet_s", "torchvision:shufflenet_v2_x0_5", "torchvision:mobilenet_v3_small",
    "torchvision:mnasnet0_5", "torchvision:regnet_x_400mf", "torchvision:efficientnet_b0",
    "torchvision:googlenet",
)  # fmt: skip
"""Sixty small models, each of another family."""


@pytest.mark.slow
def test_a_model_of_any_family_trains_a_round_with_all_its_parameters(subtests: pytest.Subtests) -> None:
    for case, name in enumerate(FAMILIES):
        with subtests.test(case=case):
            library, _, model = name.partition(":")
            parts = built(
                config(
                    "standalone",
                    federation={"clients": 2, "participation": 1.0, "group": [name]},
                    training={"epochs": None, "steps": 1, "batch_size": 8},
                    data={"split": "1:1", "partition": "iid"},
                ),
                generated(per_class=8, side=64, channels=3),
            )
            if library == "timm":
                whole = timm.create_model(model, num_classes=4)
            else:
                without = {"aux_logits": False, "init_weights": True} if model == "googlenet" else {}
                whole = torchvision.models.get_model(model, weights=None, num_classes=4, **without)
            assert size(parts.federation.architectures[name]) == size(whole)
            record = run(parts.engine, 1).record
            assert record is not None and record["diverged"] == [] and record["loss"]["mean"] > 0


def size(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# Published weights: fitted to the images at hand, or refused with what is missing and where to put it


LARGE = ImageShape(3, 96, 96)


def stream(seed: int) -> torch.Generator:
    return rng.torch_stream(seed, "tests/pretrained")


def published(folder: Path, name: str, shape: ImageShape = LARGE) -> dict[str, Tensor]:
    """A network of 1000 classes written to `folder` as a library publishes it."""
    network = models.build(name, shape, 1000, stream(0))
    tensors = {key.removeprefix(network.published): w.contiguous() for key, w in network.state_dict().items()}
    save_file(tensors, folder / f"{name}.safetensors")
    return tensors


def test_a_residual_network_takes_all_but_its_head_and_the_stem_made_for_small_images(tmp_path: Path) -> None:
    theirs = published(tmp_path, "tiny_resnet6")
    drawn = models.build("tiny_resnet6", GRAY, 5, stream(1)).state_dict()
    ours = models.build("tiny_resnet6", GRAY, 5, stream(1), weights=str(tmp_path)).state_dict()
    for name, tensor in ours.items():
        kept = name.startswith("head.") or name == "conv1.weight"
        assert torch.equal(tensor, drawn[name] if kept else theirs[name]), name


def test_large_images_take_the_published_stem_summed_over_colours_for_grey_ones(tmp_path: Path) -> None:
    theirs = published(tmp_path, "tiny_resnet6")
    colour = models.build("tiny_resnet6", LARGE, 5, stream(1), weights=str(tmp_path))
    grey = models.build("tiny_resnet6", ImageShape(1, 96, 96), 5, stream(1), weights=str(tmp_path))
    assert torch.equal(colour.get_parameter("conv1.weight"), theirs["conv1.weight"])
    torch.testing.assert_close(grey.state_dict()["conv1.weight"], theirs["conv1.weight"].sum(1, keepdim=True))


def test_weights_under_our_own_names_are_taken_too(tmp_path: Path) -> None:
    """An exported model has these names, which begin with `vit.`."""
    state = models.build("tiny_vit1", LARGE, 5, stream(0)).state_dict()
    exported = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(exported, tmp_path / "client_3.safetensors")
    file = str(tmp_path / "client_3.safetensors")
    ours = models.build("tiny_vit1", LARGE, 5, stream(1), weights=file).state_dict()
    body = [name for name in ours if not name.startswith("head.")]
    assert all(torch.equal(ours[name], exported[name]) for name in body)


def test_a_shallow_transformer_takes_the_first_blocks_of_a_deeper_one(tmp_path: Path) -> None:
    theirs = published(tmp_path, "tiny_vit2")
    file = str(tmp_path / "tiny_vit2.safetensors")
    ours = models.build("tiny_vit1", LARGE, 5, stream(1), weights=file).state_dict()
    body = {name.removeprefix("vit."): tensor for name, tensor in ours.items() if name.startswith("vit.")}
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in body.items())


def test_position_embeddings_are_resampled_to_the_images_own_patches(tmp_path: Path) -> None:
    """96 pixels are 24×24 patches, 28 are 7×7; the class token's embedding is not a place and stays."""
    theirs = published(tmp_path, "tiny_vit1")
    ours = models.build("tiny_vit1", GRAY, 5, stream(1), weights=str(tmp_path)).get_parameter("vit.pos_embed")
    assert ours.shape == (1, 1 + 49, 8)
    assert torch.equal(ours[:, 0], theirs["pos_embed"][:, 0])
    torch.testing.assert_close(ours[:, 1:].mean(), theirs["pos_embed"][:, 1:].mean(), atol=2e-3, rtol=0)


def test_every_client_of_a_federation_starts_from_the_weights_with_a_head_of_its_own(tmp_path: Path) -> None:
    theirs = published(tmp_path, "tiny_resnet6", ImageShape(1, 8, 8))
    federation = {"clients": 2, "group": "tiny_resnet6", "pretrained": str(tmp_path)}
    parts = built(config(federation=federation), generated())
    first, second = parts.engine.initial_state().clients
    assert torch.equal(first["model/conv1.weight"], theirs["conv1.weight"])
    assert torch.equal(second["model/conv1.weight"], theirs["conv1.weight"])
    assert not torch.equal(first["model/head.weight"], second["model/head.weight"])


def test_missing_weights_are_refused_before_round_1_with_the_names_looked_for(tmp_path: Path) -> None:
    settings = config(federation={"group": ["tiny_resnet6"], "pretrained": str(tmp_path)})
    with pytest.raises(
        DataError, match=r"no weights of model 'tiny_resnet6'; expected one of tiny_resnet6\.safe"
    ):
        built(settings, generated())
    nowhere = config(federation={"group": ["tiny_resnet6"], "pretrained": str(tmp_path / "nowhere")})
    with pytest.raises(DataError, match="no pretrained weights at"):
        built(nowhere, generated())


@pytest.mark.parametrize("name, why", [("tiny_vit1", "holds no 'cls_token'"), ("tiny_wide", "it is another")])
def test_another_models_weights_are_refused(tmp_path: Path, name: str, why: str) -> None:
    theirs = published(tmp_path, "tiny_resnet6")
    file = tmp_path / "other.safetensors"
    wide = {key: torch.cat([tensor, tensor]) if tensor.dim() else tensor for key, tensor in theirs.items()}
    save_file(wide, file)
    with pytest.raises(DataError, match=why):
        models.build("tiny_resnet6" if name == "tiny_wide" else name, GRAY, 5, stream(1), weights=str(file))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    published(tmp_path, "tiny_resnet6")
    file = tmp_path / "tiny_resnet6.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot read the pretrained weights"):
        models.build("tiny_resnet6", GRAY, 5, stream(1), weights=str(file))


def test_offline_the_hubs_weights_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(repository: str, file: str, local_files_only: bool) -> str:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(DataError, match=r"'vit_s8' \(timm/vit_small.*federation\.pretrained=PATH") as refused:
        models.build("vit_s8", GRAY, 5, stream(1), weights=True)
    assert refused.value.exit_code == 3


def test_every_transformer_of_inco_starts_from_one_published_file() -> None:
    assert len({models.pretrained.TIMM[name] for name in models.members("inco_vit")}) == 1


def test_a_model_nobody_published_is_refused() -> None:
    with pytest.raises(ConfigError, match="no published weights for model 'tiny_cnn'"):
        models.build("tiny_cnn", GRAY, 5, stream(1), weights=True)
