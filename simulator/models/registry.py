"""The models by name. Building one draws its initial weights from the stream it is given."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch

from simulator.errors import ConfigError, nearest
from simulator.models import pretrained
from simulator.models.network import Network
from simulator.rng import drawing_from, drawing_nothing

RATES = {f"w{part}": Fraction(1, part) for part in (2, 4, 8, 16)}
"""HeteroFL's smaller widths, by what follows a model's name: half of resnet18 is resnet18_w2."""
SMALL_SIDE = 64
"""Pixels up to which images enter a network at full resolution, unless a stem is asked for."""


@dataclass(frozen=True)
class ImageShape:
    """What a model is built for: channels × height × width, and the first layers that are asked for."""

    channels: int
    height: int
    width: int
    stem: Literal["imagenet", "cifar"] | None = None
    """7×7 with stride 2 and pooling, or 3×3 at full resolution; None: 3×3 for images up to 64 pixels a side."""

    @property
    def full_resolution(self) -> bool:
        """Whether images enter at full resolution: the stem of small images."""
        if self.stem is None:
            return max(self.height, self.width) <= SMALL_SIDE
        return self.stem == "cifar"

    def __str__(self) -> str:
        return f"{self.channels}×{self.height}×{self.width}"


Builder = Callable[[ImageShape, int], Network]


@dataclass(frozen=True)
class RegisteredModel:
    """A named way to build a network for images of a shape and a number of classes C."""

    name: str
    title: str
    smallest_side: int
    builder: Builder
    foreign: bool = False
    """Whether it comes from a library that does not say which images it takes."""
    stems: bool = False
    """Whether its first layers can be chosen."""


Library = Callable[[str], RegisteredModel]
"""The model that a library's own name stands for. Raises ConfigError for a name it has not."""

_MODELS: dict[str, RegisteredModel] = {}
_LIBRARIES: dict[str, Library] = {}


def register(
    name: str, title: str, smallest_side: int, *, stems: bool = False
) -> Callable[[Builder], Builder]:
    """Add a model under `name`. Raises ValueError when the name is taken."""

    def add(builder: Builder) -> Builder:
        if name in _MODELS:
            raise ValueError(f"a model named '{name}' exists already")
        _MODELS[name] = RegisteredModel(name, title, smallest_side, builder, stems=stems)
        return builder

    return add


def forget(name: str) -> None:
    """Take back a registration; what registered it has failed."""
    del _MODELS[name]


def register_library(prefix: str, library: Library) -> None:
    """Let `prefix:name` stand for what the library calls `name`."""
    _LIBRARIES[prefix] = library


def libraries() -> list[str]:
    """The prefixes that stand for a library."""
    return list(_LIBRARIES)


def names() -> list[str]:
    """The names of all models, in order of registration."""
    return list(_MODELS)


def get(name: str) -> RegisteredModel:
    """The model of that name. Raises ConfigError, naming the nearest one, when there is none."""
    prefix, colon, name_there = name.partition(":")
    if colon and prefix in _LIBRARIES:
        return _LIBRARIES[prefix](name_there)
    if colon:
        known = ", ".join(_LIBRARIES)
        raise ConfigError(
            f"unknown model '{name}': '{prefix}' is none of {known}, nor a model file that is loaded; "
            f"give that with --model {prefix}.py:{name_there}."
        )
    if name not in _MODELS:
        raise ConfigError(f"unknown model '{name}'.{nearest(name, _MODELS)} See `htfl-sim models`.")
    return _MODELS[name]


def build(
    name: str, shape: ImageShape, num_classes: int, stream: torch.Generator, weights: str | bool = False
) -> Network:
    """A network on the CPU with initial weights drawn from `stream`, all but the head's replaced by published
    `weights` where these are asked for: True for the hub's, else a path.

    Raises ConfigError when the images are too small for the model, DataError when there are no such weights.
    """
    model = get(name)
    _check_side(model, shape)
    with drawing_from(stream):
        network = model.builder(shape, num_classes)
    if weights:
        pretrained.apply(name, network, weights)
    return network


def architecture(name: str, shape: ImageShape, num_classes: int) -> Network:
    """The same network without memory or weights (on the meta device): shapes, names, FLOPs."""
    model = get(name)
    _check_side(model, shape)
    try:
        with _on_meta():
            network = model.builder(shape, num_classes)
    except NotImplementedError:  # a few of torchvision's read values while they are built
        with drawing_from(torch.Generator()):
            network = model.builder(shape, num_classes).to("meta")
    if model.foreign:
        _check_by_trying(model, network, shape)
    return network


def trains_on_one_image(network: Network, shape: ImageShape) -> bool:
    """Whether an architecture can train on a single image: BatchNorm cannot, where it sees one value per channel."""
    image = torch.empty(1, shape.channels, shape.height, shape.width, device="meta")
    try:
        copy.deepcopy(network).train()(image)
    except ValueError:
        return False
    return True


def _check_side(model: RegisteredModel, shape: ImageShape) -> None:
    if min(shape.height, shape.width) < model.smallest_side:
        raise ConfigError(
            f"model '{model.name}' needs images of at least {model.smallest_side}×"
            f"{model.smallest_side} pixels, these are {shape.height}×{shape.width}; choose another model group."
        )


def _check_by_trying(model: RegisteredModel, network: Network, shape: ImageShape) -> None:
    """Send shapes without values through the network. Raises ConfigError where it does not take or make them."""
    x = torch.empty(2, shape.channels, shape.height, shape.width, device="meta")
    try:
        features = copy.deepcopy(network).eval().features(x)
    except (RuntimeError, ValueError, AssertionError, TypeError) as refused:
        raise ConfigError(
            f"model '{model.name}' does not take images of {shape} ({str(refused).splitlines()[0]}); "
            "choose another model or data.size."
        ) from refused
    if features.shape != (2, network.num_features):
        raise ConfigError(f"model '{model.name}' shows no features before its head; choose another.")


@contextmanager
def _on_meta() -> Iterator[None]:
    with torch.device("meta"), drawing_nothing():
        yield
