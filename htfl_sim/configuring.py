"""Configurations: from a preset, a file, or nested values; `Config.with_` changes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import presets
from htfl_sim.folders import free_name, plain_name
from simulator.base.data_section import COLUMNS, DataConfig
from simulator.base.errors import ConfigError, a_type
from simulator.base.federation_section import refuse_joined
from simulator.base.nested import Raw, merged, read_toml, with_method, with_overrides
from simulator.base.sections import section_of
from simulator.config import Config
from simulator.config.idle import refuse_idle
from simulator.config.user_files import Files, Names, loaded
from simulator.data import datasets, partition
from simulator.data.datasets import absolute, kind_of
from simulator.data.specs import Kind
from simulator.sessions.history import asked_for

__all__ = ["Choices", "Config", "Files", "config", "load_files", "new_name", "plugin", "preset"]

QUICKSTART = "quickstart"
QUICKSTARTS: Mapping[Kind, str] = {
    "image": QUICKSTART,
    "tokens": "quickstart_text",
    "signal": "quickstart_signals",
    "table": "quickstart_table",
}
"""The preset of a run that names none, by the kind of its data set's samples."""


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
        raw = _quickstart(None if dataset is None else str(dataset), data)
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


@dataclass(frozen=True)
class Choices:
    """The choices for a new run; None if unset. `read` makes the configuration."""

    preset: str | None = None
    profile: str | None = None
    file: Path | None = None
    dataset: str | None = None
    method: str | None = None
    rounds: int | None = None
    clients: int | None = None
    seed: int | None = None
    device: str | None = None
    workers: int | None = None
    assignments: Sequence[str] = ()
    until: float | None = None
    until_time: str | None = None
    partition: Path | None = None
    models: Sequence[str] = ()
    metrics: Sequence[Path] = ()
    runner: str | None = None
    selection: str | None = None
    watch: Sequence[str] = ()

    def read(self) -> Config:
        """The configuration: preset or file, then the quick settings, then --set. The last one wins.

        Raises PresetError or ConfigError.
        """
        raw = merged(self._base(), self._quick())
        raw = with_overrides(raw, self.assignments)
        for key in ("dataset", "public"):
            if isinstance(data := raw.get("data"), dict) and isinstance(name := data.get(key), str):
                data[key] = absolute(name)
        Files(metrics=tuple(map(str, self.metrics))).load()  # --set may name them
        config = Config.read(loaded(raw))
        group = config.federation.group
        refuse_joined([group] if isinstance(group, str) else group)
        refuse_idle(config, (assignment.partition("=")[0].strip() for assignment in self.assignments))
        return config

    def _base(self) -> Raw:
        if self.preset and self.file:
            raise ConfigError(
                "`preset` and `config` both name a whole run. Give one of them, and `set` for the rest."
            )
        if self.profile and not self.preset:
            raise ConfigError("`profile` chooses a version of a preset. Name the `preset` too.")
        if self.file:
            raw = read_toml(self.file)
        elif self.preset:
            raw = presets.load(self.preset, self.profile or presets.PAPER).config | {"preset": self.preset}
            raw |= {"profile": self.profile} if self.profile else {}
        else:
            data = with_overrides({}, self.assignments).get("data")
            data = (data if isinstance(data, dict) else {}) | indices(self.partition)
            raw = _quickstart(self.dataset or data.get("dataset"), data)
        return with_method(raw, self.method) if self.method else raw

    def _quick(self) -> Raw:
        quick: Raw = {
            "rounds": self.rounds,
            "until": self.until,
            "until_time": self.until_time,
            "seed": self.seed,
            "data": {"dataset": self.dataset, **indices(self.partition)},
            "federation": {"clients": self.clients, "group": list(self.models) or None},
            "evaluation": {"metrics": [str(file) for file in self.metrics] or None},
            "selection": {"strategy": self.selection},
            "watch": section_of(self.watch),
            "runtime": {"device": self.device, "workers": self.workers, "runner": self.runner},
        }
        return _given(quick)


def _quickstart(dataset: str | None, data: Mapping[str, Any]) -> Raw:
    """The quickstart for a data set. `data` are the settings of the section that are given.

    With a column of users, each client is one user, and there are at most as many clients as users. In a folder of
    clients, these are the clients. Without users, the clients have Dirichlet shares.
    """
    try:
        columns = DataConfig.model_validate({key: data[key] for key in COLUMNS if key in data})
    except ValidationError:
        columns = DataConfig()  # the whole configuration is refused, with the key
    name = QUICKSTARTS[kind_of(dataset, columns) if dataset else "image"]
    raw: Raw = presets.load(name).config | {"preset": name}
    if dataset and (users := datasets.users(dataset, columns)).counts:
        chosen: Raw = {"partition": "natural"}
        if users.are_clients and data.get("partition", "natural") == "natural":
            chosen |= {"min_samples": 1, **({"split": "own"} if users.are_tested else {})}
        least = data.get("min_samples", chosen.get("min_samples", DataConfig().min_samples))
        groups = partition.groups_of_users(users.counts, least)
        most = len(groups) if users.are_clients else raw["federation"]["clients"]
        raw = merged(raw, {"data": chosen, "federation": {"clients": min(most, max(len(groups), 1))}})
    elif dataset and raw["data"]["partition"] == "natural" and not datasets.has_users(dataset):
        raw = merged(raw, {"data": {"partition": "dirichlet", "alpha": 0.5, "min_samples": 20}})
    return raw


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


def indices(file: Path | None) -> Raw:
    """The partition of a file of indices."""
    return {} if file is None else {"partition": "indices", "indices": str(file)}


def _given(raw: Raw) -> Raw:
    """`raw` without values of None."""
    kept: dict[str, Any] = {
        key: _given(value) if isinstance(value, dict) else value for key, value in raw.items()
    }
    return {key: value for key, value in kept.items() if value is not None and value != {}}


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
