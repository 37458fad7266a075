"""What carries out the work of clients and server: one small interface, and a file for each way to do it."""

from simulator.runners import parallel, sequential, stacked
from simulator.runners.base import (
    POLL_SECONDS,
    Decision,
    Gate,
    Job,
    Jobs,
    LocalUpdate,
    RoundInterrupted,
    Runner,
    always_go,
    get,
    names,
    register,
)

__all__ = [
    "POLL_SECONDS",
    "Decision",
    "Gate",
    "Job",
    "Jobs",
    "LocalUpdate",
    "RoundInterrupted",
    "Runner",
    "always_go",
    "get",
    "names",
    "parallel",
    "register",
    "sequential",
    "stacked",
]
