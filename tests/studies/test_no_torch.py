"""Going on with a study, listing and steering need no torch: only what trains, and asking for a new study, do."""

import subprocess
import sys


def test_reading_and_running_studies_loads_no_torch() -> None:
    needed = (
        "sweep",
        "executor",
        "slurm",
        "ray_node",
        "board",
        "study",
        "folder",
    )
    script = f"""
import importlib, sys
for name in {[f"simulator.studies.{each}" for each in needed]} + ["tui.cli.sweep", "tui.cli.progress"]:
    importlib.import_module(name)
    assert "torch" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", script], check=True)
