"""Models, each with features and a head, and the groups that assign them to clients."""

from simulator.models import cnn, convnets, libraries, resnet, slices, tiny, user_models, vit
from simulator.models.groups import GROUPS, assign, check_kind, members
from simulator.models.network import Network
from simulator.models.registry import (
    ImageShape,
    RegisteredModel,
    architecture,
    build,
    get,
    names,
    register,
    spec_for,
    trains_on_one_sample,
    typical,
)

__all__ = [
    "GROUPS",
    "ImageShape",
    "Network",
    "RegisteredModel",
    "architecture",
    "assign",
    "build",
    "check_kind",
    "cnn",
    "convnets",
    "get",
    "libraries",
    "members",
    "names",
    "register",
    "resnet",
    "slices",
    "spec_for",
    "tiny",
    "trains_on_one_sample",
    "typical",
    "user_models",
    "vit",
]
