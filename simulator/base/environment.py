"""The code, versions, machine, and threads that a result's bits depend on. Importing this module imports no torch."""

import hashlib
import os
import platform
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import checkpoints

if TYPE_CHECKING:
    import torch

CODE = ("htfl-sim", "program", "methods", "torch", "torchvision", "timm", "numpy")
"""The facts about code. They do not depend on the machine."""
COMPARED = (*CODE, "libraries", "modes", "device", "cpu", "threads_per_client")
"""The facts that can change results. The others are recorded to help find causes."""
SAME_BITS = ("0.1.0",)
"""Earlier versions of htfl-sim to whose sessions this one gives the same bits (`simulator/sessions/history.py`)."""
MODEL_LIBRARIES = ("torchvision", "timm")
"""A session depends on these only if its models come from them."""
MODES = (
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"),
    *("MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_DYNAMIC", "OPENBLAS_CORETYPE"),
    *("ATEN_CPU_CAPABILITY", "TORCH_MKLDNN_MATMUL_MIN_DIM", "CUBLAS_WORKSPACE_CONFIG"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
)
"""Variables that make oneDNN, MKL, OpenBLAS, torch, and CUDA choose other kernels, which sum in another way."""


_SIMULATOR = Path(__file__).parents[1]
_STORE = Path(checkpoints.__file__).parent
_NO_BITS = ("results", "studies", "contract")
"""Rooms that read results, start runs, or test methods. They change no bit of a run."""
_ALL_METHODS = ("__init__", "base", "checks", "declarations", "hooks", "needs", "plugins", "registry")
"""Modules of the room `methods` that serve all methods. The other modules are the files of single methods."""


def _hashes() -> dict[str, str]:
    """The SHA-256 of every source file that bits depend on, by its path in the package."""
    store = sorted(_STORE.glob("*.py"))
    found = {f"checkpoints/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in store}
    for room in sorted(_SIMULATOR.iterdir()):
        for file in () if room.name in _NO_BITS else sorted([*room.glob("**/*.py"), *room.glob("**/*.toml")]):
            found[file.relative_to(_SIMULATOR).as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


_SOURCES = _hashes()
"""As they were when this process imported them: later edits of the files do not change what it computes."""
METHOD_FILES = {
    Path(path).name: sha256
    for path, sha256 in _SOURCES.items()
    if path.startswith("methods/") and Path(path).stem not in _ALL_METHODS
}
"""The SHA-256 of each file of a single method, by the file's name."""


def _together(files: Mapping[str, str]) -> str:
    return hashlib.sha256("\n".join(f"{name} {files[name]}" for name in sorted(files)).encode()).hexdigest()


PROGRAM = _together(
    {path: sha256 for path, sha256 in _SOURCES.items() if path.removeprefix("methods/") not in METHOD_FILES}
)
"""The SHA-256 of htfl-sim's own code that the bits of every session depend on: all but the files of single methods."""


def environment(device: "torch.device", threads_per_client: int) -> dict[str, Any]:
    """The facts a session records when it is made and compares when it is resumed."""
    import numpy as np
    import torch

    on_cuda = device.type == "cuda"
    computes = torch.cuda.get_device_name(device) if on_cuda else torch.backends.cpu.get_cpu_capability()
    return {
        "htfl-sim": version("htfl-sim"),
        "program": PROGRAM,
        "methods": _together(METHOD_FILES),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
        "timm": version("timm"),
        "numpy": np.__version__,
        "safetensors": version("safetensors"),
        "libraries": _libraries(),
        "modes": " ".join(f"{name}={os.environ[name]}" for name in MODES if os.environ.get(name)) or "none",
        "device": f"{'cuda' if on_cuda else 'cpu'} ({computes})",
        "cpu": _cpu_model(),
        "threads_per_client": threads_per_client,
    }


def recorded_facts(device: "torch.device", threads_per_client: int, models: Iterable[str]) -> dict[str, Any]:
    """The facts of a new session, without the hash of all methods. models: packages that its models come from."""
    left_out = {"methods", *MODEL_LIBRARIES} - set(models)
    facts = environment(device, threads_per_client)
    return {fact: value for fact, value in facts.items() if fact not in left_out}


def inexact(
    recorded: Mapping[str, Any], present: Mapping[str, Any], facts: Iterable[str] = COMPARED
) -> list[str]:
    """The differences, such as 'torch 2.6 → 2.7', among facts that both have. On a GPU, the CPU is not compared."""
    on_cpu = str(present.get("device", "cpu")).startswith("cpu")
    return [
        f"{fact} {_short(recorded[fact])} → {_short(present[fact])}"
        for fact in facts
        if fact in recorded
        and recorded[fact] != present[fact]
        and (fact != "cpu" or on_cpu)
        and not (fact == "htfl-sim" and recorded[fact] in SAME_BITS)
    ]


def changed_code(
    recorded: Mapping[str, Any], files: Mapping[str, str], present: Mapping[str, Any] | None = None
) -> list[str]:
    """The differences of the code from that of rounds, whose method files had these hashes. Needs no torch."""
    if present is None:
        present = {
            "program": PROGRAM,
            **{name: version(name) for name in ("htfl-sim", *MODEL_LIBRARIES, "numpy")},
        }
        # The version of the package lacks the suffix of a build, such as +cpu.
        release = str(recorded.get("torch")).partition("+")
        present["torch"] = "".join((version("torch").partition("+")[0], *release[1:]))
    return [
        *inexact(recorded, present, (fact for fact in CODE if fact in present)),
        *(
            f"method file {name} {_short(sha256)} → {_short(METHOD_FILES.get(name, 'none'))}"
            for name, sha256 in files.items()
            if METHOD_FILES.get(name) != sha256
        ),
    ]


def _short(value: object) -> object:
    """The first 12 digits of a SHA-256; anything else as it is."""
    return value[:12] if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) else value


def _libraries() -> str:
    """torch's numeric libraries in its own report, such as 'MKL 2024.2, oneDNN 3.5.3 (66f0cb9)'."""
    import torch

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
