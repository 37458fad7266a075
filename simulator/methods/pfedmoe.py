"""pFedMoE: Yi et al., "pFedMoE: Data-Level Personalization with Mixture of Experts for Model-Heterogeneous Personalized
Federated Learning", arXiv 2402.01350.

Besides its own model F, a client trains a small extractor G that all share, and a gate H of its own. For each sample, H
gives the shares with which the features of G and F are mixed. F's head reads the mixture.

Server state: `small/…`, the global extractor. Client state: `gate/…`, which is never sent; `small/…`, the client's last
extractor, because all three predict together.
"""

import math
from collections.abc import Mapping, Sequence

from pydantic import Field
from torch import Tensor, nn

from simulator.base.sections import Choice
from simulator.data.specs import InputSpec, TokenSpec
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Card, register
from simulator.methods.small_model import PrivateModule, PrivateModuleConfig
from simulator.models.federation import ClientInfo
from simulator.models.network import to_width
from simulator.models.text import mean
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy


class PFedMoEConfig(PrivateModuleConfig, space={"gate_hidden": Choice((16, 32, 64))}):
    """Hyper-parameters of pFedMoE."""

    gate_hidden: int = Field(32, ge=1, description="Hidden width of the client's gate.")


class Gate(nn.Module):
    """H: sample [B, …] → hidden → shares of G and of F [B, 2], which are positive and sum to 1."""

    def __init__(self, spec: InputSpec, hidden: int) -> None:
        super().__init__()
        self.padding = spec.padding if isinstance(spec, TokenSpec) else None
        self.reads: nn.Module = (
            nn.Embedding(spec.vocabulary, hidden)
            if isinstance(spec, TokenSpec)
            else nn.Linear(math.prod(spec.shape), hidden)
        )
        self.norm = nn.LayerNorm(hidden)
        self.shares = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The shares. Of tokens, the first layer reads the fraction of each word."""
        hidden = self.reads(x.flatten(1))
        if self.padding is not None:
            hidden = mean(hidden, x != self.padding)
        hidden = self.norm(
            hidden.to(self.norm.weight.dtype)
        )  # stacked clients cannot mix bfloat16 and float32
        shares: Tensor = self.shares(hidden.sigmoid()).softmax(1)
        return shares


@register("pfedmoe")
class PFedMoE(PrivateModule):
    """A gate mixes the features of a small shared extractor and of the client's own model, sample by sample."""

    card = Card(
        title="pFedMoE",
        paper="Yi et al. 2024",
        kind="small model",
        needs="nothing; a small extractor and a gate beside the client's own model",
        down="small extractor",
        up="small extractor",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    config: PFedMoEConfig
    private = "gate"

    def private_module(self, client: ClientInfo) -> Gate:
        return Gate(self.federation.spec, self.config.gate_hidden)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        self.prepare_networks(local)
        return [Phase("model", self.loss, trains=("model", "small", "gate"))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE(h(α_G·G(x) + α_F·F(x)), y), (α_G, α_F) = H(x)."""
        return recorded_cross_entropy(self.predict(nets, state, batch.x), batch.y)

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        own = nets.model.features(x)
        general = to_width(nets.network("small").features(x), own.shape[1])
        of_small, of_own = nets["gate"](x).split(1, dim=1)
        scores: Tensor = nets.model.head(of_small * general + of_own * own)
        return scores
