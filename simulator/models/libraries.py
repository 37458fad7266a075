"""Models of timm and torchvision by their own names (`timm:resnet18`, `torchvision:mobilenet_v3_small`), and of users.

Libraries' models are as published: stem, initial weights, and K are the library's, also for small images. Images are
resized only for models with a fixed size. The last linear layer is the head, and its input is the features.
"""

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base import own_files
from simulator.base.errors import RAISED, ConfigError, nearest
from simulator.base.own_files import OwnFile
from simulator.base.rng import drawing_from, torch_stream
from simulator.data.inputs import random
from simulator.data.specs import ARGUMENTS, SPECS, InputSpec, Kind
from simulator.models.network import Network
from simulator.models.registry import ImageShape, RegisteredModel, libraries, register_library
from simulator.models.vit import plain_attention


class Published(Network):
    """A library's model without its head: features `body(x)` [B, K] → head C."""

    layers = ("features",)
    published = "body."

    def __init__(self, body: nn.Module, head: nn.Linear, size: tuple[int, int] | None) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.size = size
        plain_attention(body)
        for module in body.modules():
            # Constant tables must be in the state too: a client's network is made from its state alone.
            module._non_persistent_buffers_set.clear()

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        if self.size is not None and x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", antialias=True)
        return {"features": self.body(x)}


def _timm(model: str) -> RegisteredModel:
    import timm

    name = f"timm:{model}"
    known = timm.list_models()
    if model.partition(".")[0] not in known:
        raise ConfigError(f"timm has no model '{model}'.{nearest(model, known)}")

    def builder(shape: ImageShape, num_classes: int) -> Network:
        body: Any = timm.create_model(model, num_classes=num_classes, in_chans=shape.channels)
        head = body.get_classifier() if hasattr(body, "get_classifier") else None
        if not isinstance(head, nn.Linear):
            raise _headless(name)
        _without_head(body, head)
        settings = body.pretrained_cfg
        size = tuple(settings["input_size"][1:]) if settings.get("fixed_input_size") else None
        return Published(body, head, size)

    return RegisteredModel(name, f"{model}, as published in timm", 1, builder, foreign=True)


def _torchvision(model: str) -> RegisteredModel:
    from torchvision import models

    name = f"torchvision:{model}"
    known = models.list_models(module=models)
    if model not in known:
        raise ConfigError(f"torchvision has no classifier '{model}'.{nearest(model, known)}")
    without_extras = (
        {"aux_logits": False, "init_weights": True} if model in ("googlenet", "inception_v3") else {}
    )

    def builder(shape: ImageShape, num_classes: int) -> Network:
        body = models.get_model(model, weights=None, num_classes=num_classes, **without_extras)
        if shape.channels != 3:
            # Its weights are drawn as PyTorch draws them.
            conv: Any
            place, conv = next(each for each in body.named_modules() if isinstance(each[1], nn.Conv2d))
            sizes = conv.out_channels, conv.kernel_size, conv.stride, conv.padding
            body.set_submodule(place, nn.Conv2d(shape.channels, *sizes, bias=conv.bias is not None))
        path, head = list(body.named_modules())[-1]
        if not isinstance(head, nn.Linear):
            raise _headless(name)
        body.set_submodule(path, nn.Identity())
        if isinstance(body, models.MNASNet):
            # Its own asks for the version of a state, which a client's state does not have.
            vars(body)["_load_from_state_dict"] = partial(nn.Module._load_from_state_dict, body)
        size = getattr(body, "image_size", None)  # of its transformers
        return Published(body, head, None if size is None else (size, size))

    return RegisteredModel(name, f"{model}, as published in torchvision", 1, builder, foreign=True)


def _without_head(body: Any, head: nn.Linear) -> None:
    """Remove a timm model's head. The layers that stand before it in a module of both remain, such as a BatchNorm."""
    path = next(path for path, module in body.named_modules() if module is head)
    both, _, _ = path.rpartition(".")
    whole = body.get_submodule(both)
    held = {*body.state_dict()} - {f"{path}.{key}" for key in head.state_dict()}
    body.reset_classifier(0)
    lost = held - {*body.state_dict()}
    if both and any(key.startswith(f"{both}.") for key in lost):
        body.set_submodule(both, whole)
        body.set_submodule(path, nn.Identity())


def _headless(name: str) -> ConfigError:
    return ConfigError(
        f"model '{name}' does not end in a linear layer that could be its head; choose another."
    )


register_library("timm", _timm)
register_library("torchvision", _torchvision)


# Models of a user's file: `mynets.py` gives `mynets:MyNet`, which works like any other model. MyNet is a class or a
# function that makes an `nn.Module`. Its arguments are any of num_classes and those of the samples' spec: in_channels
# and image_size for images; length, vocabulary, and padding for tokens; in_channels and time for signals; in_features
# for a table. Its head is the linear layer `head`, or a module with `in_features` and `out_features`, which reads
# `features(x)`. The head of `mynets:MyNet@layer` is the layer of that name.

_FILES: dict[str, str] = {}
"""The file of each prefix."""


class Own(Published):
    """A user's model that defines its features: `body.features(x)`, flattened, [B, K] → head C."""

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.body.features(x).flatten(1)}  # type: ignore[operator]


def load(path: Path) -> OwnFile:
    """Make the models of a file available as `stem:Name`. Raises ConfigError for one that fails, or a taken name."""
    prefix = path.stem
    if not re.fullmatch(r"\w+", prefix) or (prefix in libraries() and prefix not in _FILES):
        raise ConfigError(
            f"a model file is called after its name, and '{prefix}:…' cannot be used for {path}; rename it."
        )
    file, module = own_files.load("model", path)
    _FILES[prefix] = file.name
    register_library(prefix, lambda name: _model(prefix, file.name, module, name))
    return file


