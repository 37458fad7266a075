"""The methods, one file each. Every module of this folder is imported, so a new method needs only a new file."""

import importlib
import pkgutil

from simulator.methods.base import Aggregated, Card, Method, Uplink
from simulator.methods.registry import get, names, register

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Aggregated", "Card", "Method", "Uplink", "get", "names", "register"]
