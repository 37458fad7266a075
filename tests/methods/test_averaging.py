"""Methods that average weights or parts of them, by hand."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from simulator import models
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, floating, of_module, part
from simulator.engine.progress import unobserved
from simulator.methods import Aggregated, Method, Uplink, fedclassavg
from simulator.methods.fedclassavg import supervised_contrast
from simulator.methods.fednova import FedNova
from simulator.methods.inco import InCo, InCoConfig, mixed
from simulator.methods.scaffold import Scaffold
from simulator.sessions import history
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch

CE = math.log1p(math.exp(-1))
"""Cross-entropy of the logits (1, 0) for class 0."""


def filled(method: Any, client: int, value: float, weight: float = 1.0) -> Uplink:
    """An uplink in which every number is the value."""
    info = method.federation.clients[client]
    payload = method.downlink(1, method.init_server(), info)
    return Uplink(info, {name: torch.full_like(tensor, value) for name, tensor in payload.items()}, weight)


def trained_to(method: Any, server: Tensors, *values: float) -> list[Uplink]:
    """The uplinks of clients 0, 1, … whose training has left these values in all of their models."""
    starts = [sharing.start(method, k) for k in range(len(values))]
    return [sharing.trained_to(method, k, server, starts[k], value)[1] for k, value in enumerate(values)]


# What many of them have in common

AVERAGED: dict[str, dict[str, str]] = {
    "fedavg": {}, "fedper": {}, "fedrep": {}, "ditto": {}, "fedprox": {}, "moon": {},
    "lg_fedavg": {}, "fedclassavg": {}, "fedlora": {}, "pfedes": {},
    "fml": {"meme": "tiny_mlp"}, "fedapen": {"meme": "tiny_mlp"},
    "fedmrl": {"small": "tiny_mlp"}, "pfedafm": {"small": "tiny_mlp"}, "pfedmoe": {"small": "tiny_mlp"},
}  # fmt: skip
"""The small models have BatchNorm."""


def test_the_server_takes_the_mean_weighted_by_samples_and_moves_less_far_towards_stale_uplinks() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8. From 0 towards 8 with weight ¼: 2. BatchNorm's counter does not travel."""
    for name, options in AVERAGED.items():
        averaging = sharing.method(name, ["tiny_cnn"] * 3, [1, 1, 2], **options)
        start = averaging.init_server()
        uplinks = [filled(averaging, k, value) for k, value in enumerate((4.0, 8.0, 10.0))]
        after = averaging.aggregate(1, start, uplinks).server
        assert after.keys() == start.keys(), name
        zeros = {key: torch.zeros_like(each) for key, each in start.items()}
        stale = averaging.aggregate(1, zeros, [filled(averaging, 0, 8.0, 0.25)]).server
        for server, expected in ((after, 8.0), (stale, 2.0)):
            assert all((each == expected).all() for each in floating(server).values()), name
        counters = start.keys() - floating(start).keys()
        assert all(torch.equal(after[key], start[key]) for key in counters), name
        assert bool(counters) == bool(options), name


def test_a_proximal_loss_adds_half_of_its_weight_times_the_squared_distance() -> None:
    """Logits (1, 0) of class 0: CE = log(1 + e⁻¹). The scale alone differs, 1 from 3: a squared distance of 4."""
    received = {f"received/{name}": each for name, each in Plain(3.0).state_dict().items()}
    given = Nets(Plain(1.0)), received, batch((1, 0, 0)), {}
    of_fedprox = sharing.method("fedprox", ["tiny_cnn"], mu=0.1)
    of_ditto = sharing.method("ditto", ["tiny_cnn"], lam=2.0)
    for loss, added in ((of_fedprox.loss(*given), 0.2), (of_ditto.own_loss(*given), 4.0)):
        assert loss.item() == pytest.approx(CE + added, rel=1e-12)
    for name in ("fedprox", "ditto"):
        parts, _, state, local = sharing.working(name)
        sent = part(parts.method.downlink(1, state.server, local.info), "model")
        (phase,) = (each for each in parts.method.phases(local) if each.state)
        assert federations.bits(part(phase.state, "received")) == federations.bits(sent)


@pytest.mark.long
def test_a_method_without_what_it_adds_is_fedavg_bit_for_bit() -> None:
    """Ditto's own models take nothing from the shared one. HeteroAvg averages plainly, here over equal clients."""
    federation = {"group": "tiny_resnet10", "participation": 1.0}
    alike = {"federation": federation, "data": {"partition": "iid", "quantity": "equal"}}
    for name, options, sections in (
        ("fedprox", {"mu": 0.0}, {}),
        ("moon", {"mu": 0.0}, {}),
        ("ditto", {}, {}),
        ("heteroavg", {}, alike),
    ):
        both = [
            federations.config(name, method=options, **sections),
            federations.config("fedavg", **sections),
        ]
        end = [federations.run(federations.built(config).engine, 2).server for config in both]
        assert federations.bits(end[0]) == federations.bits(end[1])


