"""The values that all clients of a run share while they train."""

from dataclasses import dataclass

from simulator.data.federated import FederatedData
from simulator.models.federation import Federation
from simulator.training.flops import FlopCache


@dataclass(frozen=True)
class TrainingContext:
    """The federation, the data on the device, and the operations counted so far."""

    federation: Federation
    data: FederatedData
    flops: FlopCache

    def at(self, round: int) -> "TrainingContext":
        """The same as clients and data are in a round."""
        federation, data = self.federation.at(round), self.data.at(round)
        if federation is self.federation and data is self.data:
            return self
        return TrainingContext(federation, data, self.flops)
