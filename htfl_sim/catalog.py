"""Presets, methods, models, data sets, and every key of a configuration."""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import presets as _presets
from htfl_sim import folders
from presets import Preset
from simulator.base.extras import NotDownloaded
from simulator.base.extras import forbidden as without_downloads
from simulator.base.federation_section import GROUPS
from simulator.base.nested import as_toml, toml_value
from simulator.methods.declarations import Card

if TYPE_CHECKING:
    from simulator.base.documents import Report
    from simulator.base.sections import Range
    from simulator.config import Config
    from simulator.config import Setting as Setting
    from simulator.methods.base import Method
    from simulator.methods.declarations import Declared
    from simulator.models.federation import Federation

__all__ = [
    "DatasetCard", "MethodCard", "ModelCard", "NotDownloaded", "Preset", "Promise", "as_toml",
    "check_dataset", "check_method", "dataset", "datasets", "export_federation", "fetch_dataset",
    "fetch_missing", "import_federation", "method", "methods", "model_groups", "models", "preset",
    "preset_config", "presets", "report", "settings", "toml_value", "without_downloads",
]  # fmt: skip

Place = str | Path
Told = Callable[[int, int], None]
"""Called during a download with the bytes so far and the total bytes, which are 0 if unknown."""
preset_groups, preset_names = _presets.groups, _presets.names


@dataclass(frozen=True, kw_only=True)
class MethodCard(Card):
    """A method: its card, and `parameters`, its own settings as {'key', 'default', 'values', 'description'}.

    space: what `htfl-sim tune` searches, by dotted key. obstacle: why the models in question cannot run it.
    """

    name: str
    parameters: list[dict[str, Any]]
    space: "Mapping[str, Range]"
    obstacle: str | None = None

    @property
    def ranges(self) -> dict[str, str]:
        """The space, as a table prints it."""
        from simulator.base.sections import range_text

        return {key: range_text(each) for key, each in self.space.items()}

    def to_json(self) -> dict[str, Any]:
        """For programs, with the kind and the ends or options of each range."""
        from simulator.base.sections import range_as_json

        listed = {key: getattr(self, key) for key in ("title", "paper", "kind", "needs", "down", "up")}
        space = {key: range_as_json(each) for key, each in self.space.items()}
        return {"name": self.name, **listed, "parameters": self.parameters, "space": space}


@dataclass(frozen=True)
class ModelCard:
    """A model, sized for CIFAR-10: 3×32×32 images and 10 classes. Buffers such as BatchNorm's do not count.

    A model of tokens is sized for length 200 and vocabulary 10,000, one of signals for 9×128, and one of a table for 30
    features. `samples` are the kinds that it takes: image, tokens, signal, or table.
    """

    name: str
    title: str
    parameters: int
    bytes: int
    features: int
    layers: list[str]
    samples: list[str]


@dataclass(frozen=True)
class DatasetCard:
    """A data set. `here`: whether its files are in the data folder. Numbers that only the files tell are None."""

    name: str
    title: str
    train: int | None
    test: int | None
    classes: int
    shape: str
    here: bool
    source: str
    files: list[str]


@dataclass(frozen=True)
class Promise:
    """A promise of every method, in a sentence; whether this method keeps it, and if not, how it breaks it."""

    promise: str
    kept: bool
    how: str | None


def presets(paper: str | None = None, method: str | None = None, dataset: str | None = None) -> list[Preset]:
    """The named experiments. Filters: of a paper's tables, of a method, on a data set."""
    return [
        each
        for each in _presets.all()
        if (paper is None or any(paper.casefold() in one.paper.casefold() for one in each.paper))
        and method in (None, each.config.get("method", {}).get("name"))
        and dataset in (None, each.config.get("data", {}).get("dataset"))
    ]


def preset(name: str, profile: str | None = None) -> Preset:
    """A named experiment, with the paper's settings or those of a `profile`. Raises PresetError."""
    return _presets.load(name, profile or _presets.PAPER)


def preset_config(found: Preset, profile: str | None = None) -> dict[str, Any]:
    """The complete configuration of a preset, in the form that `hs.config` accepts."""
    from simulator.config import Config

    config = Config.read(found.config).to_json() | {"preset": found.name}
    return config | ({"profile": profile} if profile else {})


def methods() -> list[MethodCard]:
    """The methods: built-in ones, those of installed packages, and those of loaded plugins."""
    from simulator import methods as room

    return [method(each) for each in room.names()]


def method(name: str) -> MethodCard:
    """One method. Raises ConfigError with the nearest name for an unknown one."""
    from simulator import methods as room

    return _of_method(room.declared(name))


def _of_method(found: "Declared | type[Method]") -> MethodCard:
    from pydantic_core import PydanticUndefined

    from simulator.base.sections import TrainingConfig

    parameters = [
        {
            "key": key,
            "default": None if field.default is PydanticUndefined else field.default,
            "values": list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else None,
            "description": field.description or "",
        }
        for key, field in found.Config.model_fields.items()
        if key != "name"
    ]
    sections = (("training", TrainingConfig), ("method", found.Config))
    space = {f"{name}.{key}": each for name, section in sections for key, each in section.space.items()}
    return MethodCard(**vars(found.card), name=found.name, parameters=parameters, space=space)


