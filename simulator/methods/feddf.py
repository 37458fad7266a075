"""FedDF: Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020, Algorithms 1
and 3.

Clients are those of FedAvg. The server averages each group of one architecture, and then trains each average to answer
as the ensemble of all received models does on public samples.

Server state: `ARCHITECTURE/…`, one model x^P per group, after distillation. Client state: only the model.
"""

import copy
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from pydantic import Field
from torch import Tensor, nn

from simulator.base.sections import Choice, Log, MethodConfig
from simulator.base.tensors import part
from simulator.methods import COUNTS_FULLY, Card, Uplink, needs, register
from simulator.methods.fedavg import FedAvg
from simulator.methods.means import divergence
from simulator.training import public
from simulator.training.client import REPRESENTATION_BATCH
from simulator.training.phase import Batch, Draws, Nets, Phase
from simulator.training.trainer import CentralServer


class FedDFConfig(
    MethodConfig, space={"server_steps": Choice((50, 200, 1000)), "server_lr": Log(1e-4, 1e-2)}
):
    """Hyper-parameters of the distillation."""

    server_steps: int = Field(200, ge=1, description="N, steps of the distillation of each group in a round")
    server_batch: int = Field(128, ge=2, description="public samples in a step")
    server_lr: float = Field(
        1e-3, gt=0, description="learning rate of the first step (Adam); it falls to nearly 0 along a cosine"
    )


@register("feddf")
class FedDF(FedAvg):
    """FedAvg whose averages learn from the ensemble of all received models."""

    card = Card(
        title="FedDF",
        paper="Lin et al. 2020, NeurIPS",
        kind="weights",
        needs="public samples (data.public); groups of one architecture average apart",
        down="model",
        up="model",
        partial=COUNTS_FULLY,
    )
    config: FedDFConfig

    def unmet_need(self) -> str | None:
        for client in self.federation.of_each:
            if "." in client.architecture:
                return (
                    f"needs names of models without a dot, which the server's networks cannot have: {client}"
                )
        return needs.public_samples(self.federation, "the server distills on them")

    def server_networks(self) -> Mapping[str, nn.Module]:
        return {name: copy.deepcopy(self.federation.architectures[name]) for name in self.server_models()}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Distillation of every group with a participant, from x_{t,0}^P, which `aggregate` has averaged (line 11)."""
        steps, size = self.config.server_steps, self.config.server_batch
        samples = server.public.of_round(server.round, steps * size)  # no more than the steps can show
        teacher = {"teacher": self.ensemble(server, uplinks, samples)}
        present = dict.fromkeys(uplink.client.architecture for uplink in uplinks)
        return [
            Phase(
                f"distill/{name}",
                partial(self.loss, name),
                trains=(name,),
                lr=self.config.server_lr,
                anneals=True,
                optimizer="adam",
                batches=public.shuffled(server, f"distill/{name}", samples, size, steps=steps),
                state=teacher,
            )
            for name in self.server_models()
            if name in present
        ]

    @torch.no_grad()
    def ensemble(self, server: CentralServer, uplinks: Sequence[Uplink], samples: Tensor) -> Tensor:
        """1/|S_t| · Σ_k f(x̂_k, d) over all participants, in client order: mean logits of these samples [n, C]."""
        total = torch.zeros(len(samples), self.federation.num_classes, device=samples.device)
        for client, payload in uplinks:
            server.add_network("teacher", self.federation.architecture_of(client), part(payload, "model"))
            server.nets.eval()
            logits = []
            for batch in public.in_order(server, samples, REPRESENTATION_BATCH):
                with server.step(f"teacher/{client.architecture}", len(batch.y)), server.precise():
                    logits.append(server.nets["teacher"](batch.x))
            total += torch.cat(logits)
        return total / len(uplinks)

    def loss(
        self, student: str, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws
    ) -> Tensor:
        """KL(σ(mean logits of the teachers) ‖ σ(logits of the student)), mean over the batch (AVGLOGITS)."""
        return divergence(state["teacher"][batch.y], nets[student](batch.x))
