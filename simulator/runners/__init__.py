"""What carries out the work of clients and server: one small interface, and a file for each way to do it."""

from simulator.runners import parallel, ray, sequential, stacked
from simulator.runners.base import (
    POLL_SECONDS,
    Decision,
    Gate,
    Job,
    Jobs,
    LocalUpdate,
    Place,
    RoundInterrupted,
    Runner,
    always_go,
    get,
    names,
    names_within,
    register,
)

__all__ = [
    "POLL_SECONDS",
    "Decision",
    "Gate",
    "Job",
    "Jobs",
    "LocalUpdate",
    "Place",
    "RoundInterrupted",
    "Runner",
    "always_go",
    "get",
    "names",
    "names_within",
    "parallel",
    "ray",
    "register",
    "sequential",
    "stacked",
]
