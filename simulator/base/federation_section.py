"""The section `federation`: the clients, who takes part in a round, and what changes about them."""

import math
from collections.abc import Iterable

from pydantic import Field, model_validator

from checkpoints import limits
from simulator.base.errors import ConfigError
from simulator.base.sections import Section
from simulator.base.timeline_section import TimelineEvent


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
    """Clients that join, leave, or whose data change, by round (docs/clients.md)."""

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


def refuse_joined(models: Iterable[str]) -> None:
    """Raise ConfigError for a name that is several, joined by commas."""
    for name in models:
        if "," in name:
            listed = ",".join(each.strip() for each in name.strip("[]").split(","))
            raise ConfigError(f"'{name}' is several models. Give a list: `federation.group=[{listed}]`.")
