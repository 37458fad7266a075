"""LG-FedAvg: Liang et al., "Think Locally, Act Globally: Federated Learning with Local and Global
Representations", 2020.

Server state: `head/weight` [C, K], `head/bias` [C]. Client state: only the model.
"""

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from simulator.base.tensors import Tensors, named, of_module, part
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.means import averaged
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient


@register("lg_fedavg")
class LGFedAvg(Method):
    """The head is global, and the features are local: head ← Σ n_k/n · head_k."""

    card = Card(
        title="LG-FedAvg",
        paper="Liang et al. 2020",
        kind="head",
        needs="the same head on every client",
        down="head",
        up="head",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )

    def unmet_need(self) -> str | None:
        return needs.same_head(self.federation)

    def init_server(self) -> Tensors:
        return named("head", of_module(self.federation.shared_head()))

    def adopts(self) -> Collection[str]:
        return ("head",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return dict(server)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets.model.head.load_state_dict(part(payload, "head"))

    def uplink(self, local: LocalClient) -> Tensors:
        return named("head", of_module(local.nets.model.head))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return averaged(server, uplinks)
