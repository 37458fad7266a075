"""HeteroAvg, heterogeneous aggregation: Chan et al., "Internal Cross-layer Gradients for Extending Homogeneity to
Heterogeneity in Federated Learning" (InCo Aggregation), ICLR 2024, §3.1.

Server state: `ARCHITECTURE/…`, one model w of the clients' largest architecture. Client state: only the model.
"""

from collections.abc import Sequence

from pydantic import Field

from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, named
from simulator.methods import COUNTS_FULLY, Card, Uplink, needs, register
from simulator.methods.fedavg import FedAvg
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient


class HeteroAvgConfig(MethodConfig):
    """An option of the released code, for its transformers."""

    per_epoch: bool = Field(
        False, description="send updates divided by the local epochs, as the released code does for ViTs"
    )


@register("heteroavg")
class HeteroAvg(FedAvg):
    """w_l ← mean of w_{l,k} over the participants that have layer l. Before another base, it gives it nested models."""

    card = Card(
        title="HeteroAvg",
        paper="Chan et al. 2024, ICLR",
        kind="weights",
        needs="nested architectures",
        down="the client's layers of the server model",
        up="the client's layers",
        partial=COUNTS_FULLY,
    )
    config: HeteroAvgConfig

    def unmet_need(self) -> str | None:
        return needs.nested(self.federation)

    def server_model(self, client: ClientInfo) -> str:
        return self.federation.largest

    def uplink(self, local: LocalClient) -> Tensors:
        """The base method's uplink. `per_epoch` divides every update, and every difference from the downlink, by E."""
        sent = super().uplink(local)
        if not self.config.per_epoch:
            return sent
        [phase] = self.phases(local)
        epochs = local.epochs(phase)
        trained = set(named("model", dict(local.nets.model.named_parameters())))
        return {
            name: local.received[name] + (tensor - local.received[name]) / epochs
            if name in trained
            else tensor / epochs
            if name.startswith("update/")
            else tensor
            for name, tensor in sent.items()
        }

    def shares(self, holders: Sequence[Uplink]) -> list[float]:
        """The plain mean."""
        return [1 / len(holders)] * len(holders)
