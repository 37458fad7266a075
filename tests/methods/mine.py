"""A plugin that a test writes: a method called 'mine', and the engine of a tiny federation that runs it."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.methods import registry
from tests import federations

HEAD = """
import functools, itertools, random, time
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from simulator.methods import Aggregated, Card, Method, register
from simulator.methods.base import cross_entropy
from simulator.base.errors import ConfigError
from simulator.base.tensors import named, of_module
from simulator.training.phase import Batch, Phase

@register("mine")
class Mine(Method):
    card = Card("Mine", "a test", "head", "nothing", "–", "–")
"""
HOOKS = {
    "init_server": "self",
    "init_client": "self, client",
    "server_networks": "self",
    "adopt": "self, server",
    "downlink": "self, round, server, client",
    "receive": "self, local, payload",
    "phases": "self, local",
    "loss": "self, nets, state, batch, draws",
    "uplink": "self, local",
    "aggregate": "self, round, server, uplinks",
    "server_phases": "self, server, uplinks",
    "before_answering": "self, local",
    "predict": "self, nets, state, x",
}

Write = Any


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Registers a plugin with this body of its class in place of the one before, until the test ends."""
    registry.get("fedprox")  # a method is registered as it is imported, so it and fedavg come before
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_ORIGINS", dict(registry._ORIGINS))

    def write(body: str) -> None:
        registry._METHODS.pop("mine", None)
        path = tmp_path / "mine.py"
        path.write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "), encoding="utf-8")
        registry.load(path)

    return write


@pytest.fixture
def mine(load: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Write:
    """Makes a plugin with these statements as the bodies of hooks, after `body`, and gives its federation's engine."""
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")

    def engine(body: str = "", /, **given: Any) -> Any:
        hooks = {name: given.pop(name) for name in [*given] if name in HOOKS}
        lines = [textwrap.dedent(body), *(f"def {name}({HOOKS[name]}): {hooks[name]}" for name in hooks)]
        load("\n".join(lines))
        return federations.built(federations.config("mine", **given)).engine

    return engine


def line(tmp_path: Path, text: str) -> int:
    """Where in the plugin a text stands."""
    lines = (tmp_path / "mine.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, each in enumerate(lines, 1) if text in each)