def method_choices(config: Mapping[str, Any]) -> list[MethodCard]:
    """Every method, with its unmet need in `obstacle`, as far as it is known without the data. Loads torch."""
    from simulator import methods
    from simulator.base.errors import HtflError
    from simulator.config import Config

    federation = _federation(Config.read(config))
    found = []
    for name in methods.names():
        method = methods.get(name)
        try:
            obstacle = method(method.Config(name=name), federation).unmet_need()
        except HtflError as error:
            obstacle = str(error)
        found.append(replace(_of_method(method), obstacle=obstacle))
    return found


def _federation(config: "Config") -> "Federation":
    import torch

    from simulator import models
    from simulator.data import datasets, inputs, specs
    from simulator.models.federation import ClientInfo, Federation

    spec: specs.InputSpec = specs.ImageSpec(3, 32, 32)
    classes, samples = 10, 10_000
    if config.data.dataset in datasets.names():
        dataset = datasets.get(config.data.dataset)
        spec, classes = dataset.spec, dataset.classes
    elif (declared := datasets.declared(config.data.dataset, config.data)) is not None:
        spec = declared
    if isinstance(spec, specs.ImageSpec):
        spec = inputs.shaped(spec, config.data)
    architectures = models.assign(config.federation.group, config.federation.clients)
    everything = tuple(range(classes))
    return Federation(
        seed=config.training_seed,
        rounds=config.rounds,
        num_classes=classes,
        spec=models.spec_for(spec, config.models),
        clients=tuple(
            ClientInfo(number, name, samples, everything) for number, name in enumerate(architectures)
        ),
        training=config.training,
        device=torch.device("cpu"),
        pretrained=config.federation.pretrained,
        features=config.models.features,
        public=int(config.data.public is not None),
    )


def check_method(name: str) -> Iterator[Promise]:
    """Check every promise of a method on tiny models, one by one. Raises ConfigError."""
    from simulator.contract import PROMISES, Subject

    subject = Subject(name)
    for promise in PROMISES:
        broken = promise.broken_by(subject)
        yield Promise(promise.sentence, broken is None, broken)


def trial_group(name: str) -> str:
    """The group of models on which `check_method` tests a method."""
    from simulator.contract import Subject

    return Subject(name).group


def refuse_broken(name: str, tried: Sequence[Promise]) -> None:
    """Raise MethodError if a method breaks a promise."""
    from simulator.base.errors import MethodError

    if count := sum(not each.kept for each in tried):
        raise MethodError(f"method '{name}' breaks {count} of {len(tried)} promises.")


def models(name: str | None = None) -> list[ModelCard]:
    """The models: all, the one of that name, or those of that group. Raises ConfigError.

    Loads torch for a model that the table of built-in models does not have.
    """
    table = {card.name: card for card in model_table()}
    if "simulator.models" not in sys.modules:
        if name is None:
            return list(table.values())
        if all(each in table for each in GROUPS.get(name, (name,))):
            return [table[each] for each in GROUPS.get(name, (name,))]
    from simulator import models as room

    return [_of_model(each) for each in (room.members(name) if name else room.names())]


def _of_model(name: str) -> ModelCard:
    from simulator import models as room

    network = room.architecture(name, room.typical(name), 10)
    parameters = list(network.parameters())
    size, card = sum(each.numel() * each.element_size() for each in parameters), room.get(name)
    count, layers = sum(each.numel() for each in parameters), list(network.layers)
    return ModelCard(name, card.title, count, size, network.num_features, layers, list(card.kinds))


def model_table() -> list[ModelCard]:
    """The built-in models, from the table beside them, which their code gives too."""
    text = resources.files("simulator").joinpath("models/cards.csv").read_text(encoding="utf-8")
    return [
        ModelCard(name, title, int(parameters), int(bytes), int(features), layers.split(), samples.split())
        for name, title, parameters, bytes, features, layers, samples in csv.reader(text.splitlines())
    ]


def model_groups(name: str | None = None) -> Mapping[str, Sequence[str]]:
    """The groups that assign models to clients, by name: all, or the one of that name."""
    return {group: members for group, members in GROUPS.items() if name in (None, group)}


def datasets(data_dir: Place | None = None) -> list[DatasetCard]:
    """The data sets, and whether their files are here."""
    return [dataset(each, data_dir) for each in dataset_names()]


def dataset(name: str, data_dir: Place | None = None) -> DatasetCard:
    """One data set. Raises ConfigError with the nearest name for an unknown one."""
    from simulator.data.datasets import get

    found, folder = get(name), folders.data_folder(data_dir)
    about = (found.name, found.title, found.train_samples, found.test_samples, found.classes, str(found.spec))
    files = [str(file) for file in found.files(folder)]
    return DatasetCard(*about, found.is_present(folder), found.source, files)


