"""Configurations: from a preset, a file, or nested values; `Config.with_` changes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import presets
from simulator.base.nested import read_toml
from simulator.config import Config
from simulator.config.own import Files, Names, loaded
from simulator.data.datasets import absolute
from simulator.methods import plugins

__all__ = ["Config", "Files", "config", "load_files", "plugin", "preset"]


def preset(
    name: str = "quickstart",
    *,
    profile: str | None = None,
    dataset: str | Path | None = None,
    method: str | None = None,
    rounds: int | None = None,
    clients: int | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Config:
    """The configuration of a named experiment (`htfl-sim presets`), with what is given in place of its own.

    `dataset` is a data set's name, a folder of class folders or an .npz file; `settings` are dotted keys with two
    underscores for the dot: `training__lr=0.05`. Files of your own are named, and loaded, as on the command line:
    `federation__group=["cnn1", "mynets.py:MyNet"]`, `evaluation__metrics=["top2.py"]`. Raises HtflError (ConfigError)
    or presets.PresetError.
    """
    raw = presets.load(name, profile or presets.PAPER).config | {"preset": name}
    raw |= {"profile": profile} if profile else {}
    quick = {
        "method": method,
        "data__dataset": None if dataset is None else absolute(str(dataset)),
        "rounds": rounds,
        "federation__clients": clients,
        "seed": seed,
    }
    given = {key: value for key, value in quick.items() if value is not None}
    return Config.read(raw).with_(**given | _loaded(settings))


def config(source: str | Path | Mapping[str, Any], **settings: Any) -> Config:
    """A configuration from a TOML file, as `run --config` takes it, or from nested values; then `settings`.

    Files of your own that it names are loaded. Raises ConfigError.
    """
    raw = source if isinstance(source, Mapping) else read_toml(Path(source).expanduser())
    return Config.read(loaded(raw)).with_(**_loaded(settings))


def plugin(path: str | Path) -> None:
    """Let the methods of a Python file of your own stand beside the built-in ones. Raises ConfigError."""
    plugins.load(Path(path))


def load_files(
    plugins: Sequence[str | Path] = (), models: Sequence[str | Path] = (), metrics: Sequence[str | Path] = ()
) -> None:
    """Run files of your own: with methods, with models, with metrics. Raises ConfigError for one that fails."""
    Files(*(tuple(map(str, files)) for files in (plugins, models, metrics))).load()


def _loaded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with names in place of the files that they name, which have been run."""
    names = Names(Path())
    found = {key: names.value(key.replace("__", "."), each) for key, each in settings.items()}
    names.files.load()
    return found
