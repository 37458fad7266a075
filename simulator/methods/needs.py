"""The requirements that a method may have on the clients' models. Each is checked before round 1."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from simulator import models
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors
from simulator.data.inputs import blank
from simulator.data.specs import SPECS, Kind
from simulator.models import Network
from simulator.models.federation import ClientInfo, Federation
from simulator.models.network import nesting_fault
from simulator.training.forward_mode import NO_DERIVATIVE, derivative_along

LayerOf = Callable[[Network], str]
"""A function that names one of a network's representations."""

NESTED_WIDTHS: dict[Kind, tuple[str, ...]] = {
    "image": ("heterofl_resnet", "heterofl_cnn", "htm5"),
    "tokens": ("tiny_text_widths",),
    "signal": ("tiny_mlp_widths",),
    "table": ("tiny_mlp_widths",),
}
"""Groups to suggest to users who need nested models. Any other nested group also works."""


def kind(federation: Federation, kind: Kind, why: str) -> str | None:
    """The samples are of that kind. `why` says what needs it."""
    spec = federation.spec
    return None if spec.kind == kind else f"needs {SPECS[kind].noun} ({why}): the samples are {spec.noun}"


def forward_derivative(federation: Federation) -> str | None:
    """Torch can differentiate every client's model in forward mode, in training mode. Built-in models allow it."""
    x = blank(federation.spec, 2, "meta")
    for client in federation.of_each:
        if not models.get(client.architecture).foreign:
            continue
        network = copy.deepcopy(federation.architecture_of(client)).train()
        weights: Tensors = dict(network.named_parameters())

        def answer(weights: Tensors, network: Network = network) -> Tensor:
            statistics = {name: buffer.clone() for name, buffer in network.named_buffers()}
            logits: Tensor = functional_call(network, (weights, statistics), (x,))
            return logits

        try:
            with drawing_from(federation.stream("forward derivative")):
                derivative_along(answer, weights, weights)
        # Without values, other operations may fail that work in a round.
        except (RuntimeError, TypeError) as lacking:
            reason = str(lacking).splitlines()[0].rstrip(".")
            if any(words in reason for words in NO_DERIVATIVE):
                return f"needs models with a forward-mode derivative: {client} has none ({reason})"
    return None


def same_head(federation: Federation) -> str | None:
    """Every client's head is one linear layer from the same K features to the same C classes."""
    for client in federation.of_each:
        if not isinstance(federation.architecture_of(client).head, nn.Linear):
            return (
                f"needs a head of one linear layer: {client} has {_head(federation, client)} of its own kind"
            )
    return _all_agree(federation, "all heads to be equal", lambda client: _head(federation, client))


def same_width(federation: Federation, layer: LayerOf = lambda network: network.layers[-1]) -> str | None:
    """Every client's model has that representation, flat and of one width. By default, the features."""

    def fact(client: ClientInfo) -> str:
        name, shown = layer(federation.architecture_of(client)), width(federation, client, layer)
        return f"no flat '{name}'" if shown is None else f"'{name}' of width {shown}"

    first = federation.clients[0]
    if width(federation, first, layer) is None:
        return f"needs a representation that {first} lacks: it has {fact(first)}"
    return _all_agree(
        federation, "one width of the representation", fact, lambda client: width(federation, client, layer)
    )


def nested(federation: Federation) -> str | None:
    """Every client's layers are a subset of the largest architecture's, by name and shape."""
    largest = federation.architectures[federation.largest].state_dict()
    for client in federation.of_each:
        for name, tensor in federation.architecture_of(client).state_dict().items():
            if name not in largest:
                return f"needs nested architectures: {client} has '{name}', which {federation.largest} lacks"
            if (own := list(tensor.shape)) != (whole := list(largest[name].shape)):
                return f"needs nested architectures: {client} has '{name}' {own}, {federation.largest} has it {whole}"
    return None


def nested_widths(federation: Federation) -> str | None:
    """Every client's model is a narrower one of the largest one's layers, or the largest itself."""
    largest = federation.architectures[federation.largest]
    for client in federation.of_each:
        if (why := nesting_fault(largest, federation.architecture_of(client))) is not None:
            return (
                f"needs widths that nest: {client} {why}; the largest is {federation.largest}. "
                f"Groups made of such widths are {', '.join(NESTED_WIDTHS[federation.spec.kind])}"
            )
    return None


def public_samples(federation: Federation, why: str) -> str | None:
    """The server and the clients have public samples. `why` says what needs them."""
    if federation.public:
        return None
    return f"needs public samples ({why}): data.public is not set. Set data.public=0.1 to take a tenth of the samples"


def samples(federation: Federation, fewest: int, why: str) -> str | None:
    """Every client has that many training samples. `why` says what needs them."""
    for client in federation.clients:
        if client.samples < fewest:
            return f"needs {fewest} training samples ({why}): {client} has {client.samples}"
    return None


def width(federation: Federation, client: ClientInfo, layer: LayerOf) -> int | None:
    """The width of that representation [B, width] of the client. None if its model has none, or if it is not flat."""
    network = federation.architecture_of(client)
    name = layer(network)
    if name not in network.layers:
        return None
    if name == network.layers[-1]:
        return network.num_features
    with torch.no_grad():
        network = copy.deepcopy(network).to_empty(device="cpu").eval()
        shown = network.represent(blank(federation.spec, 1, "cpu"))[name]
    return shown.shape[1] if shown.dim() == 2 else None


def _all_agree(
    federation: Federation,
    need: str,
    fact: Callable[[ClientInfo], str],
    compared: Callable[[ClientInfo], object] | None = None,
) -> str | None:
    """None, or the first client that differs from client 0, with both facts. `compared` must be equal."""
    compared = compared or fact
    first, *others = federation.of_each
    for client in others:
        if compared(client) != compared(first):
            return f"needs {need}: {first} has {fact(first)}, {client} has {fact(client)}"
    return None


def _head(federation: Federation, client: ClientInfo) -> str:
    head = federation.architecture_of(client).head
    return f"a head {head.in_features}→{head.out_features}"
