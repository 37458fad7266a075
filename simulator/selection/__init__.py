"""Who takes part in a round: the strategies, and what the server knows of each client when it selects."""

from simulator.selection.history import Candidate, History, Past
from simulator.selection.selector import Selector

__all__ = ["Candidate", "History", "Past", "Selector"]
