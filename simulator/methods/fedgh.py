"""FedGH: Yi et al., "FedGH: Heterogeneous Federated Learning with Generalized Global Header", MM 2023, Algorithm 1.

Server state: `head/weight` [C, K], the global header θ. By default, it has no bias, as the traffic in the paper's
Table 3 shows, and each client keeps its own bias. `bias` adds `head/bias` [C]. Client state: only the model.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from simulator.base.sections import Choice, Log, MethodConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.methods import COUNTS_FULLY, Card, Method, Uplink, needs, register
from simulator.methods.means import mean_cross_entropy, row_weights, rows_of, rows_sent, shuffled
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase
from simulator.training.trainer import CentralServer


class FedGHConfig(MethodConfig, space={"eta_theta": Log(0.001, 0.5), "server_epochs": Choice((1, 2, 5))}):
    """Hyper-parameters of FedGH, §5.1."""

    eta_theta: float = Field(0.01, gt=0, description="η_θ, learning rate of the global header")
    server_epochs: int = Field(1, ge=1, description="passes over the received representations")
    server_step: Literal["pair", "client", "batch"] = Field(
        "pair",
        description="one server step on a pair (representation, class), eq. 4, on all pairs of a client, or on a "
        "shuffled batch of training.batch_size pairs, as in HtFLlib",
    )
    bias: bool = Field(False, description="the header has a bias, which travels, as in the released codes")


@register("fedgh")
class FedGH(Method):
    """The server trains one header on the clients' class-averaged representations. Every client uses it."""

    card = Card(
        title="FedGH",
        paper="Yi et al. 2023, MM",
        kind="representations",
        needs="the same head on every client",
        down="head",
        up="class-mean features, labels",
        stale="counts less in the server's loss",
        partial=COUNTS_FULLY,
    )
    config: FedGHConfig

    def unmet_need(self) -> str | None:
        return needs.same_head(self.federation)

    def init_server(self) -> Tensors:
        head = of_module(self.federation.shared_head())
        return named("head", head if self.config.bias else {"weight": head["weight"]})

    def adopts(self) -> Collection[str]:
        return ("head",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return dict(server)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets.model.head.load_state_dict(part(payload, "head"), strict=False)  # eq. 5

    def uplink(self, local: LocalClient) -> Tensors:
        representations, labels = local.class_means()  # LARs, eq. 3
        return {"features": representations, "labels": labels}

    def server_networks(self) -> Mapping[str, nn.Module]:
        head = self.federation.architecture_of(self.federation.clients[0]).head
        return {"head": nn.Linear(head.in_features, head.out_features, self.config.bias)}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Eq. 4: θ ← θ − η_θ ∇ℓ(θ(R̄_k^s), s) for each participant k and each of its classes s in turn."""
        batches, lr = self._batches(server, uplinks), self.config.eta_theta
        return [Phase("server", self.server_loss, trains=("head",), lr=lr, optimizer="sgd", batches=batches)]

    def _batches(self, server: CentralServer, uplinks: Sequence[Uplink]) -> list[Batch]:
        """The batches of the server's steps, epoch by epoch."""
        epochs = self.config.server_epochs
        if self.config.server_step == "client":
            of_each = [(*rows_sent([each], "features"), row_weights([each], "labels")) for each in uplinks]
            return [rows_of(x, y, weights, slice(None)) for x, y, weights in of_each] * epochs
        (x, y), weights = rows_sent(uplinks, "features"), row_weights(uplinks, "labels")
        if self.config.server_step == "pair":
            return [rows_of(x, y, weights, slice(row, row + 1)) for row in range(len(y))] * epochs
        batches = shuffled(server, len(y), self.federation.training.batch_size, epochs)
        return [rows_of(x, y, weights, rows) for rows in batches]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ(θ(R̄), y) on representations R̄ [B, K] instead of samples. A stale one counts by its weight."""
        return mean_cross_entropy(nets["head"](batch.x), batch)
