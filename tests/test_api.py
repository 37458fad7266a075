"""`import simulator`: the names a program may use, loaded when first used."""

import importlib
import subprocess
import sys
from importlib import resources

import simulator


def test_every_public_name_is_what_it_says_even_after_its_module_was_imported() -> None:
    for module in ("engine", "sessions", "config", "results"):
        importlib.import_module(f"simulator.{module}")
    assert all(callable(getattr(simulator, name)) for name in simulator.__all__)


def test_reading_a_configuration_module_loads_no_torch() -> None:
    code = "import sys, simulator.config, presets, checkpoints; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_package_says_that_it_is_typed() -> None:
    for package in ("checkpoints", "htfl_sim", "presets", "simulator", "tui"):
        assert resources.files(package).joinpath("py.typed").is_file()