def origins(group: tuple[str, ...]) -> list[OwnFile]:
    """The users' files of these models, each once, in order of first use."""
    names = dict.fromkeys(
        _FILES[prefix] for prefix in (name.partition(":")[0] for name in group) if prefix in _FILES
    )
    return [file for name in names if (file := own_files.loaded("model", name)) is not None]


def _model(prefix: str, file: str, module: ModuleType, name: str) -> RegisteredModel:
    called, at, layer = name.partition("@")
    maker = getattr(module, called, None)
    known = [
        key for key, each in vars(module).items() if inspect.isclass(each) and issubclass(each, nn.Module)
    ]
    if not callable(maker):
        raise ConfigError(f"{file} has no model '{called}'.{nearest(called, known)}")
    arguments, kinds = _wanted(maker, f"{called} in {file}")

    def made(spec: InputSpec, num_classes: int) -> nn.Module:
        given = {**spec.arguments(), "num_classes": num_classes}
        network = maker(**{key: given[key] for key in arguments if key in given})
        if not isinstance(network, nn.Module):
            raise ConfigError(f"{called} in {file} makes {type(network).__name__} instead of an nn.Module.")
        return network

    def builder(spec: InputSpec, num_classes: int) -> Network:
        what = f"{called} in {file}"
        if torch.get_default_device().type == "meta":
            _check(what, made, layer if at else None, spec, num_classes)
        try:
            return _split(made(spec, num_classes), layer if at else None, num_classes, what)
        except ConfigError:
            raise
        except RAISED as error:
            if (
                torch.get_default_device().type == "meta"
            ):  # it reads values, so the registry builds it with values
                raise NotImplementedError(str(error)) from error
            raise own_files.failed(what, error) from error

    return RegisteredModel(f"{prefix}:{name}", f"{called} of {file}", 1, builder, foreign=True, kinds=kinds)


def _wanted(maker: Callable[..., Any], what: str) -> tuple[list[str], tuple[Kind, ...]]:
    """The arguments that it accepts, and the kinds of samples that offer all required ones. Raises ConfigError."""
    parameters = inspect.signature(maker).parameters.values()
    offered = {kind: {*names, "num_classes"} for kind, names in ARGUMENTS.items()}
    needed = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    kinds = tuple(
        spec.kind for kind, spec in SPECS.items() if all(each.name in offered[kind] for each in needed)
    )
    if not kinds or any(each.kind is each.POSITIONAL_ONLY for each in needed):
        known = {name for names in offered.values() for name in names}
        odd = next(
            (each for each in needed if each.name not in known or each.kind is each.POSITIONAL_ONLY), None
        )
        ways = "; ".join(f"{', '.join(ARGUMENTS[kind])} of {SPECS[kind].noun}" for kind in SPECS)
        wants = f"'{odd.name}'" if odd else " and ".join(f"'{each.name}'" for each in needed)
        raise ConfigError(
            f"{what} needs {wants}. It is given num_classes and, by name and as far as it takes them, {ways}. "
            "Give the others a default."
        )
    everything = {name for kind in kinds for name in offered[kind]}
    return [each.name for each in parameters if each.name in everything], kinds


def _split(network: nn.Module, layer: str | None, num_classes: int, what: str) -> Network:
    """The user's module as features and head. Raises ConfigError if it has no head for the number of classes."""
    if isinstance(network, Network) and layer is None:
        return network
    path = "head" if layer is None else layer
    linear = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    head: Any = dict(network.named_modules()).get(path)
    # It says how many features it reads, and how many classes it scores. Most are linear layers.
    is_head = all(isinstance(getattr(head, key, None), int) for key in ("in_features", "out_features"))
    if not is_head or (layer is None and not callable(getattr(network, "features", None))):
        wanted = (
            f"no linear layer '{layer}'" if layer else "no 'features' with a linear layer 'head' after it"
        )
        ways = f", as @{linear[-1]}" if linear else ""
        raise ConfigError(f"{what} has {wanted}; add them, or name the last linear layer after an @{ways}.")
    if head.out_features != num_classes:
        raise ConfigError(
            f"{what}: its head '{path}' has {head.out_features} outputs for {num_classes} classes."
        )
    network.set_submodule(path, nn.Identity())
    return Own(network, head, None) if layer is None else Published(network, head, None)


@torch.no_grad()
def _check(
    what: str,
    made: Callable[[InputSpec, int], nn.Module],
    layer: str | None,
    spec: InputSpec,
    num_classes: int,
) -> None:
    """Raise ConfigError unless the whole module and its two halves give equal outputs for the same samples."""
    stream = torch_stream(0, "models/own")
    with torch.device("cpu"), drawing_from(stream):
        x = random(spec, 2, stream)
        try:
            whole = made(spec, num_classes).eval()
            answers = whole(x) if type(whole).forward is not nn.Module.forward else None
            network = _split(whole, layer, num_classes, what).eval()
            features = network.features(x)
            said = network.head(features)
        except ConfigError:
            raise
        except RAISED as error:
            raise own_files.failed(f"{what}, given {spec.noun} of {spec},", error) from error
    if answers is not None and not (answers.shape == said.shape and torch.allclose(answers, said, atol=1e-5)):
        raise ConfigError(
            f"{what}: forward(x) must equal head(features(x)), without steps between or after them. "
            "Put those steps into features, or leave them out."
        )
