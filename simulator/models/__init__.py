"""Models, each with features and a head, and the groups that assign them to clients."""

from simulator.base.federation_section import GROUPS
from simulator.models import images, libraries, signals, text, vit
from simulator.models.network import Network
from simulator.models.registry import (
    ImageShape,
    RegisteredModel,
    architecture,
    assign,
    build,
    check_kind,
    get,
    members,
    names,
    register,
    spec_for,
    trains_on_one_sample,
    typical,
)

__all__ = [
    "GROUPS", "ImageShape", "Network", "RegisteredModel", "architecture", "assign", "build", "check_kind", "get",
    "images", "libraries", "members", "names", "register", "signals", "spec_for", "text", "trains_on_one_sample",
    "typical", "vit",
]  # fmt: skip
