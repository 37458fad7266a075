"""The models by name, and the groups that assign them to clients: client i gets model i mod X."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import RAISED, ConfigError, HtflError, is_of_memory
from simulator.base.federation_section import GROUPS, refuse_joined, unknown_group, unknown_model
from simulator.base.rng import drawing_from, drawing_nothing
from simulator.base.sections import ModelsConfig
from simulator.data.inputs import blank
from simulator.data.specs import SPECS, ImageSpec, InputSpec, Kind, SignalSpec, TableSpec, TokenSpec
from simulator.models import pretrained
from simulator.models.network import Network, with_width

RATES = {f"w{part}": Fraction(1, part) for part in (2, 4, 8, 16)}
"""HeteroFL's smaller widths, by the suffix of a model's name: resnet18_w2 is half of resnet18."""
SHOWN = 8
"""The maximum number of models' names in an error."""
SMALL_SIDE = 64
"""Images of up to this many pixels per side enter a network at full resolution by default."""


@dataclass(frozen=True)
class ImageShape(ImageSpec):
    """The images that a model is built for, and the configured first layers."""

    stem: Literal["imagenet", "cifar"] | None = None
    """7×7 with stride 2 and pooling, or 3×3 at full resolution. None: 3×3 for images of up to 64 pixels per side."""

    @property
    def full_resolution(self) -> bool:
        """Whether images enter at full resolution, through the stem of small images."""
        if self.stem is None:
            return max(self.height, self.width) <= SMALL_SIDE
        return self.stem == "cifar"


def spec_for(samples: InputSpec, config: ModelsConfig) -> InputSpec:
    """The input of models: the spec of the samples, and for images the stem. Raises ConfigError for any other stem."""
    if isinstance(samples, ImageSpec):
        return ImageShape(samples.channels, samples.height, samples.width, config.stem)
    if config.stem is not None:
        raise ConfigError(
            f"models.stem changes models of images, and the samples are {samples.noun}. Leave it out."
        )
    return samples


Builder = Callable[[Any, int], Network]
"""Builds a network from a spec of an accepted kind (for images, an ImageShape) and a number of classes."""


@dataclass(frozen=True)
class RegisteredModel:
    """A named function that builds a network for samples of a spec and C classes."""

    name: str
    title: str
    smallest_side: int
    builder: Builder
    foreign: bool = False
    """Whether it comes from a library that does not document its image sizes."""
    stems: bool = False
    """Whether its first layers can be chosen."""
    kinds: tuple[Kind, ...] = ("image",)
    """The kinds of samples that it accepts."""


_TYPICAL: dict[Kind, InputSpec] = {
    "image": ImageShape(3, 32, 32),
    "tokens": TokenSpec(length=200, vocabulary=10_000),
    "signal": SignalSpec(channels=9, time=128),
    "table": TableSpec(features=30),
}

Library = Callable[[str], RegisteredModel]
"""The model with a library's own name. Raises ConfigError for a name that the library lacks."""

_MODELS: dict[str, RegisteredModel] = {}
_LIBRARIES: dict[str, Library] = {}


def register(
    name: str,
    title: str,
    smallest_side: int = 1,
    *,
    stems: bool = False,
    kind: Kind | tuple[Kind, ...] = "image",
) -> Callable[[Builder], Builder]:
    """Add a model under `name`. Raises ValueError if the name is taken.

    `kind` is the kind of samples that it accepts, or several. `smallest_side` and `stems` are for models of images.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)

    def add(builder: Builder) -> Builder:
        if name in _MODELS:
            raise ValueError(f"a model named '{name}' exists already")
        _MODELS[name] = RegisteredModel(name, title, smallest_side, builder, stems=stems, kinds=kinds)
        return builder

    return add


def forget(name: str) -> None:
    """Remove a registration after the code that made it has failed."""
    del _MODELS[name]


def register_library(prefix: str, library: Library) -> None:
    """Make `prefix:name` refer to the library's model `name`."""
    _LIBRARIES[prefix] = library


