"""FedRolex: Alam, Liu, Yan, Zhang, "FedRolex: Model-Heterogeneous Federated Learning with Rolling Sub-Model
Extraction", NeurIPS 2022, Algorithm 1.

HeteroFL with moving parts. In round t, counted from 0, a client of width r has ⌈K·r⌉ of a layer's K units, from unit
t mod K on and from unit 0 after the last. So narrow clients train every weight, too. Server state, client state, and
payloads are HeteroFL's.
"""

from dataclasses import replace

from simulator.methods import register
from simulator.methods.heterofl import HeteroFL


@register("fedrolex")
class FedRolex(HeteroFL):
    """HeteroFL with parts that move by one unit per round."""

    card = replace(HeteroFL.card, title="FedRolex", paper="Alam et al. 2022, NeurIPS")

    def first(self, round: int, units: int) -> int:
        return (round - 1 - self.federation.begun) % units
