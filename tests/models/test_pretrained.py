"""Published weights: fitted to the images at hand, or refused with what is missing and where to put it."""

from pathlib import Path

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from simulator import models
from simulator.base import rng
from simulator.base.errors import ConfigError, DataError
from simulator.models import ImageShape
from tests.federations import built, config, generated

LARGE = ImageShape(3, 96, 96)
GRAY = ImageShape(1, 28, 28)


def stream(seed: int) -> torch.Generator:
    return rng.torch_stream(seed, "tests/pretrained")


def published(folder: Path, name: str, shape: ImageShape = LARGE) -> dict[str, Tensor]:
    """A network of 1000 classes written to `folder` as a library publishes it."""
    network = models.build(name, shape, 1000, stream(0))
    tensors = {
        key.removeprefix(network.published): tensor.contiguous()
        for key, tensor in network.state_dict().items()
    }
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
    torch.testing.assert_close(
        grey.get_parameter("conv1.weight").detach(), theirs["conv1.weight"].sum(1, keepdim=True)
    )


def test_weights_under_our_own_names_are_taken_too(tmp_path: Path) -> None:
    """An exported model has these names, which begin with `vit.`."""
    exported = {
        name: tensor.contiguous()
        for name, tensor in models.build("tiny_vit1", LARGE, 5, stream(0)).state_dict().items()
    }
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
    parts = built(
        config(federation={"clients": 2, "group": "tiny_resnet6", "pretrained": str(tmp_path)}), generated()
    )
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


@pytest.mark.parametrize(
    ("name", "why"), [("tiny_vit1", "holds no 'cls_token'"), ("tiny_wide", "it is another")]
)
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


def test_without_a_network_the_hubs_weights_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def offline(repository: str, file: str, local_files_only: bool) -> str:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(DataError, match=r"'vit_s8' \(timm/vit_small.*federation\.pretrained=PATH") as refused:
        models.build("vit_s8", GRAY, 5, stream(1), weights=True)
    assert refused.value.exit_code == 3


def test_a_model_nobody_published_is_refused() -> None:
    with pytest.raises(ConfigError, match="no published weights for model 'tiny_cnn'"):
        models.build("tiny_cnn", GRAY, 5, stream(1), weights=True)
