"""Configurations: from a preset, a file, or nested values, and what is refused before anything loads torch."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import checkpoints
import presets
from htfl_sim import catalog
from htfl_sim.choices import QUICKSTART as QUICKSTART
from htfl_sim.choices import Choices, named_files, quickstart
from htfl_sim.folders import free_name, plain_name
from simulator.base import own_files
from simulator.base.errors import ConfigError, a_type
from simulator.base.federation_section import GROUPS, unknown_group, unknown_model
from simulator.base.nested import flattened, read_toml, with_overrides
from simulator.base.sections import RUNNERS, STRATEGIES, unknown_runner, unknown_strategy
from simulator.config import Config, keys
from simulator.config.user_files import Files as Files
from simulator.config.user_files import Names, loaded
from simulator.data import datasets
from simulator.data.datasets import absolute
from simulator.methods import declarations
from simulator.sessions.history import asked_for, settings_in_force
from simulator.sessions.reader import CheckedReader

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
    named_files([path]).load()


def load_files(
    plugins: Sequence[str | Path] = (),
    models: Sequence[str | Path] = (),
    metrics: Sequence[str | Path] = (),
    selections: Sequence[str | Path] = (),
) -> None:
    """Load your own files with methods, models, metrics, and selections. Raises ConfigError for one that fails."""
    named_files(plugins, models, metrics, selections).load()


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
    """A name with the run's preset and its changes, or else its method and data set, and the date, new in `folder`."""
    method, dataset = config.method.name, Path(config.data.dataset).stem
    words = [method, dataset]
    if config.preset in presets.names():
        base = presets.load(str(config.preset), config.profile or presets.PAPER).config
        printed = {base.get("method", {}).get("name"), base.get("data", {}).get("dataset")}
        changed = [word for word in words if word not in printed]
        words = [str(config.preset), *filter(None, [config.profile]), *changed]
    return free_name(folder, f"{plain_name(words)}-{now:%Y%m%d-%H%M%S}")


def check_switch(settings: Mapping[str, Any], method: str | None, assignments: Sequence[str]) -> Config:
    """The configuration after a switch to a method and settings 'key=value'. Raises ConfigError if nothing changes."""
    return asked_for(Config.read(settings), {"method": method, "set": list(assignments)})


def _loaded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with names instead of the files that they name. The files have been run."""
    names = Names(Path())
    found = {key: names.value(key.replace("__", "."), each) for key, each in settings.items()}
    names.files.load()
    return found


def check_names(config: Config) -> None:
    """Refuse an unknown model, data set, strategy, or runner before anything loads torch. Raises ConfigError."""
    group = config.federation.group
    if "simulator.models" not in sys.modules:
        models = [card.name for card in catalog.model_table()]
        if isinstance(group, str) and group not in (*GROUPS, *models) and not set(group) & {*":/.,"}:
            raise unknown_group(group, models)
        for name in () if isinstance(group, str) else group:
            if name not in models and not set(name) & {*":/."}:
                raise unknown_model(name, models)
    if config.data.labels is None and not isinstance(config.data.domains, bool):
        datasets.refuse_unknown(config.data.dataset)
    strategy = config.selection.strategy
    if strategy not in STRATEGIES and own_files.loaded("selection", f"{strategy}.py") is None:
        raise unknown_strategy(strategy)
    if config.runtime.runner not in RUNNERS and "simulator.runners" not in sys.modules:
        raise unknown_runner(config.runtime.runner)


def check_keys(
    session: Path, method: str | None, assignments: Sequence[str], round: int | None = None
) -> None:
    """Refuse keys that the configuration after that round, or the method's, lacks, before anything loads torch."""
    name = method or _method_after(CheckedReader(session), round)
    if name in declarations.modules():
        known = {*keys(), *(f"method.{key}" for key in declarations.settings(name).model_fields)}
        for each in assignments:
            if not known.issuperset(flattened(with_overrides({}, [each]))):
                Config.read(with_overrides({"method": {"name": name}}, [each]))


def _method_after(reader: CheckedReader, round: int | None) -> str | None:
    """The method of a round, or of the next one. None if it depends on switches that wait."""
    if round:
        return reader.record(round)["method"]
    if round is None and any(each.kind == "switch" for each in checkpoints.pending(reader.folder)):
        return None
    history = reader.manifest().history if round is None and reader.rounds() else []
    return str(settings_in_force(reader.document, history)["method"]["name"])