def test_a_session_older_than_an_option_goes_on_with_what_it_did() -> None:
    for recorded, before in (
        ({"name": "fd", "gamma": 1.0}, {"distance": "mse", "collect": "after"}),
        ({"name": "fedgen", "teacher": "losses"}, {"weighting": "samples", "hidden_bias": True}),
        ({"name": "fedtgp", "lam": 10.0}, {"distance": "samples"}),
        ({"name": "fedrolex", "scaler": True}, {"scale_layers": False}),
    ):
        assert history.completed({"method": recorded})["method"] == recorded | before


# Standalone


def test_standalone_trains_by_sgd_and_nothing_travels() -> None:
    """One batch holds all of a client's data, so a round is w − η ∇ℓ(w), computed here without the runner."""
    parts = federations.built(federations.config("standalone", training={"batch_size": 1000, "lr": 0.5}))
    start = parts.engine.initial_state()
    end: Any = parts.engine.round(start, unobserved)
    assert end.record["bytes"]["up"] == end.record["bytes"]["down"] == 0
    client = end.record["participants"][0]
    assert parts.federation.clients[client].architecture == "tiny_cnn"  # which has no dropout
    model = models.build("tiny_cnn", parts.federation.spec, parts.data.num_classes, torch.Generator())
    model.load_state_dict(part(start.clients[client], "model"))
    x, y = parts.data.batch(parts.data.clients[client].train)
    F.cross_entropy(model(x), y).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(end.clients[client][f"model/{name}"], parameter - 0.5 * parameter.grad)


# FedAvg, FedPer, and FedRep


def test_each_architecture_averages_apart_and_one_that_nobody_sent_stays() -> None:
    """The CNNs (n = 1, 1) meet at (2 + 4)/2 = 3; the MLP, alone in its group, stays at 10."""
    fedavg = sharing.method("fedavg", ["tiny_cnn", "tiny_mlp", "tiny_cnn"], [1, 100, 1])
    start = fedavg.init_server()
    uplinks = [filled(fedavg, 0, 2.0), filled(fedavg, 1, 10.0), filled(fedavg, 2, 4.0)]
    server = fedavg.aggregate(1, start, uplinks).server
    for architecture, value in (("tiny_cnn", 3.0), ("tiny_mlp", 10.0)):
        assert all((each == value).all() for each in floating(part(server, architecture)).values())
    server = fedavg.aggregate(1, start, uplinks[:1]).server
    assert federations.bits(part(server, "tiny_mlp")) == federations.bits(part(start, "tiny_mlp"))


def test_a_client_receives_all_but_its_own_counter() -> None:
    _, method, state, local = sharing.working("fedavg", 1, receives=False)
    payload = method.downlink(1, state.server, local.info)
    assert "model/norm.running_mean" in payload and "model/norm.num_batches_tracked" not in payload
    local.nets.model.get_buffer("norm.num_batches_tracked").fill_(5)
    method.receive(local, payload)
    expected = part(state.server, "tiny_mlp") | {"norm.num_batches_tracked": torch.tensor(5)}
    assert federations.bits(part(local.tensors(), "model")) == federations.bits(expected)


def test_in_fedper_a_client_keeps_the_head_that_it_trained_and_receives_the_mean_body() -> None:
    """n = 1 and 3: (4 + 3·8)/4 = 7. At a switch from FedAvg, the body is taken over."""
    method = sharing.method("fedper", ["tiny_cnn", "tiny_cnn"], [1, 3])
    server = method.init_server()
    ends = [
        sharing.trained_to(method, client, server, sharing.start(method, client), value)
        for client, value in enumerate((4.0, 8.0))
    ]
    after = method.aggregate(1, server, [uplink for _, uplink in ends]).server
    assert not [name for name in (*after, *ends[0][1].payload) if "head." in name]
    local = sharing.at_work(method, 0, ends[0][0], round=2)
    method.receive(local, method.downlink(2, after, local.info))
    for name, value in local.nets.model.named_parameters():
        assert (value == (4.0 if name.startswith("head.") else 7.0)).all()
    before = {key: each + 1 for key, each in sharing.method("fedavg", ["tiny_cnn"]).init_server().items()}
    adopted = method.adopt(before)
    assert adopted.keys() == server.keys()
    assert all(torch.equal(adopted[name], before[name]) for name in adopted)


