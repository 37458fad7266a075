"""FedMRL: nested widths of a projected representation by hand; two whole rounds against a reference."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from simulator.base.errors import ConfigError
from simulator.base.tensors import floating, part
from simulator.methods import Uplink
from simulator.methods.fedmrl import FedMRL
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference
from tests.methods.small_models import Times, ce, features

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"


def method(*architectures: str, **options: Any) -> FedMRL:
    return FedMRL(
        federations.config("fedmrl", method=options).method,
        federations.federation(architectures or (WIDE, HALF)),
    )


def nets() -> Nets:
    """G(x) = x, F(x) = 3x, v = G + 2F; the own head's logits are (v, 0), the small one's (0, v)."""
    projection = nn.Linear(2, 1)
    projection.load_state_dict({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.zeros(1)})
    return Nets(Times(3.0, 0), small=Times(1.0, 1), projection=projection)


def of_one_feature(**options: Any) -> FedMRL:
    fedmrl = method(**options)
    fedmrl.federation.__dict__["architectures"] = {WIDE: Times(3.0, 0)}
    fedmrl.federation.__dict__["smallest"] = WIDE
    return fedmrl


def test_the_small_models_features_come_first_and_its_head_reads_the_first_of_the_projected_ones() -> None:
    """x = 1: u = (1, 3), v = 1·1 + 2·3 = 7. Own logits (7, 0), the small head's (0, 7): for class 0 the losses are
    log(1 + e⁻⁷) and log(1 + e⁷)."""
    loss = of_one_feature().loss(nets(), {}, Batch(torch.ones(1, 1, 1, 1), torch.tensor([0])), {})
    assert loss.item() == pytest.approx(math.log1p(math.exp(-7)) + math.log1p(math.exp(7)))


def test_each_loss_has_its_weight() -> None:
    loss = of_one_feature(m_small=0.5, m_large=2.0).loss(
        nets(), {}, Batch(torch.ones(1, 1, 1, 1), torch.tensor([0])), {}
    )
    assert loss.item() == pytest.approx(2 * math.log1p(math.exp(-7)) + 0.5 * math.log1p(math.exp(7)))


def test_the_answer_is_the_own_heads_on_the_whole_projected_representation() -> None:
    x = torch.ones(1, 1, 1, 1)
    assert of_one_feature().predict(nets(), {}, x).tolist() == [[7.0, 0.0]]


def test_small_models_are_averaged_by_samples() -> None:
    """n = 1 and 3: (1·4 + 3·8)/4 = 7. BatchNorm's counter stays with the server."""
    federation = federations.federation([WIDE, WIDE], samples=[1, 3])
    fedmrl = FedMRL(federations.config("fedmrl", method={"small": "tiny_mlp"}).method, federation)
    server = fedmrl.init_server()
    uplinks = [
        Uplink(client, {name: torch.full_like(each, value) for name, each in floating(server).items()})
        for client, value in zip(federation.clients, (4.0, 8.0), strict=True)
    ]
    merged = fedmrl.aggregate(1, server, uplinks).server
    assert all(each.eq(7.0).all() for each in floating(merged).values())
    assert merged.keys() - uplinks[0].payload.keys() == {"small/norm.num_batches_tracked"}


def test_the_projection_stays_with_its_client_and_goes_on_from_where_it_was() -> None:
    parts = federations.built(federations.config("fedmrl", federation={"participation": 1.0}))
    start = parts.engine.initial_state()
    first = parts.engine.round(start, lambda event: None)
    second = parts.engine.round(first, lambda event: None)
    weights = [state.clients[0]["projection/weight"] for state in (start, first, second)]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])
    assert not torch.equal(start.clients[0]["projection/weight"], start.clients[1]["projection/weight"])
    assert {name.split("/")[0] for name in first.server} == {"small"}


