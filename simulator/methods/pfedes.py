"""pFedES: Yi et al., "pFedES: Generalized Proxy Feature Extractor Sharing for Model Heterogeneous Personalized
Federated Learning", AAAI 2025.

A small extractor G, which all clients share, makes an image of the same size from an image. A client's model F learns
from both images. F and G are trained in turns. F alone predicts, from the image itself.

Server state: `extractor/…`, the global extractor. Client state: only the model. The received extractor replaces a
participant's.
"""

from collections.abc import Mapping, Sequence

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.sections import Linear, MethodConfig
from simulator.methods import MOVES_LESS, Card, needs, register
from simulator.methods.small_model import SharedNetwork
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class PFedESConfig(MethodConfig, space={"mu": Linear(0.1, 0.9)}):
    """Hyper-parameters of pFedES."""

    mu: float = Field(0.5, ge=0, le=1, description="μ, weight of the loss on the extractor's images.")
    channels: int = Field(8, ge=1, description="Hidden channels of the extractor.")
    extractor_epochs: int | None = Field(
        None, ge=1, description="Epochs in which the extractor is trained; default: those of the model."
    )


class Extractor(nn.Module):
    """G: image [B, c, h, w] → conv 3×3 → ReLU → conv 3×3 → ReLU, an image of the same size."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, hidden, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """The images [B, c, h, w]."""
        return F.relu(self.conv2(F.relu(self.conv1(x))))


@register("pfedes")
class PFedES(SharedNetwork):
    """A small shared extractor in front of each client's model exchanges knowledge, in two phases of training."""

    card = Card(
        title="pFedES",
        paper="Yi et al. 2025, AAAI",
        kind="small model",
        needs="images; a small extractor before the client's own model",
        down="extractor",
        up="extractor",
        stale=MOVES_LESS,
    )
    config: PFedESConfig
    shared = "extractor"

    def unmet_need(self) -> str | None:
        return needs.kind(self.federation, "image", "its extractor makes images of images")

    def network(self) -> Extractor:
        return Extractor(self.federation.spec.shape[0], self.config.channels)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [
            Phase("model", self.model_loss, trains=("model",)),  # G frozen
            Phase(
                "extractor", self.extractor_loss, trains=("extractor",), epochs=self.config.extractor_epochs
            ),  # F frozen
        ]

    def model_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """(1 − μ) · CE(F(x), y) + μ · CE(F(G(x)), y)."""
        of_image = recorded_cross_entropy(nets.model(batch.x), batch.y)
        return (1 - self.config.mu) * of_image + self.config.mu * self.extractor_loss(
            nets, state, batch, draws
        )

    def extractor_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE(F(G(x)), y)."""
        return own_cross_entropy(nets.model(nets["extractor"](batch.x)), batch.y)
