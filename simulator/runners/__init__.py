"""Runners carry out the work of clients and server: one small interface (base), in this process or on Ray."""

from simulator.runners import in_process, ray
from simulator.runners.base import (
    POLL_SECONDS,
    Decision,
    Finished,
    Gate,
    Job,
    Jobs,
    Listener,
    LocalUpdate,
    RoundInterrupted,
    Runner,
    Work,
    always_go,
    carry_out,
    get,
    names,
    names_within,
    register,
)

__all__ = [
    "POLL_SECONDS",
    "Decision",
    "Finished",
    "Gate",
    "Job",
    "Jobs",
    "Listener",
    "LocalUpdate",
    "RoundInterrupted",
    "Runner",
    "Work",
    "always_go",
    "carry_out",
    "get",
    "in_process",
    "names",
    "names_within",
    "ray",
    "register",
]
