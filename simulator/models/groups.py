"""Model groups: the architecture of each client (client i gets model i mod X)."""

from collections.abc import Iterable

from simulator.base.errors import ConfigError, nearest
from simulator.data.specs import InputSpec
from simulator.models import registry

GROUPS: dict[str, tuple[str, ...]] = {
    "htm5": ("cnn1", "cnn2", "cnn3", "cnn4", "cnn5"),
    "htfe2": ("cnn_4layer", "resnet18"),
    "htfe3": ("resnet10", "resnet18", "resnet34"),
    "htfe4": ("cnn_4layer", "googlenet", "mobilenet_v2", "resnet18"),
    "htfe8": (
        "cnn_4layer", "googlenet", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
    ),
    "htfe9": (
        "resnet4", "resnet6", "resnet8", "resnet10", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
    ),
    "htm10": (
        "cnn_4layer", "googlenet", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
        "vit_b_16", "vit_b_32",
    ),
    "inco_resnet": ("resnet10", "resnet14", "resnet18", "resnet22", "resnet26"),
    "inco_resnet_narrow": (
        "narrow_resnet10", "narrow_resnet14", "narrow_resnet18", "narrow_resnet22", "narrow_resnet26",
    ),
    "inco_vit": ("vit_s8", "vit_s9", "vit_s10", "vit_s11", "vit_s12"),
    "heterofl_resnet": ("resnet18", "resnet18_w2", "resnet18_w4", "resnet18_w8", "resnet18_w16"),
    "heterofl_cnn": ("cnn1", "cnn1_w2", "cnn1_w4", "cnn1_w8", "cnn1_w16"),
    "htfe8_htc4": (
        "cnn_4layer", "googlenet_h512", "mobilenet_v2_h256", "resnet18_h128",
        "resnet34", "resnet50_h512", "resnet101_h256", "resnet152_h128",
    ),
    "res34_htc4": ("resnet34", "resnet34_h512", "resnet34_h256", "resnet34_h128"),
    "htfe_txt2": ("fasttext", "text_lr"),
    "htfe_txt4": ("fasttext", "text_lr", "lstm", "bilstm"),
    "htfe_txt5_1": ("tr_h8_l1", "tr_h8_l2", "tr_h8_l4", "tr_h8_l8", "tr_h8_l16"),
    "htfe_txt5_2": ("tr_h1_l4", "tr_h2_l4", "tr_h4_l4", "tr_h8_l4", "tr_h16_l4"),
    "htfe_txt5_3": ("tr_h1_l1", "tr_h2_l2", "tr_h4_l4", "tr_h8_l8", "tr_h16_l16"),
    "htfe_txt6": ("fasttext", "lstm", "bilstm", "tr_h8_l2", "text_lr", "gru"),
    "htfe_sen2": ("harcnn2_s1", "harcnn2_s2"),
    "htfe_sen3": ("harcnn2_s1", "harcnn2_s2", "harcnn2_s3"),
    "htfe_sen5": ("harcnn2_s1", "harcnn2_s2", "harcnn2_s3", "harcnn1_s1", "harcnn3_s1"),
    "htfe_sen8": (
        "harcnn2_s1", "harcnn2_s2", "harcnn2_s3", "harcnn1_s1", "harcnn1_s2", "harcnn1_s3", "harcnn3_s1", "harcnn3_s2",
    ),
    "mlps": ("mlp", "mlp_500", "mlp_1000_500", "mlp_1000_500_200"),
    "mlp_1layer": ("mlp_200", "mlp_500"),
    "mlp_layers": ("mlp_500", "mlp_1000_500", "mlp_1000_500_200"),
    "tiny": ("tiny_cnn", "tiny_mlp"),
    "tiny_resnet": ("tiny_resnet6", "tiny_resnet10"),
    "tiny_vit": ("tiny_vit1", "tiny_vit2"),
    "tiny_widths": ("tiny_resnet10", "tiny_resnet10_w2", "tiny_resnet10_w4"),
    "tiny_heads": ("tiny_cnn", "tiny_mlp_h4", "tiny_cnn_h6"),
    "small_text": ("small_gru", "small_lstm", "small_bilstm"),
    "tiny_text": ("tiny_fasttext", "tiny_lstm"),
    "tiny_text_cells": ("tiny_gru", "tiny_bilstm"),
    "tiny_text_depths": ("tiny_tr_l1", "tiny_tr_l2"),
    "tiny_text_widths": ("tiny_fasttext", "tiny_fasttext_w2"),
    "tiny_signal": ("tiny_harcnn1", "tiny_harcnn2"),
    "tiny_table": ("tiny_mlp", "tiny_mlp2"),
    "tiny_mlp_widths": ("tiny_mlp", "tiny_mlp_w2"),
}  # fmt: skip


def members(group: str | tuple[str, ...]) -> tuple[str, ...]:
    """The architectures of a named group, of a list of models, or of a single model."""
    if isinstance(group, tuple):
        if not group:
            raise ConfigError("federation.group is an empty list; name at least one model.")
        return tuple(registry.get(name).name for name in group)
    if group in GROUPS:
        return GROUPS[group]
    if group in registry.names() or any(each in group for each in ":/.,"):
        return (registry.get(group).name,)
    raise ConfigError(
        f"unknown model group '{group}'.{nearest(group, [*GROUPS, *registry.names()])} See `htfl-sim models`."
    )


def assign(group: str | tuple[str, ...], clients: int) -> tuple[str, ...]:
    """The architecture of every client, in client order."""
    architectures = members(group)
    return tuple(architectures[client % len(architectures)] for client in range(clients))


def check_kind(architectures: Iterable[str], spec: InputSpec) -> None:
    """Raise ConfigError if one of the architectures does not accept the kind of samples. Names those that do."""
    for name in dict.fromkeys(architectures):
        model = registry.get(name)
        if spec.kind not in model.kinds:
            fitting = [group for group, names in GROUPS.items() if _all_take(names, spec)]
            groups = f"Groups for {spec.noun}: {', '.join(fitting)}. " if fitting else ""
            raise ConfigError(f"{registry.misfit(model, spec)} {groups}{registry.fitting(spec)}")


def _all_take(names: Iterable[str], spec: InputSpec) -> bool:
    return all(spec.kind in registry.get(name).kinds for name in names)
