"""Any classifier of timm or torchvision by its own name: `timm:resnet18`, `torchvision:mobilenet_v3_small`.

They are as published: stem, initial weights, and K are the library's, also for small images. Images are resized only
for models with a fixed size. The last linear layer is the head, and its input is the features.
"""

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError, nearest
from simulator.models.network import Network
from simulator.models.registry import ImageShape, RegisteredModel, register_library
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
            _replace(body, next(_named(body, nn.Conv2d)), shape.channels)
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


def _named(body: nn.Module, kind: type[nn.Module]) -> Any:
    return ((path, module) for path, module in body.named_modules() if isinstance(module, kind))


def _replace(body: nn.Module, first: tuple[str, nn.Conv2d], channels: int) -> None:
    """Give the first convolution that many input channels. Its weights are drawn as PyTorch draws them."""
    path, conv = first
    body.set_submodule(
        path,
        nn.Conv2d(
            channels,
            conv.out_channels,
            conv.kernel_size,  # type: ignore[arg-type]
            stride=conv.stride,  # type: ignore[arg-type]
            padding=conv.padding,  # type: ignore[arg-type]
            bias=conv.bias is not None,
        ),
    )


def _headless(name: str) -> ConfigError:
    return ConfigError(
        f"model '{name}' does not end in a linear layer that could be its head; choose another."
    )


register_library("timm", _timm)
register_library("torchvision", _torchvision)
