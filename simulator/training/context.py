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
