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
    from simulator.builder import build
    from simulator.config import Config
    from simulator.data.datasets import data_folder
    from simulator.errors import ConfigError, DataError, HtflError, SessionError
    from simulator.sessions.forking import Fork, fork
    from simulator.sessions.session import RunOutcome, Session

_HOMES = {
    "Config": "simulator.config",
    "ConfigError": "simulator.errors",
    "DataError": "simulator.errors",
    "Fork": "simulator.sessions.forking",
    "HtflError": "simulator.errors",
    "RunOutcome": "simulator.sessions.session",
    "Session": "simulator.sessions.session",
    "SessionError": "simulator.errors",
    "build": "simulator.builder",
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