def test_a_client_answers_with_the_small_model_it_has_or_would_receive_next() -> None:
    """What it has is what it trained last; with an aggregated evaluation it is the server's."""
    parts = federations.built(federations.config("fedmrl", federation={"participation": 1.0}))
    state = federations.run(parts.engine, 1)
    own = federations.local(parts, 0, state.clients[0], 2)
    parts.method.before_answering(own)
    assert torch.equal(own.nets["small"].state_dict()["head.weight"], state.clients[0]["small/head.weight"])
    received = federations.local(parts, 0, state.clients[0], 2)
    parts.method.receive(received, parts.method.downlink(2, state.server, received.info))
    parts.method.before_answering(received)
    assert torch.equal(received.nets["small"].state_dict()["head.weight"], state.server["small/head.weight"])


def test_the_small_model_starts_as_its_architecture_does() -> None:
    fedmrl = method()
    built = fedmrl.federation.build(HALF, fedmrl.federation.stream("server/small"))
    assert federations.bits(part(fedmrl.init_server(), "small")) == federations.bits(built.state_dict())


def test_a_narrower_head_is_drawn_from_the_servers_stream_too() -> None:
    """The same weights each time, and other ones under another seed."""
    fedmrl = method(d_1=2)
    other = FedMRL(fedmrl.config, replace(fedmrl.federation, seed=8))
    heads = [each.init_server()["small/head.weight"] for each in (fedmrl, fedmrl, other)]
    assert heads[0].shape == (2, 2)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


def test_features_narrower_than_the_small_models_are_refused_by_client() -> None:
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn_w2\) has 4; lower method.d_1"):
        method(small=WIDE).check()
    method(small=WIDE, d_1=4).check()


def test_an_unknown_small_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown model 'tiny_cmn'"):
        method(small="tiny_cmn").check()


def test_the_small_model_travels_and_nothing_else() -> None:
    """tiny_cnn at half its width, for grey images of four classes, with a head of two inputs: 20 + 54 + 28 + 12."""
    parameters = (9 + 1) * 2 + (8 + 1) * 6 + (6 + 1) * 4 + (2 + 1) * 4
    config = federations.config(
        "fedmrl", method={"d_1": 2}, federation={"participation": 1.0, "group": [WIDE, HALF]}
    )
    record = federations.run(federations.built(config).engine, 1).record
    assert record is not None
    assert record["bytes"]["per_client_up"] == record["bytes"]["per_client_down"] == [4 * parameters] * 4
    assert set(record["bytes"]["by_tensor"]) == {"up/small", "down/small"}


@pytest.mark.parametrize("d_1", [4, 2])
def test_two_whole_rounds_equal_the_reference(d_1: int) -> None:
    """Clients of 8 and 4 features; the small model has 4, used as they are or as the means of two neighbours each."""
    lr = 0.1
    config = federations.config(
        "fedmrl",
        method={"d_1": d_1, "m_small": 0.5},
        federation={"clients": 3, "participation": 1.0, "group": [WIDE, HALF]},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    projections = [reference.leaves(part(tensors, "projection")) for tensors in begun]
    data = [reference.samples(parts, client) for client in range(3)]
    total = sum(len(y) for _, y in data)
    shared = part(start.server, "small")
    for t in (1, 2):
        average = {name: torch.zeros_like(weight) for name, weight in shared.items()}
        for client, (x, y) in enumerate(data):
            small, own, projection = reference.leaves(shared), models[client], projections[client]
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                g = features(small, x[rows])
                g = g if d_1 == 4 else (g[:, ::2] + g[:, 1::2]) / 2
                u = torch.cat([g, features(own, x[rows])], 1)
                v = u @ projection["weight"].T + projection["bias"]
                (0.5 * ce(v[:, :d_1], small, y[rows]) + ce(v, own, y[rows])).backward()
                for weights in (small, own, projection):
                    reference.step(list(weights.values()), lr)
            for name, weight in small.items():
                average[name] += weight.detach() * len(y) / total
        shared = average

    reference.assert_equal(part(end.server, "small"), shared)
    for tensors, own, projection in zip(end.clients, models, projections, strict=True):
        reference.assert_equal(part(tensors, "model"), own)
        reference.assert_equal(part(tensors, "projection"), projection)
