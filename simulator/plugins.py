"""A user's own methods: from a file that the user names, or from an installed package.

A file registers its methods with `simulator.methods.register`, as the built-in ones do. A package names each of its
methods as an entry point of the group `htfl_sim.methods`: the method's name, and the module that registers it. The
module is imported when the method is first asked for.
"""

import hashlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from simulator.errors import ConfigError, SessionError
from simulator.methods import registry

GROUP = "htfl_sim.methods"


@dataclass(frozen=True)
class Plugin:
    """A file that registers methods: its name, without a folder, and the SHA-256 (hex) of its bytes."""

    name: str
    sha256: str


_ORIGINS: dict[str, Plugin] = {}
"""Where each method comes from that is not built in."""


def load(path: Path) -> Plugin:
    """Run a plugin file, so that its methods stand beside the built-in ones. A second time does nothing.

    Raises ConfigError for a file that cannot be read, fails (with the line), registers nothing, or takes a name.
    """
    path = path.expanduser()
    try:
        source = path.read_bytes()
    except OSError as unreadable:
        raise ConfigError(f"cannot read the plugin {path}: {unreadable.strerror}.") from unreadable
    plugin = Plugin(path.name, hashlib.sha256(source).hexdigest())
    if plugin not in _ORIGINS.values():
        _register(plugin, path, lambda: _run(source, path, plugin))
    return plugin


def installed() -> list[str]:
    """Names of the methods that installed packages offer. None of them is imported."""
    return [point.name for point in entry_points(group=GROUP)]


def load_installed(name: str) -> None:
    """Import the module in which an installed package has the method of this name.

    Raises ConfigError when it cannot be imported or has no such method; does nothing when no package offers one.
    """
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return
    path = _file(point)
    plugin = Plugin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    _register(plugin, path, point.load)
    if name not in registry.loaded():
        raise ConfigError(
            f"the installed plugin {path} offers a method '{name}' but registers none of that name."
        )


def origin(method: str) -> Plugin | None:
    """The plugin that a method comes from; None for a built-in one, and for one that is not there."""
    if method not in registry.names():
        return None
    registry.get(method)  # an installed package's is imported now
    return _ORIGINS.get(method)


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


def _register(plugin: Plugin, path: Path, run: Callable[[], object]) -> None:
    """Run the code of a plugin and note which methods came of it; of one that fails, none stays."""
    before = registry.loaded()
    try:
        run()
    except Exception as error:
        registry.forget(registry.loaded() - before)
        fault = str(error).rstrip(".")
        raise ConfigError(
            f"the plugin {path} failed{_where(error, path)}: {type(error).__name__}: {fault}."
        ) from error
    methods = registry.loaded() - before
    if not methods:
        raise ConfigError(f'the plugin {path} registers no method; put @register("name") before its class.')
    _ORIGINS.update(dict.fromkeys(methods, plugin))


def _run(source: bytes, path: Path, plugin: Plugin) -> None:
    """Run the very bytes that were hashed, as a module of its own under a name no other module has."""
    module = ModuleType(f"htfl_sim_plugin_{plugin.sha256[:12]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where pydantic looks up a configuration's annotations
    exec(compile(source, str(path), "exec"), module.__dict__)


def _file(point: EntryPoint) -> Path:
    """The file of an installed plugin's module."""
    try:
        spec = find_spec(point.module)
    except ImportError:
        spec = None
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        raise ConfigError(
            f"the installed method '{point.name}' should be in module '{point.module}', which is not there; "
            "reinstall its package, or remove it."
        )
    return Path(spec.origin)


def _where(error: Exception, path: Path) -> str:
    """', line N': the line of the plugin at which it went wrong."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f", line {lines[-1]}" if lines else ""
