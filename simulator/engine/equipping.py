"""The devices of a federation's clients, by the section `system`."""

from collections.abc import Sequence

from simulator.base.system_section import SystemConfig
from simulator.clock.availability import Availability, availability
from simulator.clock.devices import ClientFacts, assigned
from simulator.models.federation import Federation

PER_WEIGHT = 4 * 4
"""Estimated bytes of training per weight: the weight, its gradient, and two values of an optimizer, as float32."""


def facts(federation: Federation, times: Availability) -> Sequence[ClientFacts]:
    """The facts about each client on which its device may depend."""
    weights = federation.parameters
    return [
        ClientFacts(
            id=client.id,
            architecture=client.architecture,
            parameters=weights[client.architecture],
            memory=PER_WEIGHT * weights[client.architecture],
            train_size=client.samples,
            available=times.share(client.id),
        )
        for client in federation.clients
    ]


def equipped(federation: Federation, system: SystemConfig) -> Federation:
    """The same federation, whose clients have devices. Raises ConfigError for devices that cannot be given."""
    times = availability(system, len(federation.clients), federation.seed)
    return federation.with_devices(assigned(system, facts(federation, times), federation.seed))
