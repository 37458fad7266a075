"""Published weights of all but the head, from a user's safetensors (others can run code), or from timm's hub."""

from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from simulator.base import extras
from simulator.base.errors import ConfigError, DataError
from simulator.base.reading import refuse_irregular
from simulator.models.network import Network

TIMM = {
    "resnet18": "resnet18.tv_in1k",
    "resnet34": "resnet34.tv_in1k",
    "resnet50": "resnet50.tv_in1k",
    "resnet101": "resnet101.tv_in1k",
    "resnet152": "resnet152.tv_in1k",
    "vit_b_16": "vit_base_patch16_224.augreg2_in21k_ft_in1k",
    "vit_b_32": "vit_base_patch32_224.augreg_in21k_ft_in1k",
} | {f"vit_s{depth}": "vit_small_patch16_224.augreg_in21k_ft_in1k" for depth in range(8, 13)}
"""timm's names of the weights of our architectures. A transformer with fewer blocks takes the first of the twelve."""


def weights(name: str, network: Network, source: str | bool) -> dict[str, Tensor]:
    """The published parameters of architecture `name`, fitted to `network`, by parameter name.

    Kernels for three channels are summed for one. Position embeddings are resampled to the grid of patches. A stem of
    another size than the published one (small images) keeps its drawn weights. Raises ConfigError if no weights are
    published; DataError if they are missing, damaged, or another model's.
    """
    path = _hub(name) if source is True else _local(name, Path(str(source)).expanduser())
    try:
        refuse_irregular(path, f"the pretrained weights {path}", error=DataError)
        published = load_file(path)
    except (OSError, SafetensorError) as broken:
        raise DataError(f"cannot read the pretrained weights {path}: {broken}; fetch them again.") from broken
    stem = next((path for path, each in network.named_modules() if isinstance(each, nn.Conv2d)), None)
    fitted = {}
    for own, wanted in network.state_dict().items():
        key = own if own in published else own.removeprefix(network.published)
        if own.startswith("head.") or (key not in published and not wanted.is_floating_point()):
            continue
        if key not in published:
            raise DataError(f"{path} holds no '{key}': it is not the weights of model '{name}'.")
        value = _fitted(own, published[key], wanted, network)
        if value is None and own != f"{stem}.weight":
            raise DataError(
                f"{path} has '{key}' {list(published[key].shape)}, model '{name}' needs {list(wanted.shape)}; "
                "it is another model's."
            )
        if value is not None:
            fitted[own] = value.to(wanted.dtype)
    return fitted


def _fitted(name: str, value: Tensor, wanted: Tensor, network: Network) -> Tensor | None:
    """The value in the required shape, or None if no conversion keeps its meaning."""
    if value.dim() == 4 and wanted.dim() == 4 and value.shape[1] == 3 and wanted.shape[1] == 1:
        value = value.sum(1, keepdim=True)
    if name.endswith("pos_embed") and value.shape != wanted.shape and value.shape[2:] == wanted.shape[2:]:
        from timm.layers.pos_embed import resample_abs_pos_embed

        patches: Any = network.get_submodule(f"{name.removesuffix('pos_embed')}patch_embed")
        value = resample_abs_pos_embed(value, list(patches.grid_size))
    return value if value.shape == wanted.shape else None


def _local(name: str, source: Path) -> Path:
    """The file itself, or the one of this architecture in the folder."""
    if source.is_file():
        return source
    if not source.is_dir():
        raise DataError(
            f"there are no pretrained weights at {source}; federation.pretrained names a .safetensors file or a folder."
        )
    model = name.rpartition(":")[2]
    published = TIMM.get(name, model)
    candidates = [
        f"{model}.safetensors",
        f"{published}.safetensors",
        f"{published.partition('.')[0]}.safetensors",
        f"{published}/model.safetensors",
    ]
    for candidate in candidates:
        if (source / candidate).is_file():
            return source / candidate
    raise DataError(
        f"{source} holds no weights of model '{name}'; expected one of {', '.join(dict.fromkeys(candidates))}."
    )


@cache
def _hub(name: str) -> Path:
    """The weights in the hub's local cache. Downloads them if necessary."""
    repository = _repository(name)
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, "model.safetensors", local_files_only=not extras.allowed()))
    except Exception as failed:  # many kinds: no network, no such repository, no space
        if not extras.allowed():
            raise extras.not_downloaded(
                f"the pretrained weights of model '{name}' are not on this machine",
                *("hf", "download", repository, "model.safetensors"),
            ) from failed
        raise DataError(
            f"the pretrained weights of model '{name}' ({repository} on the Hugging Face hub) are not on this machine "
            f"and cannot be fetched ({type(failed).__name__}). Put the file here and name it: "
            "`federation.pretrained=PATH`."
        ) from failed


def _repository(name: str) -> str:
    if name in TIMM:
        return f"timm/{TIMM[name]}"
    if name.startswith("timm:"):
        import timm

        settings = timm.get_pretrained_cfg(name.removeprefix("timm:"))
        if settings is not None and settings.hf_hub_id:
            return str(settings.hf_hub_id)
    raise ConfigError(
        f"there are no published weights for model '{name}'; drop federation.pretrained, or name a file or folder."
    )
