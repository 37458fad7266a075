"""htfl-sim: simulate heterogeneous federated learning.

    >>> import simulator
    >>> config = simulator.Config.read({"method": {"name": "fedlora"}, "rounds": 5})
    >>> with simulator.Session.create(config, Path("sessions/mine"), simulator.data_folder(None)) as session:
    ...     session.run()

Names are loaded when first used, so that reading a configuration or a session's files does not load torch.
"""

import importlib
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'simulator' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
