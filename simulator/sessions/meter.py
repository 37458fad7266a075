"""What a run takes of the machine, as its own process sees it: looked at between clients, in some 0.1 ms."""

import time
from typing import Any

import psutil
import torch

from simulator.base.record import Taken

LOOK_SECONDS = 0.5
"""Least time between two looks at how busy the processors are."""
_MIB = 1 << 20


class Meter:
    """Processor time and memory of this process, all its threads, and the memory of its tensors on a GPU.

    The most memory of a round is what Linux counted, where the process has never had as much before; else the most that
    was seen. A GPU's own count misses nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self._gpu = device if device.type == "cuda" else None
        self._process = psutil.Process()
        self._looked, self._used = time.perf_counter(), self._processor_seconds()
        self._before, self._highest, self._ever = self._used, 0, 0

    def begin(self) -> None:
        """A round begins."""
        self._before, self._highest, self._ever = self._processor_seconds(), self._memory(), most_ever()
        if self._gpu is not None:
            torch.cuda.reset_peak_memory_stats(self._gpu)

    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.perf_counter() - self._looked >= LOOK_SECONDS

    def now(self) -> dict[str, Any]:
        """memory: bytes, to the MiB; cpu: processors at work since the last look; gpu_memory: bytes of tensors."""
        looked, used, memory = time.perf_counter(), self._processor_seconds(), self._memory()
        busy = (used - self._used) / max(looked - self._looked, 1e-6)
        self._looked, self._used, self._highest = looked, used, max(self._highest, memory)
        found: dict[str, Any] = {"memory": memory // _MIB * _MIB, "cpu": round(busy, 1)}
        if self._gpu is not None:
            found["gpu_memory"] = torch.cuda.memory_allocated(self._gpu)
        return found

    def of_round(self) -> Taken:
        """Of the round so far, as the ledger's `timing` has it: cpu, in seconds, and the most memory, in bytes."""
        ever = most_ever()
        self._highest = max(self._highest, self._memory(), ever if ever > self._ever else 0)
        found: Taken = {
            "cpu": round(self._processor_seconds() - self._before, 2),
            "memory": self._highest,
        }
        if self._gpu is not None:
            found["gpu_memory"] = torch.cuda.max_memory_allocated(self._gpu)
        return found

    def _processor_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _memory(self) -> int:
        return int(self._process.memory_info().rss)


def most_ever() -> int:
    """The most bytes that this process has had in memory so far; 0 where the system does not say, as Linux does.

    Not `getrusage`: its figure begins with what the process had that started this one.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            kibibytes = next((line.split()[1] for line in file if line.startswith("VmHWM:")), "0")
    except OSError:
        return 0
    return int(kibibytes) * 1024
