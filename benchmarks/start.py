"""How long a command of this program takes to begin."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path


def least(*command: str | Path) -> float:
    """The fewest seconds of three in which a process has begun and ended."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def starts() -> str:
    """How long `--help` takes, and a run with next to nothing to do; beside the latter, what importing torch takes."""
    command = Path(sys.executable).with_name("htfl-sim")
    with tempfile.TemporaryDirectory() as folder:
        tiny = [
            f"--sessions-dir={folder}",
            "--rounds=1",
            "--clients=1",
            "--set=data.limit=100",
            "--set=training.epochs=1",
        ]
        answer, run = least(command, "--help"), least(command, "run", *tiny)
    torch_alone = least(sys.executable, "-c", "import torch")
    return (
        f"`htfl-sim --help`: {answer:.2f} s · a run of one client, one round, 80 images: {run:.2f} s, "
        f"of which importing torch {torch_alone:.2f} s"
    )
