"""The clients and data of a round, and what `federation.timeline` changes at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from simulator.base.record import Record
from simulator.data.federated import FederatedData
from simulator.methods.hooks import Hooks
from simulator.models.federation import Federation


@dataclass(frozen=True)
class Now:
    """Clients, data, and method as they are in a round."""

    federation: Federation
    data: FederatedData
    hooks: Hooks
    parts: Sequence[str]
    """The parts of the split whose metrics are recorded."""

    def at(self, round: int) -> "Now":
        """The same in another round."""
        federation = self.federation.at(round)
        if federation is self.federation:
            return self
        return Now(federation, self.data.at(round), self.hooks.at(round), self.parts)

    @cached_property
    def test_sizes(self) -> list[int]:
        """Test samples by client."""
        return [len(client.test) for client in self.data.clients]

    @cached_property
    def sizes(self) -> dict[str, list[int]]:
        """Samples by client, of each recorded part."""
        return {name: [len(client.part(name)) for client in self.data.clients] for name in self.parts}


@dataclass(frozen=True)
class Changes:
    """What changes at a round: clients, ascending."""

    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    data: tuple[int, ...] = ()

    @classmethod
    def of(cls, before: Now, now: Now) -> "Changes":
        """From one round to the next."""
        if before.federation is now.federation:
            return cls()
        were, are = before.federation.absent, now.federation.absent
        pairs = zip(before.data.clients, now.data.clients, strict=True)
        return cls(
            joined=tuple(sorted(were - are)),
            left=tuple(sorted(are - were)),
            data=tuple(client for client, (old, new) in enumerate(pairs) if old is not new),
        )

    def write(self, record: Record, present: int) -> None:
        """Add the changes to the record of the round, if there are any."""
        if self.joined or self.left or self.data:
            record["timeline"] = {
                "joined": list(self.joined),
                "left": list(self.left),
                "data": list(self.data),
                "present": present,
            }
