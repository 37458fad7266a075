"""For how much of a stretch of time a CUDA device computes, by the trace of torch's profiler."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.ceilings import wait_for

Interval = tuple[float, float]
"""Begin and end."""


class Traced(NamedTuple):
    """What a trace says of some work, in seconds."""

    wall: float
    """From its beginning until the device was done."""
    kernels: float
    """For which at least one kernel ran."""
    launched: int
    """Kernels that ran."""

    @property
    def share(self) -> float:
        """Of the wall time, the part in which kernels ran."""
        return self.kernels / self.wall


def traced(work: Callable[[], object], device: torch.device) -> Traced:
    """Do the work under the profiler, which makes launches somewhat slower than they are without."""
    on_cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU]) as profiled:
        wait_for(device)
        began = time.perf_counter()
        work()
        wait_for(device)
        wall = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(path))
        ran = kernels(json.loads(path.read_text("utf-8")))
    return Traced(wall, covered(ran) / 1e6, len(ran))


def kernels(trace: Mapping[str, Any]) -> list[Interval]:
    """Begin and end of every kernel in a trace in Chrome's format, in microseconds. Copies are none."""
    return [
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") == "kernel"
    ]


def covered(intervals: Iterable[Interval]) -> float:
    """How long at least one of the intervals lasts: where they overlap, on several streams, time counts once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total