def dataset_names() -> list[str]:
    """The names of the data sets."""
    from simulator.data import datasets as room

    return room.names()


def fetch_dataset(name: str, data_dir: Place | None = None, progress: Told | None = None) -> DatasetCard:
    """Download a missing or damaged data set, and check its checksums. Raises DataError."""
    from simulator.data.datasets import get

    told = () if progress is None else (progress,)
    get(name).fetch(folders.data_folder(data_dir), *told)
    return dataset(name, data_dir)


def check_dataset(name: str, data_dir: Place | None = None) -> DatasetCard:
    """Check a data set's files. Raises DataError for the first missing or damaged one."""
    from simulator.data.datasets import get

    get(name).check(folders.data_folder(data_dir))
    return dataset(name, data_dir)


def is_missing(name_or_path: str, data_dir: Place | None = None) -> bool:
    """Whether this data set can be downloaded and is missing. A user's own data are never missing."""
    return name_or_path in dataset_names() and not dataset(name_or_path, data_dir).here


def fetch_missing(name_or_path: str, data_dir: Place | None = None) -> bool:
    """Download a data set unless it is here. Returns whether it was downloaded. Raises DataError."""
    missing = is_missing(name_or_path, data_dir)
    if missing:
        fetch_dataset(name_or_path, data_dir)
    return missing


def report(dataset: Place, settings: Sequence[str] = (), data_dir: Place | None = None) -> "Report":
    """What is read of a data set: samples by class, features, what is left out, and what looks odd.

    settings: 'data.key=value', as on the command line. Raises ConfigError, and DataError for samples on which a run
    would say nothing.
    """
    import numpy as np

    from simulator.base.errors import ConfigError
    from simulator.base.nested import with_overrides
    from simulator.config import Config
    from simulator.data.datasets import read
    from simulator.data.samples import check_report, report_of

    given = with_overrides({}, settings)
    if others := sorted({*given} - {"data"}):
        raise ConfigError(f"{others[0]} is no key of the data. Use keys such as `data.target=label`.")
    section = {**given.get("data", {}), "dataset": str(dataset)}
    config = Config.read({"method": {"name": "standalone"}, "data": section}).data
    samples = read(config, config.dataset, folders.data_folder(data_dir))
    formed = samples.learned(np.arange(samples.test_from))(samples)
    found = report_of(samples, formed.reading)
    check_report(found, config.dataset)
    return found


def import_federation(
    folder: Place, target: Place, *, kind: str | None = None, unpickle: bool = False, split: str | None = None
) -> "Report":
    """Turn a federation of PFLlib, HtFLlib, or LEAF into samples.npz and clients.json in a new folder.

    Returns what was read; its clients are in order. kind: 'images', 'signals', 'tokens', or 'features', where samples
    can be read in several ways. unpickle: read PFLlib's pickled files, in a process of its own that runs nothing of
    them. split: shares such as '8:2' for a federation without test parts. Raises ConfigError, and DataError for
    files that cannot be read.
    """
    from simulator.base.errors import DataError
    from simulator.data.other_tools import FILES, convert

    found = convert(Path(folder), Path(target), kind, unpickle, split)
    files = [Path(target) / name for name in FILES]
    try:
        said = report(files[0])
    except DataError:
        for file in files:
            file.unlink()
        raise
    said["clients"], said["notes"] = found.sizes(), [*found.notes, *said["notes"]]
    said["left_out"] = {**found.left_out, **said["left_out"]}
    return said


def export_federation(config: "Config", folder: Place, data_dir: Place | None = None) -> list[str]:
    """Write the clients of round 1 as PFLlib and HtFLlib read them, into a new folder.

    Returns sentences on what these cannot hold. Raises ConfigError or DataError.
    """
    import torch

    from simulator.data import other_tools
    from simulator.data.federated import load

    data = load(config.source(folders.data_folder(data_dir)), torch.device("cpu"))
    return other_tools.write(data, Path(folder), config.training.batch_size)


def config_keys() -> list[str]:
    """Every dotted key of a configuration except the methods' keys."""
    from simulator.config import keys

    return keys()


def method_keys(method: str | None = None) -> list[str]:
    """The keys of one method or of all, without 'method.'. An unknown method can have any of them."""
    from simulator.methods import declarations

    names = declarations.modules()
    every = map(declarations.settings, [method] if method in names else names)
    return sorted({key for each in every for key in each.model_fields} - {"name"})


def settings(key: str | None = None, method: str | None = None) -> "list[Setting]":
    """Every key of a configuration with its type, default, and meaning. `method` adds that method's own keys.

    key: only this key, with one entry for each meaning if methods share it. Raises ConfigError.
    """
    from simulator import config

    if key is not None:
        return config.setting(key)
    return config.settings() + (config.settings_of(method) if method else [])


def preset_json(found: Preset) -> dict[str, Any]:
    """A preset without its configuration, for programs."""
    return {
        "name": found.name,
        "title": found.title,
        "paper": [asdict(each) for each in found.paper],
        "profiles": [{"name": each.name, "sources": list(each.sources)} for each in found.profiles],
    }
