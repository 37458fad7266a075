"""`htfl-sim doctor`: what this machine offers, and what is missing."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from tui.cli import options, output
from tui.common import folders
from tui.common.formatting import size


@dataclass(frozen=True)
class Finding:
    """One thing looked at: there and good, missing but not needed to run, or a fault that will stop a run."""

    what: str
    status: Literal["ok", "missing", "fault"]
    detail: str


def doctor(
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what this machine offers and what is missing: versions, cores, memory, CUDA, data, disk, terminal.

    \b
    Examples
      htfl-sim doctor
      htfl-sim doctor --json | jq -r '.[] | select(.status != "ok") | .what'
    """
    findings = [*_versions(), *_machine(), _cuda(), *_data(data_dir), *_disk(sessions_dir), *_terminal()]
    if as_json:
        output.emit([asdict(finding) for finding in findings])
    else:
        output.show(
            output.table(["", "status", ""], ([each.what, each.status, each.detail] for each in findings))
        )


def _versions() -> Iterator[Finding]:
    yield Finding("htfl-sim", "ok", version("htfl-sim"))
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    for package in ("torch", "torchvision", "safetensors"):
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "fault", "not installed; run: pip install htfl-sim")


def _machine() -> Iterator[Finding]:
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("cores", "ok", f"{usable} usable, {platform.machine()}")
    memory = psutil.virtual_memory()
    yield Finding("memory", "ok", f"{size(memory.available)} free of {size(memory.total)}")


def _cuda() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("cuda", "fault", f"torch cannot be loaded: {error}")
    if not torch.cuda.is_available():
        return Finding("cuda", "missing", "no CUDA device; runs use the CPU")
    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return Finding("cuda", "ok", ", ".join(f"{each.name} ({size(each.total_memory)})" for each in found))


def _data(option: str | None) -> Iterator[Finding]:
    from simulator.data import datasets

    folder = datasets.data_folder(option)
    for name in datasets.names():
        dataset = datasets.get(name)
        files = dataset.files(folder)
        if dataset.is_present(folder):
            yield Finding(f"data {name}", "ok", str(files[0].parent) if files else "comes with a dependency")
        else:
            yield Finding(f"data {name}", "missing", f"not in {folder}; get it: htfl-sim data fetch {name}")


def _disk(option: Path | None) -> Iterator[Finding]:
    folder = folders.sessions_dir(option).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        yield Finding("sessions folder", "fault", f"{folder} cannot be written: {error.strerror}")
    else:
        yield Finding("sessions folder", "ok", f"{folder} can be written")
    yield Finding("disk", "ok", f"{size(shutil.disk_usage(there).free)} free for sessions")


_COLOURS = {
    "truecolor": "all of them",
    "256": "256, from which the app chooses; COLORTERM=truecolor says where a terminal has all (ssh leaves it out)",
    "standard": "16, which tell little apart; TERM=xterm-256color says where a terminal has more",
}
"""What rich finds that a terminal can show, in words."""


def _terminal() -> Iterator[Finding]:
    console = output.stderr()
    if not console.is_terminal:
        yield Finding("terminal", "missing", "stderr is no terminal: a run writes one line per round")
    else:
        yield _room(*console.size)
        yield _colours(None if console.no_color else console.color_system)
    encoding = (sys.stdout.encoding or "").lower()
    unicode = encoding.startswith("utf")
    said = f"stdout writes {encoding or 'in no known encoding'}"
    yield Finding(
        "unicode", "ok" if unicode else "missing", said if unicode else f"{said}; tui: --glyphs ascii"
    )


def _room(width: int, height: int) -> Finding:
    from tui.app.dialogs.small import SMALLEST

    columns, rows = SMALLEST
    enough = width >= columns and height >= rows
    least = f"the app needs {columns}×{rows} and is made for 80×24 and more"
    return Finding("terminal", "ok" if enough else "missing", f"{width}×{height}; {least}")


def _colours(system: str | None) -> Finding:
    term = os.environ.get("TERM", "")
    if system is None:
        why = "NO_COLOR is set" if os.environ.get("NO_COLOR") else f"TERM={term}"
        return Finding("colours", "missing", f"none ({why}); the app says everything in characters")
    return Finding("colours", "ok", f"{_COLOURS.get(system, system)} (TERM={term})")
