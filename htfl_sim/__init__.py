"""htfl-sim from Python: run, resume, branch, and read federations of different models.

    import htfl_sim as hs

    cfg = hs.preset("fedlora_htm5", dataset="fashion_mnist", rounds=100).with_(method__mu=0.7)
    run = hs.run(cfg, "sessions/nb", until=10)       # the session stays open: run.run(until=20) continues
    run.records(), run.clients(), run.partition()    # pandas data frames
    net = run.model(client=3, round=10)              # a torch module with its weights
    fork = run.fork("sessions/ssa", at=10, method="fedssa").run()
    t3 = hs.sweep("t3", cfg, over={"method": ["fedgh", "fedssa"], "seed": range(3)})
    t3.table(by="method", target=0.9).to_latex(); t3.plot(x="bytes", by="method").savefig("fig.pdf")
    hs.open("sessions/nb").records()                 # read-only, without torch, also while another process runs it

Names are loaded on first use: reading sessions needs no torch. Errors that a user can correct are in `hs.errors`. Most
are subclasses of `hs.HtflError`, and their message says what to do. Every command has its function here: the functions
above for runs and studies, `hs.sessions` and `hs.steering` for single sessions, `hs.compare`, `hs.plot`, and
`hs.report` for several, `hs.catalog` for presets, methods, models, and data sets, and `hs.analysis` for the numbers
that the app draws.
"""

import importlib
from typing import TYPE_CHECKING, Any

from htfl_sim import rooms

if TYPE_CHECKING:
    from htfl_sim import analysis, catalog, errors, folders, machine, sessions, steering, studies
    from htfl_sim.comparing import compare, gains, pivot, plot, report, variance
    from htfl_sim.configuring import config, load_files, plugin, preset
    from htfl_sim.results import Results, open
    from htfl_sim.running import Run, fork, resume, run
    from htfl_sim.studies import Study, sweep
    from htfl_sim.tuning import tune
    from simulator.base.errors import ConfigError, DataError, HtflError, SessionError
    from simulator.config import Config
    from simulator.methods.base import Method
    from simulator.methods.registry import register

_NAMES = {
    "htfl_sim.comparing": ("compare", "gains", "pivot", "plot", "report", "variance"),
    "htfl_sim.configuring": ("config", "load_files", "plugin", "preset"),
    "htfl_sim.results": ("Results", "open"),
    "htfl_sim.running": ("Run", "fork", "resume", "run"),
    "htfl_sim.studies": ("Study", "sweep"),
    "htfl_sim.tuning": ("tune",),
    "simulator.base.errors": ("ConfigError", "DataError", "HtflError", "SessionError"),
    "simulator.config": ("Config",),
    "simulator.methods.base": ("Method",),
    "simulator.methods.registry": ("register",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
"""The module of each public name."""
_MODULES = ("analysis", "catalog", "errors", "folders", "machine", "sessions", "steering", "studies")
"""Public modules with more functions, by topic."""

__all__ = [
    "Config", "ConfigError", "DataError", "HtflError", "Method", "Results", "Run", "SessionError",
    "Study", "analysis", "catalog", "compare", "config", "errors", "folders", "fork", "gains",
    "load_files", "machine", "open", "pivot", "plot", "plugin", "preset", "register", "report", "resume",
    "run", "sessions", "steering", "studies", "sweep", "tune", "variance",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'htfl_sim' has no attribute '{name}'; it has {', '.join(__all__)}")
    rooms.check()
    if name in _MODULES:
        return importlib.import_module(f"htfl_sim.{name}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