def test_in_fedrep_the_head_learns_first_and_then_the_body() -> None:
    """Logits (1, 0) of class 0: the gradient of the head's bias is softmax − one-hot = (−p, p), p = 1/(1 + e). The
    features are scale · (1, 0), and the head is the identity: dCE/dscale = −p.
    """
    fedrep, p = sharing.method("fedrep", ["tiny_cnn"], [4]), 1 / (1 + math.e)
    nets = Nets(Plain())
    loss = fedrep.head_loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    assert loss.item() == pytest.approx(CE, rel=1e-12)
    assert nets.model.head.bias.grad.tolist() == pytest.approx([-p, p], rel=1e-12)
    assert nets.model.scale.grad is None
    nets = Nets(Plain())
    fedrep.body_loss(nets, {}, batch((1, 0, 0)), {}).backward()
    assert nets.model.scale.grad.item() == pytest.approx(-p, rel=1e-12)  # type: ignore[union-attr,operator]
    assert nets.model.head.weight.grad is None


def test_momentum_and_weight_decay_leave_the_fixed_part_alone() -> None:
    """In the phase of the head, the whole body keeps its bits; in that of the body, the head does."""
    training = {"momentum": 0.9, "weight_decay": 0.1, "epochs": 1}
    _, fedrep, _, local = sharing.working(
        "fedrep", receives=False, options={"head_epochs": 3}, training=training
    )
    head, body = fedrep.phases(local)
    assert (local.epochs(head), local.epochs(body)) == (3, 1)
    for phase, moving in ((head, True), (body, False)):
        before = {name: value.clone() for name, value in local.nets.model.named_parameters()}
        assert [*steps(local, phase)]
        moved = {name for name, value in local.nets.model.named_parameters() if not value.equal(before[name])}
        assert moved == {name for name in before if name.startswith("head.") == moving}


# LG-FedAvg and FedClassAvg


def test_in_lg_fedavg_a_client_replaces_its_head_and_nothing_else() -> None:
    for client in range(2):
        _, _, state, local = sharing.working("lg_fedavg", client)
        head = {f"model/{name.replace('/', '.')}": tensor for name, tensor in state.server.items()}
        assert head.keys() == {"model/head.weight", "model/head.bias"}
        assert federations.bits(local.tensors()) == federations.bits(state.clients[client] | head)


def test_a_head_is_adopted_whole_or_not_at_all() -> None:
    """A weight that fits stays out with a bias that does not; what a head lacks here is left behind."""
    method = sharing.method("lg_fedavg", ["tiny_cnn"])
    fits = {"head/weight": torch.ones(2, 8), "head/bias": torch.ones(2)}
    assert federations.bits(method.adopt(fits | {"head/scale": torch.ones(1)})) == federations.bits(fits)
    assert method.adopt(fits | {"head/bias": torch.ones(3)}) == {}


RECEIVED = {
    "weight": torch.tensor([[0.0, 0.0], [0.0, 3.0]], dtype=torch.float64),
    "bias": torch.tensor([0.0, 1.0], dtype=torch.float64),
}
"""From the identity with a bias of zero it is 1² + 2² + 1² = 6 away."""


def test_fedclassavg_adds_the_squared_distance_to_the_received_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """CE of logits (1, 2) and class 0 is log(1 + e); ρ · 6 with ρ = 0.5. Then both views are the image: features (1, 0)
    and (0, 1) of class 0, each twice. Of the three others all are positive, one at similarity 2 and two at 0.
    """
    method = sharing.method("fedclassavg", ["tiny_cnn"], rho=0.5, contrast=3.0, tau=0.5)
    loss = method.loss(Nets(Plain()), RECEIVED, batch((1, 2, 0)), {})
    assert loss.item() == pytest.approx(math.log1p(math.e) + 3, rel=1e-14)
    monkeypatch.setattr(fedclassavg, "VIEW", lambda x, drawn: x)
    views, images = dict.fromkeys(("first", "second"), torch.empty(0)), batch((1, 0, 0), (0, 1, 0))
    loss = method.contrastive_loss(Nets(Plain()), RECEIVED, images, views)
    classified, contrast = (CE + math.log1p(math.e)) / 2, math.log(math.exp(2) + 2) - 2 / 3
    assert loss.item() == pytest.approx(classified + 3 * contrast + 3, rel=1e-14)
    parts, _, state, local = sharing.working("fedclassavg")
    (phase,) = parts.method.phases(local)
    with torch.no_grad():
        local.nets.model.head.bias += 1  # the pull is not towards the head as it moves
    assert federations.bits(phase.state) == federations.bits(part(state.server, "head"))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.sampled_from([0.07, 0.5, 2.0]))
