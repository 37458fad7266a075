"""The section `federation`: the clients, who takes part in a round, and what changes about them."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from checkpoints import limits
from simulator.base.data_section import READ_BY, DataConfig, Dividing
from simulator.base.errors import ConfigError, nearest
from simulator.base.sections import Section

_ABOUT_DATA = ("partition", "alpha", "classes_per_client", "labels", "domain")

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
"""The named groups of models. Client i gets model i mod X."""


class TimelineEvent(Section):
    """One event. It holds from the beginning of its round on."""

    round: int = Field(ge=1)
    """First round in which the event holds."""
    event: Literal["join", "leave", "data"]
    """What happens: join, leave, or data."""
    clients: (
        tuple[Annotated[int, Field(ge=0)], ...] | Annotated[float, Field(gt=0, le=1)] | Literal["left"] | None
    ) = None
    """Client numbers, a fraction of the clients that may take part, or 'left' for those that have left. Default for
    event 'data': all clients."""
    partition: Dividing | None = None
    """Divide the clients' samples anew, in this way."""
    alpha: float | None = Field(None, gt=0)
    """Divide the clients' samples anew by Dirichlet shares with this α."""
    classes_per_client: int | None = Field(None, ge=1)
    """Divide the clients' samples anew, with this number of classes each."""
    labels: Literal["permuted"] | None = None
    """Permute the labels of all samples of the clients."""
    domain: str | None = None
    """Give the clients samples of this domain."""

    @property
    def divides(self) -> bool:
        """Whether the event divides samples anew."""
        return self.event == "data" and self.labels is None and self.domain is None

    def divided(self, data: DataConfig) -> DataConfig:
        """The settings of the new partition: those of the section `data` with the event's own."""
        partition: str | None = self.partition
        values: dict[str, object] = {}
        for key in ("alpha", "classes_per_client"):
            if (value := getattr(self, key)) is not None:
                values[key] = value
                partition = partition or (data.partition if data.reads(key) else READ_BY[key]["partition"][0])
        values["partition"] = partition
        if partition != "pathological" and data.quantity == "pfllib":
            values["quantity"] = "varied"
        return data.model_copy(update=values)

    @field_validator("clients")
    @classmethod
    def _clients_are_different(cls, clients: object) -> object:
        if isinstance(clients, tuple):
            if not clients:
                raise ValueError("names no client; name some, or give a fraction")
            if len(set(clients)) < len(clients):
                raise ValueError(f"{list(clients)} names a client twice")
        return clients

    @model_validator(mode="after")
    def _says_what_changes(self) -> "TimelineEvent":
        given = [key for key in _ABOUT_DATA if getattr(self, key) is not None]
        if self.event != "data":
            if given:
                raise ValueError(f"{given[0]} belongs to event 'data', and this one is '{self.event}'")
            if self.clients is None:
                raise ValueError(f"event '{self.event}' needs clients: numbers, or a fraction such as 0.2")
            if self.clients == "left" and self.event == "leave":
                raise ValueError("clients 'left' are absent; they can only join")
            return self
        if self.clients == "left":
            raise ValueError("clients 'left' belongs to event 'join'; name clients, or give a fraction")
        rules = [key for key in given if key in ("partition", "alpha", "classes_per_client")]
        changes = [*(["a new partition"] if rules else []), *(key for key in given if key not in rules)]
        if len(changes) != 1:
            raise ValueError(
                f"event 'data' makes one change, and this one has {' and '.join(changes) or 'none'}; set "
                "alpha, partition, classes_per_client, labels, or domain, and use one event for each change"
            )
        for key in ("alpha", "classes_per_client"):
            partitions = READ_BY[key]["partition"]
            if getattr(self, key) is not None and self.partition not in (None, *partitions):
                raise ValueError(
                    f"{key} belongs to partition {' or '.join(map(repr, partitions))}, and this one is "
                    f"'{self.partition}'"
                )
        if self.alpha is not None and self.classes_per_client is not None and self.partition is None:
            raise ValueError(
                "alpha and classes_per_client together belong to partition 'extended_dirichlet'; set it, or remove one "
                "of them"
            )
        return self


class FederationConfig(Section):
    """The clients: how many, how many of them take part in a round, and which models they hold."""

    clients: int = Field(10, ge=1, le=limits.CLIENTS)
    """Number of clients N."""
    participation: float = Field(1.0, gt=0, le=1)
    """Fraction C of the clients sampled each round."""
    group: str | tuple[str, ...] = "htm5"
    """Model group, or a list of X models. Client i gets model i mod X."""
    pretrained: bool | str = False
    """Initial weights: true for the published ones of the hub, or a .safetensors file or folder."""
    unseen: float | None = Field(None, gt=0, lt=1)
    """Fraction of the clients that never train in the federation, to measure new clients. Default: none."""

    timeline: tuple[TimelineEvent, ...] = ()
    """Clients that join, leave, or whose data change, by round."""

    @property
    def unseen_clients(self) -> int:
        """Clients that never train in the federation: a share of N, to the nearest whole number."""
        return math.floor(self.clients * (self.unseen or 0.0) + 0.5)

    @property
    def seen_clients(self) -> int:
        """Clients that may take part in a round."""
        return self.clients - self.unseen_clients

    @property
    def participants(self) -> int:
        """Clients sampled each round: C of the seen clients, to the nearest whole number."""
        return math.floor(self.seen_clients * self.participation + 0.5)

    def participants_of(self, present: int) -> int:
        """Clients sampled in a round with so many present clients: C of them, but at least one."""
        return max(math.floor(present * self.participation + 0.5), 1)

    @model_validator(mode="after")
    def _somebody_participates(self) -> "FederationConfig":
        if self.unseen is not None and not 0 < self.unseen_clients < self.clients:
            left = f"{self.unseen_clients} of {self.clients} clients"
            raise ValueError(f"unseen {self.unseen:g} makes {left} unseen. Leave at least one of each kind")
        if self.participants == 0:
            least = math.ceil(0.5 / self.seen_clients * 10**9) / 10**9
            raise ValueError(
                f"participation {self.participation:g} of {self.seen_clients} clients selects no client. "
                f"Use at least {least:.10g}"
            )
        return self


def unknown_model(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a model that there is not."""
    return ConfigError(f"unknown model '{name}'.{nearest(name, known)} See `htfl-sim models`.")


def unknown_group(group: str, models: Iterable[str]) -> ConfigError:
    """The error for a group that is no model either."""
    return ConfigError(
        f"unknown model group '{group}'.{nearest(group, [*GROUPS, *models])} See `htfl-sim models`."
    )


def refuse_joined(models: Iterable[str]) -> None:
    """Raise ConfigError for a name that is several, joined by commas."""
    for name in models:
        if "," in name:
            listed = ",".join(each.strip() for each in name.strip("[]").split(","))
            raise ConfigError(f"'{name}' is several models. Give a list: `federation.group=[{listed}]`.")
