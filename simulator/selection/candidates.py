"""What a strategy knows of a client that it can select."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Strategy = Callable[[Sequence["Candidate"], int, int, np.random.Generator], Sequence[int]]
"""(candidates, number, round, draws) → the ids of so many of them."""


@dataclass(frozen=True)
class Candidate:
    """A client that is available and not at work. Its past is that before the round."""

    id: int
    architecture: str
    samples: int
    classes: tuple[int, ...]
    rounds: int = 0
    """How often it was sent off."""
    last: int | None = None
    """The round in which the server last received its result. None: never."""
    loss: float | None = None
    """Its mean training loss then."""
    seconds: float | None = None
    """The simulated seconds of its last dispatch that has ended. None without a clock."""
    stays: float = math.inf
    """The simulated seconds until it leaves."""
