"""Clients on Ray: the engine, the store and the aggregation stay in this process, the clients' work is done by actors.

Ray itself is loaded when a run asks for it, and not before.
"""

from simulator.runners.ray.runner import RayRunner

__all__ = ["RayRunner"]