def test_contrast_is_khoslas_equation_2(seed: int, size: int, tau: float) -> None:
    stream = rng.torch_stream(seed, "tests/contrast")
    features = torch.randn(2 * size, 3, dtype=torch.float64, generator=stream)
    labels = torch.randint(3, (size,), generator=stream).repeat(2)
    z = features / features.norm(dim=1, keepdim=True)
    terms = []
    for i in range(2 * size):
        others = [a for a in range(2 * size) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        total = sum(math.exp(float(z[i] @ z[a]) / tau) for a in others)
        terms.append(-sum(float(z[i] @ z[p]) / tau - math.log(total) for p in positives) / len(positives))
    expected = sum(terms) / len(terms)
    assert supervised_contrast(features, labels, tau).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_contrastive_training_draws_its_views_from_the_clients_own_stream() -> None:
    """The same bits with one worker and with two, and not those of training without the term."""
    before = torch.get_rng_state()

    def after(workers: int, contrast: float) -> Any:
        method = {"contrast": contrast}
        config = federations.config("fedclassavg", method=method, runtime={"workers": workers})
        return federations.state_bits(federations.run(federations.built(config).engine, 2))

    assert after(1, 1.0) == after(2, 1.0) != after(1, 0.0)
    assert torch.equal(torch.get_rng_state(), before)


# Ditto and MOON


def test_in_ditto_a_clients_own_model_starts_at_the_first_received_one_and_does_not_travel() -> None:
    ditto = sharing.method("ditto", ["tiny_cnn"], [4])
    server = ditto.init_server()
    local = sharing.at_work(ditto, 0, sharing.start(ditto, 0))
    ditto.receive(local, ditto.downlink(1, server, local.info))
    assert federations.bits(part(local.tensors(), "model")) == federations.bits(part(server, "tiny_cnn"))
    with torch.no_grad():
        local.nets["shared"].get_parameter("fc1.bias").fill_(2.0)
        local.nets.model.get_parameter("fc1.bias").fill_(3.0)
    assert (ditto.uplink(local)["model/fc1.bias"] == 2.0).all()
    later = sharing.at_work(ditto, 0, local.tensors())
    ditto.receive(later, ditto.downlink(2, server, later.info))
    assert (part(later.tensors(), "model")["fc1.bias"] == 3.0).all()


def test_moon_contrasts_the_received_model_with_the_previous_one() -> None:
    """z = (1, 0), z_glob = (2, 0), z_prev = (−1, 0): similarities 1 and −1. With τ = ½ and μ = 3,
    ℓ_con = −log(e²/(e² + e⁻²)) = log(1 + e⁻⁴).
    """
    nets = Nets(Plain(1.0), previous=Plain(-1.0))
    nets["global"] = Plain(2.0)
    loss = sharing.method("moon", ["tiny_cnn"], [4], mu=3.0, tau=0.5).loss(nets, {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(CE + 3 * math.log1p(math.exp(-4)), rel=1e-12)


def test_the_previous_model_is_the_one_the_last_local_training_left() -> None:
    parts = federations.built(federations.config("moon", federation={"participation": 1.0}))
    state = federations.run(parts.engine, 2)
    for client in (0, 1):
        local = federations.local(parts, client, state.clients[client], round=3)
        payload = parts.method.downlink(3, state.server, local.info)
        parts.method.receive(local, payload)
        kept = part(state.clients[client], "model")
        for name, expected in {"previous": kept, "global": kept | part(payload, "model")}.items():
            assert federations.bits(of_module(local.nets[name])) == federations.bits(expected)
        assert federations.bits(of_module(local.nets.model)) == federations.bits(expected)


def test_in_its_first_round_a_client_contrasts_equal_networks_and_in_older_sessions_its_own_draw() -> None:
    """So that the contrast is log 2 whatever the temperature, and teaches nothing."""
    for first in ("equal", "own"):
        _, _, state, local = sharing.working("moon", options={"first": first})
        received = of_module(local.nets["global"])
        expected = received if first == "equal" else part(state.clients[0], "model")
        assert federations.bits(of_module(local.nets["previous"])) == federations.bits(expected)
    assert local.state == {}


# FedNova


def fednova_of(samples: list[int], momentum: float = 0.0, optimizer: str = "sgd", **options: str) -> FedNova:
    """Clients of these numbers of samples, in batches of two."""
    training = TrainingConfig(batch_size=2, momentum=momentum, optimizer=optimizer)  # type: ignore[arg-type]
    found: FedNova = sharing.method("fednova", ["tiny_mlp"] * len(samples), samples, training, **options)
    return found


def test_the_server_takes_the_mean_direction_times_the_mean_number_of_steps() -> None:
    """n = 4, 12: p = ¼, ¾; τ = 2, 6, so τ_eff = ½ + 4½ = 5. From 10 to 8 and to 4: d = 1, 1, and w = 10 − 5·1 = 5.

    (FedAvg would be at 8/4 + 3·4/4 = 5 too: with d equal they agree.) From 10 to 4 and to 4: d = 3, 1, so
    Σ p d = ¾ + ¾ = 1½ and w = 10 − 5·1½ = 2½, while FedAvg stays at 4. Running statistics take the mean.
    """
    fednova = fednova_of([4, 12])
    start = sharing.filled(fednova.init_server(), 10.0)
    for first, second, expected, statistics in ((8.0, 4.0, 5.0, 5.0), (4.0, 4.0, 2.5, 4.0)):
        merged, _ = fednova.aggregate(1, start, trained_to(fednova, start, first, second))
        assert (merged["tiny_mlp/fc1.weight"] == expected).all()
        assert (merged["tiny_mlp/norm.weight"] == expected).all()
        assert (merged["tiny_mlp/norm.running_mean"] == statistics).all()
        assert merged["tiny_mlp/norm.num_batches_tracked"] == 0


def test_tau_eff_counts_steps_or_norms() -> None:
    """ρ = ½: of three gradients the last acts once, the one before 1 + ½, the first 1 + ½ + ¼: a = 4¼. p = ¼, ¾, τ = 1,
    3: Σ p τ = 2½; a = 1, 4¼, Σ p a = ¼ + 3 3/16 = 3 7/16. Without momentum, the same, and for Adam.
    """
    assert fednova_of([6], 0.5).norm(3) == pytest.approx(4.25)
    assert fednova_of([6], optimizer="adam").norm(3) == 3
    for momentum, choice, expected in ((0.5, "steps", 2.5), (0.5, "norms", 3.4375), (0.0, "norms", 2.5)):
        fednova = fednova_of([2, 6], momentum, tau_eff=choice)
        uplinks = [sharing.sent(fednova, k, steps=[tau]) for k, tau in enumerate((1, 3))]
        assert fednova.tau_eff(uplinks) == pytest.approx(expected)


# Scaffold


def scaffold_with(architecture: str = "tiny_mlp", **options: float) -> tuple[Scaffold, Tensors]:
    """Four clients of 4, 8, 4 and 4 samples: with batches of two and η = ½, τη = 1, 2, 1 and 1. The server before round
    1 has 1 in every weight, and zero in the control variates.
    """
    training = TrainingConfig(batch_size=2, lr=0.5)
    scaffold = sharing.method("scaffold", [architecture] * 4, [4, 8, 4, 4], training, **options)
    server = scaffold.init_server()
    weights = {key: each for key, each in server.items() if not key.startswith("control/")}
    return scaffold, server | sharing.filled(weights, 1.0)


def values(tensors: Tensors, prefix: str) -> set[float]:
    """The different numbers in all of a part's tensors."""
    return {value for tensor in part(tensors, prefix).values() for value in tensor.flatten().tolist()}


def test_two_rounds_of_scaffold_by_hand() -> None:
    """Round 1, clients 0 and 1, from w = 1, c = c_0 = c_1 = 0; trained to 0 and −5:

    c_0 = (1 − 0)/1 = 1, c_1 = (1 + 5)/2 = 3; w = 1 + (−1 − 6)/2 = −2½; c = 2/4 · (1 + 3)/2 = 1.
    Round 2, clients 0 and 2; trained to −3½ and −4½:
    c_0 = 1 − 1 + (−2½ + 3½)/1 = 1, c_2 = 0 − 1 + (−2½ + 4½)/1 = 1; w = −2½ + (−1 − 2)/2 = −4;
    c = 1 + 2/4 · (0 + 1)/2 = 1¼.
    """
    scaffold, server = scaffold_with("tiny_cnn")
    clients = [sharing.start(scaffold, k) for k in range(4)]
    for round, ends, controls, w, c in (
        (1, {0: 0.0, 1: -5.0}, {0: 1.0, 1: 3.0}, -2.5, 1.0),
        (2, {0: -3.5, 2: -4.5}, {0: 1.0, 1: 3.0, 2: 1.0}, -4.0, 1.25),
    ):
        uplinks = []
        for k, value in ends.items():
            clients[k], uplink = sharing.trained_to(scaffold, k, server, clients[k], value)
            uplinks.append(uplink)
        server, _ = scaffold.aggregate(round, server, uplinks)
        assert {k: values(clients[k], "control") for k in controls} == {k: {c} for k, c in controls.items()}
        assert values(server, "tiny_cnn") == {w}
        assert values(server, "control/tiny_cnn") == {c}


def test_every_step_is_corrected_by_c_minus_c_k() -> None:
    """One step each of FedAvg and of Scaffold from the same weights with c = 3, c_k = 1: they part by η · 2 = 0.2."""

    def controlled(tensors: Tensors, value: float) -> Tensors:
        return {k: torch.full_like(w, value) if k.startswith("control/") else w for k, w in tensors.items()}

    for optimizer in ["sgd", "adam"]:
        training = {"batch_size": 1000, "lr": 0.1, "optimizer": optimizer}
        ends = []
        for name in ("fedavg", "scaffold"):
            config = federations.config(name, training=training, federation={"group": "tiny_cnn"})
            parts = federations.built(config)
            start, info = parts.engine.initial_state(), parts.federation.clients[0]
            payload = parts.method.downlink(1, controlled(start.server, 3.0), info)
            done = federations.updated(parts, 0, controlled(start.clients[0], 1.0), payload)
            ends.append((done.losses["model"], part(done.tensors, "model")))
        (plain_loss, plain), (loss, corrected) = ends
        assert loss == plain_loss  # the first batch's, before any step
        for name, w in plain.items():
            torch.testing.assert_close(corrected[name], w - 0.2, rtol=1e-5, atol=1e-6)


def test_the_servers_step_size_scales_the_weights_and_not_the_statistics() -> None:
    """η_g = ½: from 1, with mean Δw = −2, to 0; running statistics take the plain mean, −1."""
    scaffold, server = scaffold_with(eta_g=0.5)
    merged, _ = scaffold.aggregate(1, server, trained_to(scaffold, server, 1.0, -3.0))
    assert (merged["tiny_mlp/fc1.weight"] == 0.0).all()
    assert (merged["tiny_mlp/norm.running_var"] == -1.0).all()
    assert "control/tiny_mlp/norm.running_var" not in merged


# HeteroAvg

SMALL, LARGE = "tiny_resnet6", "tiny_resnet10"
DEEP = "layer1.1."
"""Layers of this block are the large model's alone."""


def zeros(method: Method) -> Tensors:
    return sharing.filled(method.init_server(), 0.0)


def test_a_layer_is_the_plain_mean_over_those_that_have_it() -> None:
    """Two small at 1 and 2, one large at 6: shared layers (1 + 2 + 6)/3 = 3, whatever the sample counts; the large
    model's own stay at its 6. Running statistics, too.
    """
    heteroavg = sharing.method("heteroavg", [SMALL, SMALL, LARGE], [1, 50, 7])
    uplinks = trained_to(heteroavg, zeros(heteroavg), 1.0, 2.0, 6.0)
    merged = part(heteroavg.aggregate(1, zeros(heteroavg), uplinks).server, LARGE)
    for name in ("conv1.weight", "layer2.0.conv2.weight", "head.bias", "bn1.running_mean"):
        assert merged[name].eq(3.0).all(), name
    for name in (f"{DEEP}conv1.weight", f"{DEEP}bn2.running_var"):
        assert merged[name].eq(6.0).all(), name


def test_a_layer_the_largest_model_lacks_or_has_otherwise_is_refused_by_client_and_name() -> None:
    for architectures, reason in (
        (["tiny_cnn", "tiny_mlp"], r"client 0 \(tiny_cnn\) has 'conv1.weight', which tiny_mlp lacks"),
        (
            ["resnet10", SMALL],
            r"client 1 \(tiny_resnet6\) has 'conv1.weight' \[4, 1, 3, 3\], resnet10 has it \[64",
        ),
    ):
        with pytest.raises(ConfigError, match=reason):
            sharing.method("heteroavg", architectures, [1, 1]).check()


# InCo Aggregation: the cross-layer rule by hand, where it applies, and its bases


NAMES = ["inco_avg", "inco_moon", "inco_nova", "inco_prox", "inco_scaffold"]


def rule(**options: object) -> InCoConfig:
    return InCoConfig.model_validate({"name": "inco_avg", **options})


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def method(name: str = "inco_avg", samples: tuple[int, ...] = (4, 4), **options: object) -> InCo:
    """Clients of the small and the large model in turn, batches of two."""
    architectures = [(SMALL, LARGE)[k % 2] for k in range(len(samples))]
    return sharing.method(name, architectures, samples, TrainingConfig(batch_size=2, lr=0.5), **options)


def test_the_rule_by_hand() -> None:
    """g_0 = (3, 4), g_k = (10, 0): g_0' = (0.6, 0.8), g_k' = (1, 0), α = 1, θ = β = 0.6, and
    (1 − 0.36, −0.48) · (5 + 10)/2 = (4.8, −3.6).
    """
    update, theta, beta = mixed(vector(10, 0), vector(3, 4), rule())
    torch.testing.assert_close(update, vector(4.8, -3.6))
    assert (theta.item(), beta.item()) == (pytest.approx(0.6), pytest.approx(0.6))


def test_a_layer_that_did_not_move_mixes_nothing_and_agreeing_directions_may_be_left_alone() -> None:
    """g_0 = 0 has no direction: θ = β = 0, and g_k keeps its own, (10, 0)/10 · (0 + 10)/2. With only_conflicting,
    β > 0: g_k itself, (10, 0). For g_k = (−10, 0), β = −0.6: (−1 + 0.36, 0.48) · 7.5, as without the option.
    """
    update, theta, beta = mixed(vector(10, 0), vector(0, 0), rule())
    torch.testing.assert_close(update, vector(5, 0))
    assert (theta.item(), beta.item()) == (0.0, 0.0)
    config = rule(only_conflicting=True)
    torch.testing.assert_close(mixed(vector(10, 0), vector(3, 4), config).update, vector(10, 0))
    for other in (config, rule()):
        torch.testing.assert_close(mixed(vector(-10, 0), vector(3, 4), other).update, vector(-4.8, 3.6))


def test_the_released_code_by_hand() -> None:
    """Two kernel slices, both with g_0 = (3, 4)/1000.

    g_k = (10, 0)/1000: α = 25, β = 30 millionths, weight 1.2; ((1, 0) + 1.2 · (0.6, 0.8)) · 0.0075 = (0.0129, 0.0072).
    g_k = (−100, 0)/1000: |β|/α = 12, clamped to 5; ((−1, 0) + 5 · (0.6, 0.8)) · 0.0525 = (0.105, 0.21), clamped.
    """
    for kernel in [(1, 2), (2, 1)]:
        g_0 = vector(3, 4, 3, 4).reshape(1, 2, *kernel) / 1000
        g_k = vector(10, 0, -100, 0).reshape(1, 2, *kernel) / 1000
        update, theta, beta = mixed(g_k, g_0, rule(variant="released_code", epsilon=0.0))
        torch.testing.assert_close(update.flatten(), vector(0.0129, 0.0072, 0.1, 0.1))
        assert theta.item() == pytest.approx((1.2 + 5) / 2)
        assert beta.item() == pytest.approx((30e-6 - 300e-6) / 2)


def test_the_released_code_adds_a_little_to_norms_and_alpha() -> None:
    """g_0 = (6, 8)·10⁻⁵, g_k = (0, 1)·10⁻⁴, both of norm 10⁻⁴: α = 10⁻⁸, β = 8·10⁻⁹, so the weight is 8/(10 + 100) in
    place of 0.8, and ((0, 1) + 0.072727·(0.6, 0.8))/1.001 · 10⁻⁴.
    """
    tiny = rule(variant="released_code", epsilon=1e-7)
    update, theta, _ = mixed(vector(0, 1) / 1e4, vector(6, 8) / 1e5, tiny)
    assert theta.item() == pytest.approx(8 / 110)
    torch.testing.assert_close(update, vector(4.359277e-6, 1.0571247e-4), rtol=1e-6, atol=0)


def test_the_released_code_without_its_parts() -> None:
    """The same vectors, in thousandths: ((1, 0) + (0.6, 0.8)) · 7.5, (10, 0) + 1.2 · (3, 4), and (10, 0) + (3, 4)."""
    for options, expected in [
        ({"optimize": False}, (0.012, 0.006)),
        ({"normalize": False}, (0.0136, 0.0048)),
        ({"optimize": False, "normalize": False}, (0.013, 0.004)),
    ]:
        config = rule(variant="released_code", epsilon=0.0, **options)
        update = mixed(vector(10, 0) / 1000, vector(3, 4) / 1000, config).update
        torch.testing.assert_close(update, vector(*expected))


components = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@given(components, components)
def test_the_update_is_at_right_angles_to_layer_zeros(first: list[float], second: list[float]) -> None:
    """And finite, whatever is zero."""
    g_k, g_0 = vector(*first), vector(*second)
    for config in (rule(), rule(normalize=False), rule(variant="released_code"), rule(optimize=False)):
        assert mixed(g_k, g_0, config).update.isfinite().all()
    product = (mixed(g_k, g_0, rule()).update * g_0).sum().abs()
    assert product <= 1e-9 * (1 + g_0.norm() * (g_0.norm() + g_k.norm()))


def test_layer_zero_is_the_first_of_its_shape_in_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage 2 begins with a convolution that widens it, of which there is one. In the released code it is the first
    block's second convolution. What a transformer's block names: here two norms of a ResNet stand for them.
    """
    paper, released = method(), method(variant="released_code")
    later = ("layer2.1.conv1.weight", "layer2.1.conv2.weight")
    stage_1 = ("layer1.0.conv2.weight", "layer1.1.conv1.weight", "layer1.1.conv2.weight")
    of_stage_2 = dict.fromkeys(later, "layer2.0.conv2.weight")
    assert dict(paper.cross_layers()) == dict.fromkeys(stage_1, "layer1.0.conv1.weight") | of_stage_2
    assert dict(released.cross_layers()) == dict.fromkeys(stage_1[1:], stage_1[0]) | of_stage_2
    block = ("layer1.0.bn1.weight", "layer1.0.bn2.weight")
    for inco in (paper, released):
        monkeypatch.setattr(inco.federation.architectures[LARGE], "stages", lambda: (block,))
        assert list(inco.cross_layers()) == [("layer1.0.bn2.weight", "layer1.0.bn1.weight")]


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_acts_on_what_the_base_method_merges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers without a layer 0 are the base method's bit for bit; the others are w + the rule, in double precision."""
    merge, merged_by_base = InCo.aggregate, []

    def listening(self: InCo, round: int, server: Any, uplinks: Any) -> Aggregated:
        merged_by_base.append(super(InCo, self).aggregate(round, server, uplinks).server)
        return merge(self, round, server, uplinks)

    monkeypatch.setattr(InCo, "aggregate", listening)
    parts = federations.built(federations.config(name, federation={"participation": 1.0}))
    inco, start = parts.method, parts.engine.initial_state()
    assert isinstance(inco, InCo)
    before, end = start.server, parts.engine.round(start, unobserved).server
    (base,) = merged_by_base
    crossed = {f"{LARGE}/{layer}": f"{LARGE}/{zero}" for layer, zero in inco.cross_layers()}
    plain = [key for key in before if key not in crossed]
    assert federations.bits({k: end[k] for k in plain}) == federations.bits({k: base[k] for k in plain})
    for key, zero in crossed.items():
        g_k, g_0 = ((base[k] - before[k]).double().flatten() for k in (key, zero))
        unit_k, unit_0 = g_k / g_k.norm(), g_0 / g_0.norm()
        update = (unit_k - unit_0.dot(unit_k) * unit_0) * (g_k.norm() + g_0.norm()) / 2
        expected = before[key].double().flatten() + update
        torch.testing.assert_close(end[key].double().flatten(), expected, rtol=1e-4, atol=1e-6)
        assert not torch.equal(end[key], base[key])


def test_layers_that_nobody_sent_stay_and_have_no_theta() -> None:
    inco = method()
    start = inco.init_server()
    _, uplink = sharing.trained_to(inco, 0, start, sharing.start(inco, 0), 1.0)
    merged, metrics = inco.aggregate(1, start, [uplink])
    deep = f"{LARGE}/layer1.1.conv1.weight"
    assert torch.equal(merged[deep], start[deep])
    assert metrics["theta/layer1.1.conv1.weight"] is None
    assert metrics["theta/layer1.0.conv2.weight"] is not None


def test_scaffolds_control_variates_count_the_clients_that_have_a_layer() -> None:
    """Two small and two large clients, one large one takes part: four samples in batches of two at η = ½ are τη = 1,
    from 4 to 0 is c_k = 4. Shared layers: c = 4/4 = 1; the large model's own: 4/2 = 2.
    """
    inco = method("inco_scaffold", samples=(4, 4, 4, 4))
    server = inco.init_server()
    server |= sharing.filled({k: server[k] for k in server if not k.startswith("control/")}, 4.0)
    _, uplink = sharing.trained_to(inco, 1, server, sharing.start(inco, 1), 0.0)
    control = part(inco.aggregate(1, server, [uplink]).server, f"control/{LARGE}")
    assert control["conv1.weight"].eq(1.0).all()
    assert control["layer1.1.conv1.weight"].eq(2.0).all()


def test_fednovas_step_is_the_mean_over_the_clients_that_have_a_layer() -> None:
    """τ = 2 and 6; from 10 to 4 in both: d = 3 and 1. Shared: 10 − (2 + 6)/2 · (3 + 1)/2 = 2; the large model's own:

    10 − 6 · 1 = 4. (Weighed by samples, 4 and 12, the first would be 10 − 5 · 1½ = 2½.)
    """
    inco = method("inco_nova", samples=(4, 12))
    server = sharing.filled(inco.init_server(), 10.0)
    uplinks = [sharing.trained_to(inco, k, server, sharing.start(inco, k), 4.0)[1] for k in (0, 1)]
    merged = part(inco.aggregate(1, server, uplinks).server, LARGE)
    assert merged["conv1.weight"].eq(2.0).all()
    assert merged["layer1.1.bn1.weight"].eq(4.0).all()


def test_only_conflicting_goes_with_the_papers_optimized_rule() -> None:
    for options in ({"variant": "released_code"}, {"optimize": False}):
        with pytest.raises(ConfigError, match="only_conflicting"):
            federations.config("inco_avg", method={"only_conflicting": True, **options})


def test_models_that_are_not_nested_are_refused() -> None:
    for name in NAMES:
        with pytest.raises(ConfigError, match="nested architectures"):
            federations.built(federations.config(name, federation={"group": "tiny"}))


def test_updates_may_be_sent_divided_by_the_local_epochs() -> None:
    """Five epochs, one batch of all, from 0 to 10: the update is sent as 2. FedNova sends (0 − 10)/5 steps, over 5."""
    for name in ["heteroavg", "inco_avg", "inco_nova"]:
        training = TrainingConfig(batch_size=4, epochs=5)
        base = sharing.method(name, [SMALL, LARGE], (4, 4), training, per_epoch=True)
        server = {key: torch.zeros_like(tensor) for key, tensor in base.init_server().items()}
        _, sent = sharing.trained_to(base, 0, server, sharing.start(base, 0), 10.0)
        key, value = ("update/conv1.weight", -0.4) if name == "inco_nova" else ("model/conv1.weight", 2.0)
        torch.testing.assert_close(sent.payload[key], torch.full_like(sent.payload[key], value))
        assert (sent.payload["model/bn1.running_mean"] == 10.0).all()
