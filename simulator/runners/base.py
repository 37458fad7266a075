"""What carries out the clients' work: the vocabulary that runners and the engine share."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.federation import ClientInfo
from simulator.tensors import Tensors


@dataclass(frozen=True)
class LocalUpdate:
    """What one client brings out of a round."""

    client: ClientInfo
    tensors: Tensors
    """The client's new state."""
    uplink: Tensors
    losses: Mapping[str, float]
    """Mean training loss over all steps of each phase, weighted by batch size; empty in a round without training."""
    finite: bool
    """Whether all numbers it would keep or send are finite: no loss shows what the last step did."""
    flops: int

    @property
    def diverged(self) -> str | None:
        """The phase after which a loss, a weight or the uplink was no longer finite, if any."""
        lost = [phase for phase, loss in self.losses.items() if not math.isfinite(loss)]
        return next(iter(lost), None if self.finite else next(reversed(list(self.losses)), "uplink"))


Decision = Literal["go", "hold", "leave"]
"""Whether the next client may start: yes; not now, ask again; no more in this round."""
Gate = Callable[[Sequence[LocalUpdate], int], Decision]
"""Asked between clients, with the updates finished so far and the number of clients at work."""

POLL_SECONDS = 0.1
"""How long the gate goes unasked while no client finishes."""


class RoundInterrupted(Exception):
    """The gate ended a round before all its clients had trained; `updates` are those that had."""

    def __init__(self, updates: Sequence[LocalUpdate]) -> None:
        super().__init__(f"left after {len(updates)} clients")
        self.updates = updates


def always_go(finished: object, running: int) -> Decision:
    """A gate that is always open."""
    return "go"
