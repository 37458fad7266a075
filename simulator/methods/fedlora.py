"""FedLoRA: Yi et al., "FedLoRA: Model-Heterogeneous Personalized Federated Learning with LoRA Tuning", 2023,
Algorithm 1, equations 3–10. Equation 10 is the mean of `SharedNetwork`.

Server state: `adapter/down.weight`, `adapter/up.weight`, and their biases, the global adapter A(θ). Client state: only
the model. The received adapter replaces a participant's. The local model alone predicts.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.sections import Choice, Linear, MethodConfig
from simulator.methods import MOVES_LESS, Card, needs, register
from simulator.methods.small_model import SharedNetwork
from simulator.models import Network
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class FedLoRAConfig(MethodConfig, space={"mu": Linear(0.5, 0.95), "hidden": Choice((None, 20, 60, 120))}):
    """Hyper-parameters of FedLoRA, §4.3 and §6.1."""

    mu: float = Field(0.9, ge=0.5, lt=1, description="μ, weight of the local model's own loss (eq. 5)")
    structure: Literal["decomposed", "direct"] = Field(
        "decomposed",
        description="adapter beside FC3 reading FC2 (heterogeneous), or beside FC2–FC3 reading FC1",
    )
    hidden: int | None = Field(None, ge=1, description="hidden width; default 60 (decomposed), 200 (direct)")
    eta_theta: float | None = Field(
        None, gt=0, description="η_θ, the adapter's learning rate; default training.lr"
    )

    @property
    def width(self) -> int:
        """The adapter's hidden width."""
        return self.hidden or {"decomposed": 60, "direct": 200}[self.structure]


class Adapter(nn.Module):
    """A(θ): representation R [B, width] → hidden → C (§4.3)."""

    def __init__(self, width: int, hidden: int, num_classes: int, nonlinear: bool) -> None:
        super().__init__()
        self.down = nn.Linear(width, hidden)
        self.up = nn.Linear(hidden, num_classes)
        self.nonlinear = nonlinear

    def forward(self, r: Tensor) -> Tensor:
        """Logits ŷ_1 [B, C]."""
        hidden = self.down(r)
        logits: Tensor = self.up(F.relu(hidden) if self.nonlinear else hidden)
        return logits


@register("fedlora")
class FedLoRA(SharedNetwork):
    """A small adapter that all clients share exchanges knowledge between their models, in two phases of training."""

    card = Card(
        title="FedLoRA",
        paper="Yi et al. 2023",
        kind="adapter",
        needs="the same width of the representation the adapter reads",
        down="adapter",
        up="adapter",
        stale=MOVES_LESS,
    )
    config: FedLoRAConfig
    shared = "adapter"

    def reads(self, model: Network) -> str:
        """The name of the representation R that all models have: FC1, or the features (FC2 of the CNNs)."""
        return "fc1" if self.config.structure == "direct" else model.layers[-1]

    def unmet_need(self) -> str | None:
        return needs.same_width(self.federation, self.reads)

    def network(self) -> Adapter:
        """An adapter of the configured structure for the clients' representation R."""
        width = needs.width(self.federation, self.federation.clients[0], self.reads)
        assert width is not None  # `unmet_need` has rejected models without it
        nonlinear = self.config.structure == "direct"
        return Adapter(width, self.config.width, self.federation.num_classes, nonlinear)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [
            Phase("model", self.model_loss, trains=("model",)),
            Phase("adapter", self.adapter_loss, trains=("adapter",), lr=self.config.eta_theta),
        ]

    def model_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ_ω = (1−μ)·ℓ(A(R), y) + μ·ℓ(h(R), y), adapter frozen (eqs 3–5)."""
        shown = nets.model.represent(batch.x)
        y_1 = nets["adapter"](shown[self.reads(nets.model)])
        y_2 = nets.model.head(shown[nets.model.layers[-1]])
        mu = self.config.mu
        return (1 - mu) * own_cross_entropy(y_1, batch.y) + mu * recorded_cross_entropy(y_2, batch.y)

    def adapter_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ_θ = ℓ(A(R̃), y), model frozen (eqs 7–8)."""
        r = nets.model.represent(batch.x)[self.reads(nets.model)]
        return own_cross_entropy(nets["adapter"](r), batch.y)
