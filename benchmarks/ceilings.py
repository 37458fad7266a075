"""What a device can reach: matrix products by precision, copies, and how many kernels a second it can be given.

Every function takes the device; on a CPU they say what the calling thread reaches.
"""

import time
from collections.abc import Callable

import torch

from simulator.training.precision import Precision, tf32_in_force

PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")


def seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Seconds for which so many calls of `work` keep the device busy, after one that is not timed."""
    work()
    wait_for(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    wait_for(device)
    return time.perf_counter() - began


def wait_for(device: torch.device) -> None:
    """Until the device has done all that it was given; a CPU has done so when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def products(device: torch.device, precision: Precision, side: int = 8192, repeats: int = 20) -> float:
    """Floating-point operations a second of products [side, side] · [side, side]."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    stream = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=stream).to(device, dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)
    with tf32_in_force(precision, device):
        return repeats * 2 * side**3 / seconds(device, lambda: torch.mm(a, b, out=out), repeats)


def copies(device: torch.device, size: int = 2**30, repeats: int = 20) -> float:
    """Bytes a second that the device reads and writes while it copies `size` bytes to another place of its own."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return repeats * 2 * size / seconds(device, lambda: target.copy_(source), repeats)


def departures(device: torch.device, size: int = 2**28, repeats: int = 20, *, pinned: bool) -> float:
    """Bytes a second on their way from the device to the host's memory, pinned or ordinary."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    target.zero_()  # so that all of it is there
    return repeats * size / seconds(device, lambda: target.copy_(source, non_blocking=pinned), repeats)


def launches(device: torch.device, repeats: int = 20_000) -> float:
    """Kernels a second that one thread can give the device: additions to a single number."""
    number = torch.zeros((), device=device)
    return repeats / seconds(device, lambda: number.add_(1), repeats)
