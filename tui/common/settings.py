"""From what the command line says to one configuration, and to the name of a new session."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import presets
from htfl_sim.folders import free_name, plain_name
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, merged, read_toml, with_method, with_overrides
from simulator.config import Config
from simulator.config.idle import refuse_idle
from simulator.config.own import Files, loaded
from simulator.data import datasets

QUICKSTART = "quickstart"


@dataclass(frozen=True)
class Choices:
    """What the command line says about a new run; None where it says nothing."""

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
    partition: Path | None = None
    models: Sequence[str] = ()
    metrics: Sequence[Path] = ()
    runner: str | None = None

    def read(self) -> Config:
        """The configuration: preset or file, then the quick settings, then --set; the last word wins.

        Raises PresetError or ConfigError.
        """
        raw = merged(self._base(), self._quick())
        raw = with_overrides(raw, self.assignments)
        if isinstance(data := raw.get("data"), dict) and isinstance(name := data.get("dataset"), str):
            data["dataset"] = datasets.absolute(name)
        Files(metrics=tuple(map(str, self.metrics))).load()  # --set may name them
        config = Config.read(loaded(raw))
        refuse_idle(config, (assignment.partition("=")[0].strip() for assignment in self.assignments))
        return config

    def options(self) -> Iterator[str]:
        """The same as options of `htfl-sim run`."""
        one = {
            "preset": self.preset,
            "profile": self.profile,
            "config": self.file,
            "dataset": self.dataset,
            "partition": self.partition,
            "method": self.method,
            "rounds": self.rounds,
            "until": self.until,
            "clients": self.clients,
            "seed": self.seed,
            "device": self.device,
            "workers": self.workers,
            "runner": self.runner,
        }
        many = {"set": self.assignments, "model": self.models, "metric": self.metrics}
        for option, value in one.items():
            if value is not None:
                yield from (f"--{option}", str(value))
        for option, values in many.items():
            for each in values:
                yield from (f"--{option}", str(each))

    def _base(self) -> Raw:
        if self.preset and self.file:
            raise ConfigError(
                "--preset and --config both name a whole run; give one of them, and --set for the rest."
            )
        if self.profile and not self.preset:
            raise ConfigError("--profile says which reading of a preset is meant; name the preset as well.")
        name = self.preset or QUICKSTART
        if self.file:
            raw = read_toml(self.file)
        else:
            raw = presets.load(name, self.profile or presets.PAPER).config | {"preset": name}
            raw |= {"profile": self.profile} if self.profile else {}
        return with_method(raw, self.method) if self.method else raw

    def _quick(self) -> Raw:
        quick: Raw = {
            "rounds": self.rounds,
            "until": self.until,
            "seed": self.seed,
            "data": {"dataset": self.dataset, **indices(self.partition)},
            "federation": {"clients": self.clients, "group": list(self.models) or None},
            "evaluation": {"metrics": [str(file) for file in self.metrics] or None},
            "runtime": {"device": self.device, "workers": self.workers, "runner": self.runner},
        }
        return said(quick)


def new_name(config: Config, folder: Path, now: datetime) -> str:
    """A name that says what runs and when, and that no session in `folder` has."""
    return free_name(folder, f"{_what(config)}-{now:%Y%m%d-%H%M%S}")


def _what(config: Config) -> str:
    """The preset and what differs from it; without one, method and data set."""
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
    """The partition that a file of indices is."""
    return {} if file is None else {"partition": "indices", "indices": str(file)}


def said(raw: Raw) -> Raw:
    """`raw` without the values that nobody gave."""
    kept: dict[str, Any] = {
        key: said(value) if isinstance(value, dict) else value for key, value in raw.items()
    }
    return {key: value for key, value in kept.items() if value is not None and value != {}}
