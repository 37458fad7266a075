"""The room imports neither torch nor anything of a terminal."""

import pkgutil
import subprocess
import sys

import simulator.results.analysis


def test_no_file_of_the_room_imports_torch_or_a_terminal() -> None:
    files = [
        f"simulator.results.analysis.{each.name}"
        for each in pkgutil.iter_modules(simulator.results.analysis.__path__)
    ]
    assert len(files) > 10
    script = f"""
import importlib, sys
for name in {files}:
    importlib.import_module(name)
    loaded = [each for each in ("torch", "textual", "rich", "typer", "tui") if each in sys.modules]
    assert not loaded, (name, loaded)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
