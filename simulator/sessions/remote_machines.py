"""The machines beside this one on which a session's clients are computed, as its events tell of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from checkpoints import Store
from simulator.engine.round import Engine
from simulator.runners import RemoteMachine


@dataclass(frozen=True)
class RemoteMachines:
    """Those that were got hold of."""

    found: Sequence[RemoteMachine]

    @property
    def differences(self) -> list[str]:
        """What of them gives other bits than this machine's, as 'node b: torch 2.6 → 2.7'."""
        return [f"node {place.node}: {each}" for place in self.found for each in place.inexact]

    def record(self, store: Store, round: int) -> None:
        """Tell of them, if there are any: how many clients are at work on each at a time, and its environment."""
        if self.found:
            store.event("nodes", round=round, nodes=[asdict(place) for place in self.found])


def opened(engine: Engine, allow_inexact: bool) -> RemoteMachines:
    """Get hold of them. Raises ConfigError or DataError where they cannot be had, or are refused."""
    return RemoteMachines(engine.open(exact=not allow_inexact))
