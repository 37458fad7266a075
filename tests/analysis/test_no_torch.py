"""The rooms that need no torch import neither it nor anything of a terminal."""

import pkgutil
import subprocess
import sys

import simulator.results.analysis
import simulator.results.figures


def test_no_file_of_the_rooms_imports_torch_a_terminal_or_pyplot() -> None:
    files = [
        f"{room.__name__}.{each.name}"
        for room in (simulator.results.analysis, simulator.results.figures)
        for each in pkgutil.iter_modules(room.__path__)
    ]
    assert len(files) > 20
    script = f"""
import importlib, sys
for name in {files}:
    importlib.import_module(name)
    loaded = [each for each in ("torch", "textual", "rich", "typer", "tui", "matplotlib.pyplot") if each in sys.modules]
    assert not loaded, (name, loaded)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
