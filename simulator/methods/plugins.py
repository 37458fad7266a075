"""A user's own methods and models from a file, and what a session stores about them.

The file registers them with `simulator.methods.register` and `simulator.models.register`, like built-in ones.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from simulator.base import documents, own_files
from simulator.base.errors import SessionError
from simulator.methods.registry import Plugin, model_origin, origin, plugins, run_plugin


def load(path: Path) -> Plugin:
    """Run a plugin file, which registers its methods and models. Does nothing the second time."""
    path = path.expanduser()
    file, source = own_files.read("plugin", path)
    plugin = Plugin(file.name, file.sha256)
    if plugin not in plugins():
        run_plugin(plugin, path, lambda: own_files.run(file, source, path))
    return plugin


def recorded(method: str) -> documents.Plugin | None:
    """The session's entry about the plugin of its method, as plain JSON values."""
    plugin = origin(method)
    return {"name": plugin.name, "sha256": plugin.sha256} if plugin else None


def recorded_models(models: Iterable[str]) -> dict[str, documents.Plugin]:
    """The session's entries about models that come from a plugin, by the model's name."""
    return {
        name: {"name": plugin.name, "sha256": plugin.sha256}
        for name in models
        if (plugin := model_origin(name))
    }


def check(folder: Path, method: str, made_with: documents.Plugin | None) -> None:
    """Raise SessionError unless the plugin of a session's method, if any, is loaded with the same bytes."""
    if made_with:
        _check(folder, "its method", origin(method), made_with)


def check_models(folder: Path, made_with: Mapping[str, documents.Plugin]) -> None:
    """Raise SessionError unless the plugins of a session's models are loaded with the same bytes."""
    for model, plugin in made_with.items():
        _check(folder, f"its model '{model}'", model_origin(model), plugin)


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
