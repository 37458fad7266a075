"""A user's own methods from a file that the user names, and what a session keeps about them.

The file registers its methods with `simulator.methods.register`, as the built-in ones do.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulator import own_files
from simulator.errors import SessionError
from simulator.methods.registry import Plugin, origin, plugins, run_plugin


def load(path: Path) -> Plugin:
    """Run a plugin file, so that its methods stand beside the built-in ones. A second time does nothing.

    Raises ConfigError for a file that cannot be read, fails (with the line), registers nothing, or takes a name.
    """
    path = path.expanduser()
    file, source = own_files.read("plugin", path)
    plugin = Plugin(file.name, file.sha256)
    if plugin not in plugins():
        run_plugin(plugin, path, lambda: own_files.run(file, source, path))
    return plugin


def recorded(method: str) -> dict[str, str] | None:
    """What a session keeps about the plugin its method comes from, as plain JSON values."""
    plugin = origin(method)
    return asdict(plugin) if plugin else None


def check(folder: Path, method: str, made_with: Mapping[str, Any] | None) -> None:
    """Raise SessionError unless the plugin a session had the method from, if any, is loaded and the same bytes."""
    if not made_with:
        return
    present = origin(method)
    name, sha256 = str(made_with["name"]), str(made_with["sha256"])
    if present is None:
        raise SessionError(
            f"{folder}: its method comes from the plugin {name}, which is not loaded; add --plugin {name}, "
            "or install the package it came with."
        )
    if present.sha256 != sha256:
        raise SessionError(
            f"{folder}: the plugin {present.name} is not the one this session was made with (sha256 "
            f"{sha256[:12]}…, not {present.sha256[:12]}…); give the original {name}, or start a new session."
        )
