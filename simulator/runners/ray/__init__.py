"""Clients on Ray: engine, store, and aggregation stay in this process, and actors compute the clients."""

from simulator.runners.ray.runner import RayRunner

__all__ = ["RayRunner"]