def libraries() -> list[str]:
    """The prefixes of the libraries."""
    return list(_LIBRARIES)


def names() -> list[str]:
    """The names of all models, in order of registration."""
    return list(_MODELS)


def get(name: str) -> RegisteredModel:
    """The model of that name. Raises ConfigError with the nearest name for an unknown one."""
    refuse_joined([name])
    prefix, colon, name_there = name.partition(":")
    if colon and prefix in _LIBRARIES:
        return _LIBRARIES[prefix](name_there)
    if colon:
        known = ", ".join(_LIBRARIES)
        raise ConfigError(
            f"unknown model '{name}': '{prefix}' is none of {known}, nor a model file that is loaded; "
            f"give that as `model={prefix}.py:{name_there}`."
        )
    library, separator, name_there = name.replace(".models.", ".").replace(".", "/").partition("/")
    if separator and library in _LIBRARIES:
        raise ConfigError(f"unknown model '{name}'. A model of {library} is written {library}:{name_there}.")
    if name not in _MODELS:
        raise unknown_model(name, _MODELS)
    return _MODELS[name]


def typical(name: str) -> InputSpec:
    """Example samples that a model accepts, to show its size, such as CIFAR-10's images."""
    return _TYPICAL[get(name).kinds[0]]


def build(
    name: str,
    spec: InputSpec,
    num_classes: int,
    stream: torch.Generator,
    weights: str | bool = False,
    features: int | None = None,
) -> Network:
    """A network on the CPU with initial weights drawn from `stream`.

    `weights` replaces all but the head's with published ones: True for the hub's, else a path. With `features`, the
    features are pooled to that width, before a new head. Raises ConfigError if the samples do not fit the model;
    DataError if there are no such weights.
    """
    model = get(name)
    _check_fits(model, spec)
    with drawing_from(stream):
        network = model.builder(spec, num_classes)
    if weights:  # the head, and a stem made for small images, keep theirs
        published = pretrained.weights(name, network, weights)
        with torch.no_grad():
            network.load_state_dict({**network.state_dict(), **published})
    with drawing_from(stream):
        return with_width(network, features, name)


def architecture(name: str, spec: InputSpec, num_classes: int, features: int | None = None) -> Network:
    """The same network as `build` gives, without memory or weights (on the meta device): shapes, names, FLOPs."""
    model = get(name)
    _check_fits(model, spec)
    with _refusing(model, f"cannot be built for {spec}") if model.foreign else nullcontext():
        try:
            with torch.device("meta"), drawing_nothing():
                network = model.builder(spec, num_classes)
        except NotImplementedError:  # some of torchvision's models read values while they are built
            with drawing_from(torch.Generator()):
                network = model.builder(spec, num_classes).to("meta")
    if model.foreign:
        _check_by_trying(model, network, spec)
    with torch.device("meta"), drawing_nothing():
        return with_width(network, features, name)


def trains_on_one_sample(network: Network, spec: InputSpec) -> bool:
    """Whether an architecture can train on one sample. BatchNorm cannot if it sees only one value per channel."""
    try:
        copy.deepcopy(network).train()(blank(spec, 1, "meta"))
    except ValueError:
        return False
    return True


def _check_fits(model: RegisteredModel, spec: InputSpec) -> None:
    if spec.kind not in model.kinds:
        raise ConfigError(f"{misfit(model, spec)} {fitting(spec)}")
    if isinstance(spec, ImageSpec) and min(spec.height, spec.width) < model.smallest_side:
        raise ConfigError(
            f"model '{model.name}' needs images of at least {model.smallest_side}×"
            f"{model.smallest_side} pixels, these are {spec.height}×{spec.width}; choose another model group."
        )


def misfit(model: RegisteredModel, spec: InputSpec) -> str:
    """A sentence that says that a model does not accept the kind of samples."""
    taken = " or ".join(SPECS[kind].noun for kind in model.kinds)
    return f"Model '{model.name}' takes {taken}, and the samples are {spec.noun} ({spec})."


