"""The methods, one file each. A method's file is imported when something computes with it.

So a new method needs only a new file, and listings need no torch.
"""

from typing import TYPE_CHECKING, Any

from simulator.methods.declarations import BY_ITS_STEPS, COUNTS_FULLY, MOVES_LESS, Card
from simulator.methods.registry import declared, get, names, register

if TYPE_CHECKING:
    from simulator.methods.base import Aggregated, Method, Uplink

__all__ = ["Aggregated", "Card", "Method", "Uplink", "declared", "get", "names", "register"]
__all__ += ["BY_ITS_STEPS", "COUNTS_FULLY", "MOVES_LESS"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from simulator.methods import base

    return getattr(base, name)
