"""FML: Shen et al., "Federated Mutual Learning", 2020.

Besides its own model, every client trains the meme, a small network that all clients share. Server state: `meme/…`,
the global meme. Client state: only the model. The received meme replaces a participant's. The local model alone
predicts.
"""

from collections.abc import Collection, Mapping, Sequence

from pydantic import Field
from torch import Tensor

from simulator.base.sections import Linear, MethodConfig
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Card, register
from simulator.methods.means import divergence
from simulator.methods.small_model import SmallModel
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class FMLConfig(MethodConfig, space={"alpha": Linear(0.1, 0.9), "beta": Linear(0.1, 0.9)}):
    """Hyper-parameters of FML."""

    alpha: float = Field(0.5, ge=0, le=1, description="α, weight of the local model's own loss")
    beta: float = Field(0.5, ge=0, le=1, description="β, weight of the meme's own loss")
    meme: str | None = Field(None, description="the meme's architecture; default: the clients' smallest")


@register("fml")
class FML(SmallModel):
    """A local model and a small shared one teach each other. Only the small one is sent."""

    card = Card(
        title="FML",
        paper="Shen et al. 2020",
        kind="small model",
        needs="nothing; a small model beside the client's own",
        down="small model",
        up="small model",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    config: FMLConfig
    shared = "meme"

    def adopts(self) -> Collection[str]:
        return ("meme",)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("mutual", self.loss, trains=("model", "meme"))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """The sum of both losses. Each reaches only its own network.

        local: α·CE + (1−α)·KL(meme ‖ local); meme: β·CE + (1−β)·KL(local ‖ meme).
        """
        local, meme = nets.model(batch.x), nets["meme"](batch.x)
        alpha, beta = self.config.alpha, self.config.beta
        of_local = alpha * recorded_cross_entropy(local, batch.y) + (1 - alpha) * divergence(meme, local)
        of_meme = beta * own_cross_entropy(meme, batch.y) + (1 - beta) * divergence(local, meme)
        return of_local + of_meme
