"""Optional packages: load one, or name the command that installs it."""

import importlib
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

from simulator.base.errors import ConfigError


def library(module: str, extra: str) -> Any:
    """Import a module of an optional package. Raises ConfigError with the install command if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{package} is not installed ({missing}). Install it: `{install_command(extra, package)}`."
        ) from missing


def install_command(extra: str, package: str | None = None) -> str:
    """The command that installs the packages of an extra. It works in any folder: htfl-sim is on no package index.

    Without the metadata of htfl-sim, it names the `package`, by default the one that is called as the extra.
    """
    try:
        entries = [entry.partition(";") for entry in requires("htfl-sim") or []]
    except PackageNotFoundError:  # its files were copied here, without its metadata
        entries = []
    found = [name.strip() for name, _, marker in entries if f"extra == '{extra}'" in marker.replace('"', "'")]
    return "pip install " + " ".join(f"'{each}'" for each in found or [package or extra])
