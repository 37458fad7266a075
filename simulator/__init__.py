"""htfl-sim: simulate heterogeneous federated learning.

    >>> import simulator
    >>> config = simulator.Config.read({"method": {"name": "fedlora"}, "rounds": 5})
    >>> with simulator.Session.create(config, Path("sessions/mine"), simulator.data_folder(None)) as session:
    ...     session.run()

Names are loaded when first used, so that reading a configuration or a session's files does not load torch.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.base.errors import ConfigError, DataError, HtflError, SessionError
    from simulator.config import Config
    from simulator.data.datasets import data_folder
    from simulator.engine.builder import build
    from simulator.sessions.forking import Fork, fork
    from simulator.sessions.session import RunOutcome, Session

_HOMES = {
    "Config": "simulator.config",
    "ConfigError": "simulator.base.errors",
    "DataError": "simulator.base.errors",
    "Fork": "simulator.sessions.forking",
    "HtflError": "simulator.base.errors",
    "RunOutcome": "simulator.sessions.session",
    "Session": "simulator.sessions.session",
    "SessionError": "simulator.base.errors",
    "build": "simulator.engine.builder",
    "data_folder": "simulator.data.datasets",
    "fork": "simulator.sessions.forking",
}

_FORMER = {
    "simulator.errors": "simulator.base.errors",
    "simulator.federation": "simulator.models.federation",
    "simulator.rng": "simulator.base.rng",
    "simulator.sections": "simulator.base.sections",
    "simulator.tensors": "simulator.base.tensors",
}
"""Modules that users' methods import, by their names up to 1.0: a session keeps the hash of such a file, so the file
must work without an edit."""

__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "Fork",
    "HtflError",
    "RunOutcome",
    "Session",
    "SessionError",
    "build",
    "data_folder",
    "fork",
]


class _Former(MetaPathFinder, Loader):
    """Gives a module under its former name what the module has today."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _FORMER else None

    def exec_module(self, module: ModuleType) -> None:
        today = vars(importlib.import_module(_FORMER[module.__name__]))
        vars(module).update({name: each for name, each in today.items() if not name.startswith("__")})


sys.meta_path.append(_Former())


def __getattr__(name: str) -> Any:
    if (former := f"{__name__}.{name}") in _FORMER:
        return importlib.import_module(former)
    if name not in _HOMES:
        raise AttributeError(f"module 'simulator' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
