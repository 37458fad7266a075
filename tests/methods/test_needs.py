"""What methods need of the clients' models: met, or refused with the first client that lacks it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator import models
from simulator.methods import needs
from simulator.models import GROUPS, Network
from tests import federations


def test_a_representation_is_flat_and_of_one_width() -> None:
    """FC1 of tiny_cnn and tiny_mlp has 12 numbers, that of tiny_cnn_w2 has 6; conv1 is a stack of planes."""
    for architectures, layer, reason in [
        (["tiny_cnn", "tiny_mlp"], "fc1", None),
        (["tiny_cnn", "tiny_mlp", "tiny_cnn_w2"], "fc1", "client 2 (tiny_cnn_w2) has 'fc1' of width 6"),
        (["tiny_resnet6", "tiny_cnn"], "fc1", "client 0 (tiny_resnet6) lacks: it has no flat 'fc1'"),
        (["tiny_cnn", "tiny_resnet6"], "fc1", "client 1 (tiny_resnet6) has no flat 'fc1'"),
        (["tiny_cnn", "tiny_cnn"], "conv1", "client 0 (tiny_cnn) lacks: it has no flat 'conv1'"),
    ]:
        found = needs.same_width(federations.federation(architectures), lambda _, layer=layer: layer)
        assert found is None if reason is None else found is not None and reason in found


def test_a_representation_may_have_another_name_in_every_model() -> None:
    """The last ones, fc2 and features, have 8 numbers each. A refusal names what each model has."""
    assert needs.same_width(federations.federation(["tiny_mlp", "tiny_vit1"])) is None
    assert needs.same_width(federations.federation(["tiny_vit1", "tiny_cnn_w2"])) == (
        "needs one width of the representation: client 0 (tiny_vit1) has 'features' of width 8, "
        "client 1 (tiny_cnn_w2) has 'fc2' of width 4"
    )


def test_a_head_that_is_no_linear_layer_is_not_the_same() -> None:
    """Heads of one layer and one width are equal, whatever the features' layers."""
    assert needs.same_head(federations.federation(["tiny_cnn", "tiny_mlp", "tiny_vit1"])) is None
    federation = federations.federation(["tiny_cnn", "tiny_mlp"])
    network = federation.architectures["tiny_mlp"]
    network.head = torch.nn.Bilinear(8, 8, 2)
    network.head.in_features = 8
    unmet = "needs a head of one linear layer: client 1 (tiny_mlp) has a head 8→2 of its own kind"
    assert needs.same_head(federation) == unmet


def test_widths_are_those_of_what_the_network_shows() -> None:
    federation = federations.federation(["tiny_cnn", "tiny_cnn_w2"])
    widths = [
        [needs.width(federation, client, lambda _, layer=layer: layer) for client in federation.clients]
        for layer in ("fc1", "fc2", "conv1")
    ]
    assert widths == [[12, 6], [8, 4], [None, None]]


def test_the_groups_that_a_refusal_recommends_nest() -> None:
    for group, kind in [(group, kind) for kind, groups in needs.NESTED_WIDTHS.items() for group in groups]:
        shape = models.ImageShape(3, 32, 32) if kind == "image" else federations.samples(kind).spec
        assert needs.nested_widths(federations.federation(GROUPS[group], shape=shape)) is None


def test_samples_of_another_kind_or_too_few_are_refused() -> None:
    federation = federations.federation(["tiny_cnn"] * 3, samples=[4, 3, 2])
    assert needs.kind(federation, "image", "so") is None
    assert needs.samples(federation, 2, "so") is None
    assert needs.samples(federation, 4, "so") == "needs 4 training samples (so): client 1 (tiny_cnn) has 3"


class Doubled(torch.autograd.Function):
    """A function of a user's own, with a backward formula alone."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class DoubledAsBefore(torch.autograd.Function):
    """The same, written as before torch 2.0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


@pytest.mark.parametrize("mode", ["training", "evaluation"])
@pytest.mark.parametrize(
    ("layer", "refused"),
    [
        (lambda features: torch.cdist(features, features), "Trying to use forward AD with _cdist_forward"),
        (Doubled.apply, "You must implement the jvp function"),
        (DoubledAsBefore.apply, "In order to use an autograd.Function"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), "a causal mask"),
        (lambda features: F.dropout(F.batch_norm(features, None, None, training=True)), None),
    ],
    ids=["without formula", "own function", "own function as before", "causal attention", "fine"],
)
def test_the_derivative_is_asked_for_in_training_mode_as_fedl2g_takes_it(
    layer: Callable[[Tensor], Tensor], refused: str | None, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = federations.federation(["tiny_cnn"])
    kind = type(federation.architectures["tiny_cnn"])
    plain = kind.represent

    def represent(self: Network, x: Tensor) -> dict[str, Tensor]:
        shown = plain(self, x)
        last = self.layers[-1]
        return shown | {last: layer(shown[last])} if self.training == (mode == "training") else shown

    monkeypatch.setattr(models, "get", lambda name: SimpleNamespace(foreign=True))
    monkeypatch.setattr(kind, "represent", represent)
    told = needs.forward_derivative(federation)
    if refused is None or mode == "evaluation":
        assert told is None
    else:
        assert told is not None and refused in told


def test_a_model_is_refused_for_its_derivative_and_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for lacking, reason in [
        (
            RuntimeError("No forward AD for this.\nMore."),
            "needs models with a forward-mode derivative: client 0 (tiny_cnn) has none (No forward AD for this)",
        ),
        (RuntimeError("no values"), None),
        (TypeError("no values"), None),
    ]:
        federation = federations.federation(["tiny_cnn"])
        network = federation.architectures["tiny_cnn"]
        monkeypatch.setattr(models, "get", lambda name: SimpleNamespace(foreign=True))
        monkeypatch.setattr(type(network), "forward", mock.Mock(side_effect=lacking))
        assert needs.forward_derivative(federation) == reason
