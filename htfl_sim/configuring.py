"""Configurations: from a preset, a file, or nested values; `Config.with_` changes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import presets
from htfl_sim.choices import QUICKSTART as QUICKSTART
from htfl_sim.choices import Choices, quickstart
from htfl_sim.folders import free_name, plain_name
from simulator.base.errors import ConfigError, a_type
from simulator.base.nested import read_toml
from simulator.config import Config
from simulator.config.user_files import Files, Names, loaded
from simulator.data.datasets import absolute
from simulator.sessions.history import asked_for

__all__ = ["Choices", "Config", "Files", "config", "load_files", "new_name", "plugin", "preset"]


def preset(
    name: str | None = None,
    *,
    profile: str | None = None,
    dataset: str | Path | None = None,
    method: str | None = None,
    rounds: int | None = None,
    clients: int | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Config:
    """The configuration of a named experiment (`htfl-sim presets`), changed by the arguments.

    Without a name, it is the quickstart for the kind of the data set's samples. `dataset` is a data set's name, a
    folder of class folders, an .npz, .csv, or .parquet file, or hf:OWNER/NAME. `settings` are dotted keys with two
    underscores for the dot: `training__lr=0.05`. Your own files are named, and loaded, as on the command line:
    `federation__group=["cnn1", "mynets.py:MyNet"]`, `evaluation__metrics=["top2.py"]`. Raises HtflError (ConfigError)
    or presets.PresetError.
    """
    if name is None:
        data = {
            key.removeprefix("data__"): each for key, each in settings.items() if key.startswith("data__")
        }
        raw = quickstart(None if dataset is None else str(dataset), data)
    else:
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
    """A configuration from a TOML file, as in `run --config`, or from nested values. `settings` change it.

    Loads your own files that it names. Raises ConfigError.
    """
    raw = source if isinstance(source, Mapping) else read_toml(Path(source).expanduser())
    return Config.read(loaded(raw)).with_(**_loaded(settings))


def plugin(path: str | Path) -> None:
    """Register the methods of your own Python file. Raises ConfigError."""
    Files(plugins=(str(path),)).load()


def load_files(
    plugins: Sequence[str | Path] = (),
    models: Sequence[str | Path] = (),
    metrics: Sequence[str | Path] = (),
    selections: Sequence[str | Path] = (),
) -> None:
    """Load your own files with methods, models, metrics, and selections. Raises ConfigError for one that fails."""
    Files(*(tuple(map(str, files)) for files in (plugins, models, metrics, selections))).load()


def checked_config(given: object) -> Config:
    """The configuration. Raises ConfigError for anything else, with the call that makes one of it."""
    if isinstance(given, Config):
        return given
    made = f"hs.config({given!r})" if isinstance(given, Mapping | Path) else None
    if isinstance(given, str):
        made = f"hs.config({given!r})" if given.endswith(".toml") else f"hs.preset({given!r})"
    hint = f"Give {made}." if made else "Make one with hs.preset or hs.config."
    raise ConfigError(f"A run needs a configuration, and this is {a_type(given)}. {hint}")


def new_name(config: Config, folder: Path, now: datetime) -> str:
    """A name with the run's settings and date that no session in `folder` has."""
    return free_name(folder, f"{_what(config)}-{now:%Y%m%d-%H%M%S}")


def _what(config: Config) -> str:
    """The preset and its changes. Without a preset, method and data set."""
    method, dataset = config.method.name, Path(config.data.dataset).stem
    words = [method, dataset]
    if config.preset in presets.names():
        base = presets.load(str(config.preset), config.profile or presets.PAPER).config
        printed = {base.get("method", {}).get("name"), base.get("data", {}).get("dataset")}
        words = [
            str(config.preset),
            *filter(None, [config.profile]),
            *(word for word in words if word not in printed),
        ]
    return plain_name(words)


def check_switch(settings: Mapping[str, Any], method: str | None, assignments: Sequence[str]) -> Config:
    """The configuration after a switch of a session: to a method, to settings 'key=value', or to both.

    Raises ConfigError for invalid settings, and for a switch that changes nothing.
    """
    return asked_for(Config.read(settings), {"method": method, "set": list(assignments)})


def _loaded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with names instead of the files that they name. The files have been run."""
    names = Names(Path())
    found = {key: names.value(key.replace("__", "."), each) for key, each in settings.items()}
    names.files.load()
    return found
