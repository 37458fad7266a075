"""Clients on Ray: engine, store, and aggregation stay in this process, and actors compute the clients.

Ray is imported only by a run that uses it.
"""

from simulator.runners.ray.runner import RayRunner

__all__ = ["RayRunner"]
