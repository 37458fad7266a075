"""The methods by name: built-in ones, those of the user's plugin files, and those of installed packages.

A built-in method is imported on its first use, and torch with it. What it declares is known without that.

A plugin is a user's file that registers methods, models, and data sets with `register`, like built-in ones. A session
stores its name and hash. A package names each of its methods as an entry point of the group `htfl_sim.methods`: the
method's name, and the module that registers it. The module is imported on the first use of the method.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from simulator.base import documents, own_files
from simulator.base.errors import RAISED, ConfigError, SessionError, nearest
from simulator.methods import declarations as built_in

if TYPE_CHECKING:
    from simulator.methods.base import Method

GROUP = "htfl_sim.methods"


@dataclass(frozen=True)
class Plugin:
    """A file that registers methods, models, or data sets: its name without a folder, and its SHA-256 (hex)."""

    name: str
    sha256: str


Kind = Literal["method", "model", "data set"]
_FORMER = {"merge": "aggregate", "start_server": "init_server", "start_client": "init_client"}
"""Names of hooks up to version 1.0. A hook with such a name would never be called."""
_METHODS: dict[str, "type[Method]"] = {}
"""The methods that are imported."""
_ORIGINS: dict[tuple[Kind, str], Plugin] = {}
"""The plugin of each method, model, and data set that comes from one."""
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
            # as pickle looks for it
            setattr(sys.modules[method.__module__], method.Config.__name__, method.Config)
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
        elif points := entry_points(group=GROUP, name=name):
            point = next(iter(points))
            path = _file(point)
            run_plugin(Plugin(path.name, hashlib.sha256(path.read_bytes()).hexdigest()), path, point.load)
            if name not in _METHODS:
                raise ConfigError(
                    f"the installed plugin {path} offers a method '{name}' but registers none of that name."
                )
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


def load(path: Path) -> Plugin:
    """Run a plugin file, which registers its methods and models. Does nothing the second time."""
    path = path.expanduser()
    file, source = own_files.read("plugin", path)
    plugin = Plugin(file.name, file.sha256)
    if plugin not in _ORIGINS.values():
        run_plugin(plugin, path, lambda: own_files.run(file, source, path))
    return plugin


def run_plugin(plugin: Plugin, path: Path, run: Callable[[], object]) -> None:
    """Run a plugin and note what it registers. If it fails, or registers nothing: ConfigError, and nothing stays."""
    from simulator.data import datasets
    from simulator.models import registry as models

    known: dict[Kind, Callable[[], Iterable[str]]] = {
        "method": lambda: {*_METHODS, *built_in.modules()},
        "model": models.names,
        "data set": datasets.names,
    }
    forget: dict[Kind, Callable[[str], object]] = {
        "method": _METHODS.pop,
        "model": models.forget,
        "data set": datasets.forget,
    }

    def there() -> set[tuple[Kind, str]]:
        return {(kind, name) for kind, names in known.items() for name in names()}

    before = there()
    own_files.mark(path)
    try:
        run()
    except RAISED as error:
        for kind, name in there() - before:
            forget[kind](name)
        raise own_files.failed(f"the plugin {path}", error) from error
    added = there() - before
    if not added:
        raise ConfigError(
            f'the plugin {path} registers no method and no model; put @register("name") before its class.'
        )
    _ORIGINS.update(dict.fromkeys(added, plugin))


def origin(name: str, kind: Kind = "method") -> Plugin | None:
    """The plugin of a method, a model, or a data set; None for any other, and for an unknown one."""
    if kind == "method" and name in names():
        get(name)  # imports the module of an installed package
    return _ORIGINS.get((kind, name))


def recorded(name: str, kind: Kind = "method") -> documents.Plugin | None:
    """The session's entry about the plugin of its method, or of a model, as plain JSON values."""
    plugin = origin(name, kind)
    return {"name": plugin.name, "sha256": plugin.sha256} if plugin else None


def recorded_models(models: Iterable[str]) -> dict[str, documents.Plugin]:
    """The session's entries about models that come from a plugin, by the model's name."""
    return {name: plugin for name in models if (plugin := recorded(name, "model"))}


def check(folder: Path, method: str, made_with: documents.Plugin | None) -> None:
    """Raise SessionError unless the plugin of a session's method, if any, is loaded with the same bytes."""
    if made_with:
        _check(folder, "its method", origin(method), made_with)


def check_models(folder: Path, made_with: Mapping[str, documents.Plugin]) -> None:
    """Raise SessionError unless the plugins of a session's models are loaded with the same bytes."""
    for model, plugin in made_with.items():
        _check(folder, f"its model '{model}'", origin(model, "model"), plugin)


def _check(folder: Path, what: str, present: Plugin | None, made_with: documents.Plugin) -> None:
    name, sha256 = str(made_with["name"]), str(made_with["sha256"])
    if present is None:
        raise SessionError(
            f"{folder}: {what} comes from the plugin {name}, which is not loaded. Add `plugin={name}`, "
            "or install the package it came with."
        )
    if not own_files.is_same(sha256, present.sha256):
        raise SessionError(
            f"{folder}: the plugin {present.name} is not the one this session was made with, or imports a local file "
            f"that changed (sha256 {sha256[:12]}…, not {present.sha256[:12]}…). Give the original {name}, or start a "
            "new session."
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
