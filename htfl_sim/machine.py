"""Check what this machine offers to a run, and what is missing."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from htfl_sim import folders
from simulator.base.extras import install_command, library
from simulator.base.units import size
from simulator.studies.executor import Process

__all__ = ["Check", "Process", "doctor", "library"]

Place = str | Path


@dataclass(frozen=True)
class Check:
    """One result: present, missing but not required, or a fault that stops a run."""

    what: str
    status: Literal["ok", "missing", "fault"]
    detail: str


EXTRAS = {
    "optuna": ("tune", "tune with --sampler random, grid, or tpe"),
    "textual_serve": ("serve", "tui --serve"),
    "ray": ("ray", "sweep --on ray and the runner ray"),
    "datasets": ("hf", "--dataset hf:OWNER/NAME"),
    "pyarrow": ("parquet", "tables in Parquet files"),
    "tensorboard": ("tensorboard", "export --to tensorboard"),
    "wandb": ("wandb", "export --to wandb"),
    "mlflow": ("mlflow", "export --to mlflow"),
}
"""Optional packages: the extra that installs each, and what needs it."""


def doctor(sessions_dir: Place | None = None, data_dir: Place | None = None) -> list[Check]:
    """Check versions, optional packages, cores, memory, CUDA, data sets, the folder of sessions, and free space."""
    return [*_installed(), *_hardware(), *_data(data_dir), *_disk(sessions_dir)]


def _installed() -> Iterator[Check]:
    yield Check("htfl-sim", "ok", version("htfl-sim"))
    yield Check("python", "ok", f"{platform.python_version()} ({sys.executable})")
    for package in ("torch", "torchvision", "safetensors"):
        try:
            yield Check(package, "ok", version(package))
        except PackageNotFoundError:
            yield Check(package, "fault", f"not installed; run: pip install {package}")
    for package, (extra, use) in EXTRAS.items():
        if importlib.util.find_spec(package):
            yield Check(package, "ok", version(package))
        else:
            yield Check(package, "missing", f"needed for {use}; run: {install_command(extra, package)}")


def _hardware() -> Iterator[Check]:
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Check("cores", "ok", f"{usable} usable, {platform.machine()}")
    memory = psutil.virtual_memory()
    yield Check("memory", "ok", f"{size(memory.available)} free of {size(memory.total)}")
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Check("cuda", "fault", f"torch cannot be loaded: {error}")
        return
    if torch.cuda.is_available():
        found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        named = ", ".join(f"{each.name} ({size(each.total_memory)})" for each in found)
        yield Check("cuda", "ok", named)
    else:
        yield Check("cuda", "missing", "no CUDA device; runs use the CPU")


def _data(data_dir: Place | None) -> Iterator[Check]:
    from simulator.data import datasets

    folder = datasets.data_folder(None if data_dir is None else str(data_dir))
    for name in datasets.names():
        dataset = datasets.get(name)
        if not dataset.is_present(folder):
            yield Check(f"data {name}", "missing", f"not in {folder}; get it: htfl-sim data fetch {name}")
            continue
        files = dataset.files(folder)
        yield Check(f"data {name}", "ok", str(files[0].parent) if files else "comes with a dependency")


def _disk(sessions_dir: Place | None) -> Iterator[Check]:
    folder = folders.sessions_dir(sessions_dir).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        yield Check("sessions folder", "fault", f"{folder} cannot be written: {error.strerror}")
    else:
        yield Check("sessions folder", "ok", f"{folder} can be written")
    yield Check("disk", "ok", f"{size(shutil.disk_usage(there).free)} free for sessions")
