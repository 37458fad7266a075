"""htfl-sim from Python: federations of different models, run, resumed, branched and read.

    import htfl_sim as hs

    cfg = hs.preset("fedlora_htm5", dataset="fashion_mnist", rounds=100).with_(method__mu=0.7)
    run = hs.run(cfg, "sessions/nb", until=10)       # the session stays open: run.run(until=20) goes on
    run.records(), run.clients(), run.partition()    # pandas data frames
    net = run.model(client=3, round=10)              # a torch module with its weights
    fork = run.fork("sessions/ssa", at=10, method="fedssa").run()
    t3 = hs.sweep("t3", cfg, over={"method": ["fedgh", "fedssa"], "seed": range(3)})
    t3.table(by="method", target=0.9).to_latex(); t3.plot(x="bytes", by="method").savefig("fig.pdf")
    hs.open("sessions/nb").records()                 # read-only, without torch, also while another process runs it

Names are loaded when first used: reading sessions needs no torch. What a user can mend is raised as `hs.HtflError`, or
as a subclass that says more, with a sentence that says how.
"""

import importlib
from typing import TYPE_CHECKING, Any

from htfl_sim import rooms

if TYPE_CHECKING:
    from htfl_sim.configuring import config, plugin, preset
    from htfl_sim.results import Results, open
    from htfl_sim.running import Run, fork, resume, run
    from htfl_sim.studying import Study, sweep
    from simulator.config import Config
    from simulator.errors import ConfigError, DataError, HtflError, SessionError
    from simulator.methods.base import Method
    from simulator.methods.registry import register

_HOMES = {
    "Config": "simulator.config",
    "ConfigError": "simulator.errors",
    "DataError": "simulator.errors",
    "HtflError": "simulator.errors",
    "Method": "simulator.methods.base",
    "Results": "htfl_sim.results",
    "Run": "htfl_sim.running",
    "SessionError": "simulator.errors",
    "Study": "htfl_sim.studying",
    "config": "htfl_sim.configuring",
    "fork": "htfl_sim.running",
    "open": "htfl_sim.results",
    "plugin": "htfl_sim.configuring",
    "preset": "htfl_sim.configuring",
    "register": "simulator.methods.registry",
    "resume": "htfl_sim.running",
    "run": "htfl_sim.running",
    "sweep": "htfl_sim.studying",
}
"""Where each public name lives."""

__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "HtflError",
    "Method",
    "Results",
    "Run",
    "SessionError",
    "Study",
    "config",
    "fork",
    "open",
    "plugin",
    "preset",
    "register",
    "resume",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'htfl_sim' has no attribute '{name}'; it has {', '.join(__all__)}")
    rooms.check()
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
