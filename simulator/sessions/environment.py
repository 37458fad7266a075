"""What a result's bits depend on besides configuration and data: versions, device, threads."""

import platform
from importlib.metadata import version
from typing import Any

import torch


def environment(device: torch.device, threads_per_client: int) -> dict[str, Any]:
    """The facts a session records when it is made and compares when it is resumed."""
    return {
        "htfl-sim": version("htfl-sim"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "safetensors": version("safetensors"),
        "device": _device_name(device),
        "threads_per_client": threads_per_client,
    }


def inexact(recorded: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """The differences after which results are no longer bit-identical, each as 'torch 2.6 → 2.7'."""
    return [
        f"{fact} {recorded.get(fact)} → {present[fact]}"
        for fact in ("torch", "device", "threads_per_client")
        if recorded.get(fact) != present[fact]
    ]


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