def fitting(spec: InputSpec) -> str:
    """A sentence with the models that accept such samples."""
    known = [name for name, model in _MODELS.items() if spec.kind in model.kinds]
    shown = ", ".join(known[:SHOWN]) + (", …" if len(known) > SHOWN else "")
    arguments = ", ".join(spec.arguments())
    return (
        f"Models for {spec.noun}: {shown or 'none is built in'}. Or name your own as `model=FILE.py:NAME`: it can "
        f"take {arguments}, and num_classes."
    )


def _check_by_trying(model: RegisteredModel, network: Network, spec: InputSpec) -> None:
    """Load a state and train a step without values. Raises ConfigError for wrong shapes, and for what fails."""
    sizes = " or data.size" if spec.kind == "image" else ""
    x = blank(spec, 2, "meta")
    with _refusing(model, f"does not take {spec.noun} of {spec}", f"choose another model{sizes}"):
        features = copy.deepcopy(network).eval().features(x)
    if features.shape != (2, network.num_features):
        raise ConfigError(f"model '{model.name}' shows no features before its head; choose another.")
    with _refusing(model, "cannot be trained here"):
        try:
            _take_a_step(copy.deepcopy(network), x)
        except RuntimeError as error:
            if "meta" not in str(error).lower():
                raise
            trial = copy.deepcopy(network).to_empty(device="cpu")  # it reads values, so it gets some
            for tensor in trial.state_dict().values():
                tensor.zero_()
            _take_a_step(trial, blank(spec, 2, "cpu"))


def _take_a_step(network: Network, x: Tensor) -> None:
    """Load a state and train. Raises the model's own errors, and ValueError for a state that changes its form."""
    before = {**network.state_dict()}
    network.load_state_dict(before, assign=True)
    labels = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    with drawing_from(torch.Generator()):
        F.cross_entropy(network.train()(x), labels).backward()
    for key, tensor in network.state_dict().items():
        if key not in before or tensor.shape != before[key].shape:
            raise ValueError(f"it changes the shape of '{key}' while it computes")


@contextmanager
def _refusing(model: RegisteredModel, what: str, remedy: str = "choose another model") -> Iterator[None]:
    """Turn an error of a library's model into a ConfigError."""
    try:
        yield
    except HtflError:
        raise
    except RAISED as refused:
        if is_of_memory(refused):
            raise
        reason = (str(refused).splitlines() or [type(refused).__name__])[0]
        raise ConfigError(f"model '{model.name}' {what} ({reason}); {remedy}.") from refused


def members(group: str | tuple[str, ...]) -> tuple[str, ...]:
    """The architectures of a named group, of a list of models, or of a single model."""
    if isinstance(group, tuple):
        if not group:
            raise ConfigError("federation.group is an empty list; name at least one model.")
        return tuple(get(name).name for name in group)
    if group in GROUPS:
        return GROUPS[group]
    if group in names() or any(each in group for each in ":/.,"):
        return (get(group).name,)
    raise unknown_group(group, names())


def assign(group: str | tuple[str, ...], clients: int) -> tuple[str, ...]:
    """The architecture of every client, in client order."""
    architectures = members(group)
    return tuple(architectures[client % len(architectures)] for client in range(clients))


def check_kind(architectures: Iterable[str], spec: InputSpec) -> None:
    """Raise ConfigError if one of the architectures does not accept the kind of samples. Names those that do."""
    for name in dict.fromkeys(architectures):
        model = get(name)
        if spec.kind not in model.kinds:
            known = [
                group
                for group, names in GROUPS.items()
                if all(spec.kind in get(each).kinds for each in names)
            ]
            groups = f"Groups for {spec.noun}: {', '.join(known)}. " if known else ""
            raise ConfigError(f"{misfit(model, spec)} {groups}{fitting(spec)}")
