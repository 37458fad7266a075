"""What families of methods have in common: means of weights, small models beside the clients' own, old sessions."""

import math
from typing import Any

import pytest
import torch

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.tensors import floating, part
from simulator.methods import Method, Uplink
from simulator.sessions import history
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

AVERAGED: dict[str, dict[str, str]] = {
    "fedavg": {}, "fedper": {}, "fedrep": {}, "ditto": {}, "fedprox": {}, "moon": {},
    "lg_fedavg": {}, "fedclassavg": {}, "fedlora": {}, "pfedes": {},
    "fml": {"meme": "tiny_mlp"}, "fedapen": {"meme": "tiny_mlp"},
    "fedmrl": {"small": "tiny_mlp"}, "pfedafm": {"small": "tiny_mlp"}, "pfedmoe": {"small": "tiny_mlp"},
}  # fmt: skip
"""The small models have BatchNorm."""
SMALL = {
    "fml": "meme",
    "fedapen": "meme",
    "fedkd": "meme",
    "fedmrl": "small",
    "pfedafm": "small",
    "pfedmoe": "small",
}


def method(name: str, architectures: list[str], samples: list[int] | None = None, **options: Any) -> Any:
    config = federations.config(name, method=options)
    return methods.get(name)(config.method, federations.federation(architectures, samples))


def sent(of: Method, client: int, value: float, weight: float = 1.0) -> Uplink:
    """An uplink in which every number is the value."""
    info = of.federation.clients[client]
    payload = of.downlink(1, of.init_server(), info)
    return Uplink(info, {name: torch.full_like(each, value) for name, each in payload.items()}, weight)


@pytest.mark.parametrize("name", AVERAGED)
def test_the_server_takes_the_mean_weighted_by_samples_and_moves_less_far_towards_stale_uplinks(
    name: str,
) -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8. From 0 towards 8 with weight ¼: 2. BatchNorm's counter does not travel."""
    averaging = method(name, ["tiny_cnn"] * 3, [1, 1, 2], **AVERAGED[name])
    start = averaging.init_server()
    after = averaging.aggregate(
        1, start, [sent(averaging, k, v) for k, v in enumerate((4.0, 8.0, 10.0))]
    ).server
    assert after.keys() == start.keys()
    zeros = {key: torch.zeros_like(each) for key, each in start.items()}
    stale = averaging.aggregate(1, zeros, [sent(averaging, 0, 8.0, 0.25)]).server
    for server, expected in ((after, 8.0), (stale, 2.0)):
        assert all((each == expected).all() for each in floating(server).values())
    counters = start.keys() - floating(start).keys()
    assert all(torch.equal(after[key], start[key]) for key in counters) and bool(counters) == bool(
        AVERAGED[name]
    )


@pytest.mark.parametrize(("name", "option"), SMALL.items())
def test_the_small_model_is_the_smallest_architecture_unless_another_is_named(name: str, option: str) -> None:
    """It starts as its architecture does. Extractors have no head."""
    for options, architecture in (({}, "tiny_cnn"), ({option: "tiny_mlp"}, "tiny_mlp")):
        beside = method(name, ["tiny_mlp", "tiny_cnn"], **options)
        assert tuple(beside.trained_beside()) == (architecture,)
        stream = beside.federation.stream(f"server/{option}")
        built = beside.federation.build(architecture, stream).state_dict()
        found = part(beside.init_server(), option)
        assert built.keys() - found.keys() == (
            {"head.weight", "head.bias"} if name.startswith("pfed") else set()
        )
        assert federations.bits(found) == federations.bits({key: built[key] for key in found})
    for architecture, why in (
        ("tiny", "unknown model 'tiny'"),
        ("cnn5", r"'cnn5' needs images of at least 16×16"),
    ):
        with pytest.raises(ConfigError, match=why):
            method(name, ["tiny_mlp", "tiny_cnn"], **{option: architecture}).check()


@pytest.mark.parametrize("name", ["fedmrl", "pfedafm", "pfedmoe"])
def test_a_client_answers_with_the_small_model_it_has_or_would_receive_next(name: str) -> None:
    """With an aggregated evaluation, it is the server's. Its private module is its own, and goes on as it was."""
    parts = federations.built(federations.config(name, federation={"participation": 1.0}))
    start = parts.engine.initial_state()
    state = federations.run(parts.engine, 1)
    tensors, key = state.clients[0], "fc2.bias"
    assert not torch.equal(tensors[f"small/{key}"], state.server[f"small/{key}"])
    for receives, expected in ((False, tensors), (True, state.server)):
        local = federations.local(parts, 0, tensors, 2)
        if receives:
            parts.method.receive(local, parts.method.downlink(2, state.server, local.info))
        parts.method.before_answering(local)
        assert torch.equal(local.nets["small"].state_dict()[key], expected[f"small/{key}"])
    private = [key for key in tensors if not key.startswith(("model/", "small/"))]
    assert private and not set(private) & state.server.keys()
    for key in private:
        assert not torch.equal(tensors[key], start.clients[0][key])


def test_a_proximal_loss_adds_half_of_its_weight_times_the_squared_distance() -> None:
    """Logits (1, 0) of class 0: CE = log(1 + e⁻¹). Of all weights only the scale differs from the received, 1 from 3:
    the squared distance is 4."""
    received = {f"received/{name}": each for name, each in Plain(3.0).state_dict().items()}
    given = Nets(Plain(1.0)), received, batch((1, 0, 0)), {}
    of_fedprox, of_ditto = method("fedprox", ["tiny_cnn"], mu=0.1), method("ditto", ["tiny_cnn"], lam=2.0)
    for loss, added in ((of_fedprox.loss(*given), 0.2), (of_ditto.own_loss(*given), 4.0)):
        assert loss.item() == pytest.approx(math.log1p(math.exp(-1)) + added, rel=1e-12)
    for name in ("fedprox", "ditto"):
        parts, _, state, local = sharing.working(name)
        sent = part(parts.method.downlink(1, state.server, local.info), "model")
        (phase,) = (each for each in parts.method.phases(local) if each.state)
        assert federations.bits(part(phase.state, "received")) == federations.bits(sent)


ALIKE = {"federation": {"group": "tiny_resnet10", "participation": 1.0}} | {
    "data": {"partition": "iid", "quantity": "equal"}
}


@pytest.mark.long
def test_a_method_without_what_it_adds_is_fedavg_bit_for_bit() -> None:
    """Ditto's own models take nothing from the shared one. HeteroAvg averages plainly, here over equal clients."""
    for name, options, sections in (
        ("fedprox", {"mu": 0.0}, {}),
        ("moon", {"mu": 0.0}, {}),
        ("ditto", {}, {}),
        ("heteroavg", {}, ALIKE),
    ):
        configs = (
            federations.config(name, method=options, **sections),
            federations.config("fedavg", **sections),
        )
        end = [federations.run(federations.built(config).engine, 2).server for config in configs]
        assert federations.bits(end[0]) == federations.bits(end[1])


OLDER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "fd", "gamma": 1.0}, {"distance": "mse", "collect": "after"}),
    ({"name": "fedgen", "teacher": "losses"}, {"weighting": "samples", "hidden_bias": True}),
    ({"name": "fedtgp", "lam": 10.0}, {"distance": "samples"}),
    ({"name": "fedrolex", "scaler": True}, {"scale_layers": False}),
]


def test_a_session_older_than_an_option_goes_on_with_what_it_did() -> None:
    for recorded, before in OLDER:
        assert history.completed({"method": recorded})["method"] == recorded | before
