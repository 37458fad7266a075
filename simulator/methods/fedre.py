"""FedRE: Yao et al., "FedRE: A Representation Entanglement Framework for Model-Heterogeneous Federated Learning",
CVPR 2026.

Server state: `head/weight` [C, K], `head/bias` [C], the global classifier. Client state: only the model.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.sections import Choice, Log, MethodConfig
from simulator.base.tensors import Tensors
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Uplink, register
from simulator.methods.lg_fedavg import LGFedAvg
from simulator.methods.means import rows_of, shuffled
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, WeightedBatch
from simulator.training.trainer import CentralServer


class FedREConfig(MethodConfig, space={"server_lr": Log(0.001, 0.5), "server_epochs": Choice((1, 2, 5))}):
    """Hyper-parameters of FedRE."""

    server_lr: float = Field(0.01, gt=0, description="learning rate of the global classifier")
    server_epochs: int = Field(1, ge=1, description="passes over the received representations")
    server_batch: int = Field(32, ge=1, description="representations in a server step")


@register("fedre")
class FedRE(LGFedAvg):
    """Each client sends one random mixture of its class means, and the mixture of their labels."""

    card = Card(
        title="FedRE",
        paper="Yao et al. 2026, CVPR",
        kind="representations",
        needs="the same head on every client",
        down="head",
        up="one mixed feature, shares of labels",
        stale="counts less in the server's loss",
        partial=COUNTS_FULLY,
    )
    config: FedREConfig

    def uplink(self, local: LocalClient) -> Tensors:
        """Σ_s r_s R̄_s over the client's classes s, with random shares r that sum to 1."""
        means, labels = local.class_means()
        shares = torch.rand(len(labels), generator=local.stream("shares")).to(means)
        shares = shares / shares.sum()
        return {"feature": shares @ means, "shares": shares, "labels": labels}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return Aggregated(dict(server), {})

    def server_networks(self) -> Mapping[str, nn.Module]:
        head = self.federation.architecture_of(self.federation.clients[0]).head
        return {"head": nn.Linear(head.in_features, head.out_features)}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Shuffled batches of mixed features [B, K] and of the shares of all classes [B, C], epoch by epoch."""
        x = torch.stack([payload["feature"] for _, payload in uplinks])
        none = x.new_zeros(self.federation.num_classes)
        y = torch.stack([none.index_put((sent["labels"].long(),), sent["shares"]) for _, sent in uplinks])
        stale = any(uplink.weight != 1 for uplink in uplinks)
        weights = torch.tensor([uplink.weight for uplink in uplinks], device=x.device) if stale else None
        places = shuffled(server, len(x), self.config.server_batch, self.config.server_epochs)
        batches, lr = [rows_of(x, y, weights, rows) for rows in places], self.config.server_lr
        return [Phase("server", self.server_loss, trains=("head",), lr=lr, optimizer="sgd", batches=batches)]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Σ_k Σ_s r_s CE(θ(R̃_k), s), a sum over the batch as in the released code. A stale one counts by its weight."""
        losses = F.cross_entropy(nets["head"](batch.x), batch.y, reduction="none")
        return (losses * batch.weight if isinstance(batch, WeightedBatch) else losses).sum()
