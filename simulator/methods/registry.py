"""The methods by name: built-in ones, those of the user's plugin files, and those of installed packages.

A built-in method is imported on its first use, and torch with it. What it declares is known without that.

A plugin can also register models and data sets. This module knows the file of each of them.

A package names each of its methods as an entry point of the group `htfl_sim.methods`: the method's name, and the module
that registers it. The module is imported on the first use of the method.
"""

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from simulator.base.errors import RAISED, ConfigError, nearest
from simulator.base.own_files import failed, mark
from simulator.methods import declarations as built_in

if TYPE_CHECKING:
    from simulator.methods.base import Method

GROUP = "htfl_sim.methods"


@dataclass(frozen=True)
class Plugin:
    """A file that registers methods, models, or data sets: its name without a folder, and its SHA-256 (hex)."""

    name: str
    sha256: str


_FORMER = {"merge": "aggregate", "start_server": "init_server", "start_client": "init_client"}
"""Names of hooks up to version 1.0. A hook with such a name would never be called."""
_METHODS: dict[str, "type[Method]"] = {}
"""The methods that are imported."""
_ORIGINS: dict[str, Plugin] = {}
"""The plugin of each method that is not built in."""
_MODEL_ORIGINS: dict[str, Plugin] = {}
_DATA_ORIGINS: dict[str, Plugin] = {}
M = TypeVar("M", bound="type[Method]")


def register(name: str) -> Callable[[M], M]:
    """Add a method under `name`. Raises ValueError if the name is taken, or a hook has a former name."""

    def add(method: M) -> M:
        if name in _METHODS or _module(name) not in (None, method.__module__):
            raise ValueError(f"a method named '{name}' exists already")
        for before, now in _FORMER.items():
            if before in vars(method) and now not in vars(method):
                raise ValueError(
                    f"the hook {before}() is called {now}() now; CHANGELOG.md has all that changed"
                )
        if not hasattr(method, "card"):
            method.card = built_in.Card(name, *["–"] * 5)
        if name in built_in.modules():  # one class, so that sections of equal values are equal
            method.Config = built_in.declared(name).Config
            setattr(
                sys.modules[method.__module__], method.Config.__name__, method.Config
            )  # as pickle looks for it
        method.name = name
        _METHODS[name] = method
        return method

    return add


def names() -> list[str]:
    """All methods' names, alphabetically. Methods are listed without importing them."""
    return sorted({*built_in.modules(), *_METHODS, *(point.name for point in entry_points(group=GROUP))})


def get(name: str) -> "type[Method]":
    """The method of that name. Raises ConfigError with the nearest name for an unknown one."""
    if name not in _METHODS:
        if (module := _module(name)) is not None:
            import_module(module)
        else:
            _load_installed(name)
    if name not in _METHODS:
        titles = {each: declared(each).card.title for each in (*built_in.modules(), *_METHODS)}
        raise ConfigError(f"unknown method '{name}'.{nearest(name, names(), titles)} See `htfl-sim methods`.")
    return _METHODS[name]


def declared(name: str) -> "built_in.Declared | type[Method]":
    """The card and the settings of the method of that name. Imports no built-in one. Raises ConfigError like `get`."""
    return built_in.declared(name) if name in built_in.modules() else get(name)


def _module(name: str) -> str | None:
    """The module of a built-in method."""
    return f"{built_in.PACKAGE}.{found}" if (found := built_in.modules().get(name)) else None


def origin(name: str) -> Plugin | None:
    """The plugin of a method; None for a built-in or an unknown one."""
    if name in names():
        get(name)  # imports the module of an installed package
    return _ORIGINS.get(name)


def model_origin(name: str) -> Plugin | None:
    """The plugin of a model; None for any other, and for an unknown one."""
    return _MODEL_ORIGINS.get(name)


def data_origin(name: str) -> Plugin | None:
    """The plugin of a data set; None for any other, and for an unknown one."""
    return _DATA_ORIGINS.get(name)


def plugins() -> set[Plugin]:
    """The plugins that have been run."""
    return {*_ORIGINS.values(), *_MODEL_ORIGINS.values(), *_DATA_ORIGINS.values()}


def run_plugin(plugin: Plugin, path: Path, run: Callable[[], object]) -> None:
    """Run the code of a plugin and note which methods, models, and data sets it registers. If it fails, none stays.

    Raises ConfigError for one that fails, with the line, or registers nothing.
    """
    from simulator.data import datasets
    from simulator.models import registry as models

    before = {*_METHODS, *built_in.modules()}
    models_before, data_before = set(models.names()), set(datasets.names())
    mark(path)
    try:
        run()
    except RAISED as error:
        for name in set(_METHODS) - before:
            del _METHODS[name]
        for name in set(models.names()) - models_before:
            models.forget(name)
        for name in set(datasets.names()) - data_before:
            datasets.forget(name)
        raise failed(f"the plugin {path}", error) from error
    registered, added = set(_METHODS) - before, set(models.names()) - models_before
    brought = set(datasets.names()) - data_before
    if not registered and not added and not brought:
        raise ConfigError(
            f'the plugin {path} registers no method and no model; put @register("name") before its class.'
        )
    _ORIGINS.update(dict.fromkeys(registered, plugin))
    _MODEL_ORIGINS.update(dict.fromkeys(added, plugin))
    _DATA_ORIGINS.update(dict.fromkeys(brought, plugin))


def _load_installed(name: str) -> None:
    """Import the module of the installed package that has this method, if there is one."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return
    path = _file(point)
    plugin = Plugin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    run_plugin(plugin, path, point.load)
    if name not in _METHODS:
        raise ConfigError(
            f"the installed plugin {path} offers a method '{name}' but registers none of that name."
        )


def installed_files() -> set[str]:
    """The names of the files of installed packages' methods."""
    found = set()
    for point in entry_points(group=GROUP):
        with suppress(ConfigError):
            found.add(_file(point).name)
    return found


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
