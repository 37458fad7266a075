"""The facts that a result's bits depend on besides configuration and data: versions, machine, libraries, threads."""

import os
import platform
import re
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

COMPARED = ("htfl-sim", "torch", "numpy", "libraries", "modes", "device", "cpu", "threads_per_client")
"""The facts that can change results. The others are recorded to help find causes."""
MODES = (
    *(f"{name}_MAX_CPU_ISA" for name in ("ONEDNN", "DNNL")),
    *(f"{name}_CPU_ISA_HINTS" for name in ("ONEDNN", "DNNL")),
    *(f"{name}_DEFAULT_FPMATH_MODE" for name in ("ONEDNN", "DNNL")),
    *("MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_DYNAMIC", "OPENBLAS_CORETYPE"),
    *("ATEN_CPU_CAPABILITY", "TORCH_MKLDNN_MATMUL_MIN_DIM", "CUBLAS_WORKSPACE_CONFIG"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
)
"""Variables that make oneDNN, MKL, OpenBLAS, torch, and CUDA choose other kernels, which sum in another way."""


def environment(device: torch.device, threads_per_client: int) -> dict[str, Any]:
    """The facts a session records when it is made and compares when it is resumed."""
    return {
        "htfl-sim": version("htfl-sim"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "safetensors": version("safetensors"),
        "libraries": _libraries(),
        "modes": " ".join(f"{name}={os.environ[name]}" for name in MODES if os.environ.get(name)) or "none",
        "device": _device_name(device),
        "cpu": _cpu_model(),
        "threads_per_client": threads_per_client,
    }


def inexact(recorded: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """The differences after which results are no longer bit-identical, such as 'torch 2.6 → 2.7'.

    Facts that an earlier version did not record are not compared. For a run on a GPU, the CPU is not compared.
    """
    on_cpu = str(present["device"]).startswith("cpu")
    return [
        f"{fact} {recorded[fact]} → {present[fact]}"
        for fact in COMPARED
        if fact in recorded and recorded[fact] != present[fact] and (fact != "cpu" or on_cpu)
    ]


def _libraries() -> str:
    """torch's numeric libraries in its own report, such as 'MKL 2024.2, oneDNN 3.5.3 (66f0cb9)'."""
    built = torch.__config__.show()
    mkl = re.search(r"Math Kernel Library Version (\S+)", built)
    onednn = re.search(r"(?:MKL-DNN|oneDNN) v(\S+)(?: \(Git Hash ([0-9a-f]{7}))?", built)
    blas = re.search(r"\bBLAS_INFO=(\w+)", built)
    found = [
        f"MKL {mkl[1]}" if mkl else f"BLAS {blas[1]}" if blas else "",
        f"oneDNN {onednn[1]}" + (f" ({onednn[2]})" if onednn[2] else "") if onednn else "",
        "" if torch.backends.mkldnn.is_available() else "oneDNN off",
    ]
    return ", ".join(filter(None, found)) or "none"


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, "") or platform.machine()
    except OSError:  # not on Linux
        return platform.processor() or platform.machine()


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
