"""FedAPEN: two networks that teach each other and answer together, and the learned weight of each; by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, floating, named, part, total_bytes
from simulator.methods import Uplink
from simulator.methods.fedapen import FedAPEN, slope, together
from simulator.models import ImageShape
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.phase import Nets, parts_of
from simulator.training.trainer import TrainingContext
from tests import federations
from tests.methods import reference
from tests.networks import Plain, batch

ALL = {"participation": 1.0}


def method(**options: Any) -> FedAPEN:
    federation = federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2])
    return FedAPEN(federations.config("fedapen", method=options).method, federation)


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# Both networks together


def test_two_networks_answer_with_their_weighted_logits() -> None:
    """λ = ¼: ¼ · (4, 0) + ¾ · (0, 8) = (1, 6)."""
    nets = Nets(Plain(1.0), meme=Plain(-2.0))
    x = batch((4, 0, 0), (0, 4, 0)).x
    assert method().predict(nets, {"lam": torch.tensor(0.25)}, x).tolist() == [[-5.0, 0.0], [0.0, -5.0]]
    assert together(torch.tensor(0.25), torch.tensor([4.0, 0.0]), torch.tensor([0.0, 8.0])).tolist() == [1, 6]


def pair() -> Nets:
    """A local model whose logits are the pixels, and a meme whose logits are minus the pixels."""
    return Nets(Plain(1.0), meme=Plain(-1.0))


def test_each_network_learns_from_the_labels_from_the_other_and_from_the_answer_of_both() -> None:
    """Logits (1, 0) and (−1, 0) of class 0. CE: −log σ(1) and −log σ(−1). Either KL is 2σ(1) − 1. With λ = ¾ the logits
    of both are (½, 0), so that −log σ(½) counts for each of them."""
    loss, terms, _ = parts_of(method().loss(pair(), {"lam": torch.tensor(0.75)}, batch((1, 0, 0)), {}))
    from_others = 2 * sigma(1) - 1 - math.log(sigma(0.5))
    own, meme = (from_others - math.log(sigma(logit)) for logit in (1, -1))
    assert loss.item() == pytest.approx(own + meme, rel=1e-12)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx({"own": own, "meme": meme})


def test_a_network_gets_the_gradient_of_the_common_answer_by_its_weight() -> None:
    """The gradient of a CE for the logit of class 0 is p − 1, and that of a KL is p − p of the teacher. The common
    answer's counts λ = ¾ for the local model and ¼ for the meme. The factor of both pixels is 1."""
    nets = pair()
    parts_of(method().loss(nets, {"lam": torch.tensor(0.75)}, batch((1, 0, 0)), {})).loss.backward()
    local = (sigma(1) - 1) + (sigma(1) - sigma(-1)) + 0.75 * (sigma(0.5) - 1)
    meme = (sigma(-1) - 1) + (sigma(-1) - sigma(1)) + 0.25 * (sigma(0.5) - 1)
    assert nets.model.scale.grad.item() == pytest.approx(local, rel=1e-12)
    assert nets["meme"].scale.grad.item() == pytest.approx(meme, rel=1e-12)


# λ


def test_the_slope_of_the_loss_by_the_weight() -> None:
    """λ = 1 and logits (log 3, 0) of the own model: p = (¾, ¼), label 0: (¾ − 1) · log 3. The meme's logits are 0. A
    second sample, on which both agree, has no slope and halves the mean."""
    own = torch.tensor([[math.log(3), 0.0], [2.0, 5.0]])
    meme = torch.tensor([[0.0, 0.0], [2.0, 5.0]])
    labels = torch.tensor([0, 1])
    assert slope(torch.tensor(1.0), own, meme, labels).item() == pytest.approx(-math.log(3) / 8)
    assert slope(torch.tensor(0.0), own[:1], meme[:1], labels[:1]).item() == pytest.approx(-math.log(3) / 2)


def at_work(round: int = 1, begun: int = 0, batch_size: int = 2, samples: int = 4, **options: Any) -> Any:
    """A FedAPEN and its client of equal images (2, 0) of class 0. The own logits are (2, 0), and the meme's (0, 0)."""
    settings = federations.config("fedapen", method={"lam_share": 0.5, "lam_lr": 0.1} | options).method
    training = TrainingConfig(batch_size=batch_size)
    federation = federations.federation(
        ["tiny_mlp"], [samples], [(0,)], shape=ImageShape(1, 1, 2), training=training
    )
    federation = replace(federation, begun=begun)
    vars(federation)["architectures"] = {"tiny_mlp": Plain().float()}
    images = torch.tensor([2, 0]).expand(samples, 1, 2)[..., None]
    labels = torch.zeros(samples, dtype=torch.int64)
    data = federations.pixels(images, labels, [torch.arange(samples)], num_classes=2)
    own, meme = Plain(1.0).float().state_dict(), Plain(0.0).float().state_dict()
    tensors = named("model", own) | named("meme", meme) | {"lam": torch.tensor(0.5)}
    place = TrainingContext(federation, data, FlopCache())
    return FedAPEN(settings, federation), LocalClient(place, federation.clients[0], round, tensors)


def stepped(lam: float, steps: int, lr: float = 0.1) -> float:
    """λ after so many steps: the common logits are (2λ, 0), with the slope (σ(2λ) − 1) · 2."""
    for _ in range(steps):
        lam -= lr * 2 * (sigma(2 * lam) - 1)
    return lam


@pytest.mark.parametrize(
    ("epochs", "batch_size", "steps"), [(0, 2, 0), (1, 2, 1), (3, 2, 3), (1, 1, 2), (3, 1, 6)]
)
def test_the_weight_takes_a_step_for_each_batch_of_held_out_samples(
    epochs: int, batch_size: int, steps: int
) -> None:
    fedapen, local = at_work(lam_epochs=epochs, batch_size=batch_size)
    fedapen.before_answering(local)
    assert local.state["lam"].item() == pytest.approx(stepped(0.5, steps))


def test_the_weight_stays_within_zero_and_one() -> None:
    """A rate of 10 would move it to 0.5 + 20 · (1 − σ(1)) = 5.9, and for the other label to 0.5 − 20 σ(1)."""
    fedapen, local = at_work(lam_lr=10, lam_epochs=1)
    fedapen.before_answering(local)
    assert local.state["lam"].item() == 1
    fedapen, local = at_work(lam_lr=10, lam_epochs=1)
    local._data.labels.fill_(1)
    fedapen.before_answering(local)
    assert local.state["lam"].item() == 0


@pytest.mark.parametrize(("round", "begun", "steps"), [(1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1)])
def test_the_weight_is_learned_before_training_as_soon_as_the_meme_is_an_average(
    round: int, begun: int, steps: int
) -> None:
    fedapen, local = at_work(round, begun, lam_epochs=1)
    [phase] = fedapen.phases(local)
    assert local.state["lam"].item() == pytest.approx(stepped(0.5, steps))
    assert phase.state["lam"].item() == local.state["lam"].item()


def test_networks_are_fixed_and_in_evaluation_mode_while_the_weight_is_learned() -> None:
    parts = federations.built(federations.config("fedapen", federation={"group": ["tiny_mlp"]}))
    state = parts.engine.initial_state()
    local = federations.local(parts, 0, state.clients[0], 2)
    local.nets.train()
    before = federations.bits(local.nets.model.state_dict())
    parts.method.before_answering(local)
    assert federations.bits(local.nets.model.state_dict()) == before  # BatchNorm's statistics are part of it
    assert not local.state["lam"].requires_grad


@pytest.mark.parametrize(
    ("samples", "share", "held_out"),
    [(40, 0.25, 10), (41, 0.25, 10), (19, 0.05, 1), (4, 0.9, 2), (3, 0.05, 1), (2, 0.5, 0), (1, 0.5, 0)],
)
def test_a_share_of_the_samples_is_held_out_at_least_one_and_two_remain(
    samples: int, share: float, held_out: int
) -> None:
    """Fewer than three samples: a client has them only by an event, and then learns no weight."""
    fedapen, local = at_work(samples=samples, lam_share=share, lam_epochs=1)
    train, kept = fedapen.divided(local)
    assert len(kept) == held_out
    assert sorted([*train.tolist(), *kept.tolist()]) == list(range(samples))
    fedapen.before_answering(local)
    assert local.state["lam"].item() == pytest.approx(stepped(0.5, -(-held_out // 2)))


def test_the_held_out_samples_are_the_same_in_every_round_and_other_ones_under_another_seed() -> None:
    def held_out(round: int, **changes: Any) -> list[int]:
        fedapen, local = at_work(round, samples=40)
        fedapen.federation = replace(fedapen.federation, **changes)
        return list(fedapen.divided(local)[1].tolist())

    assert held_out(1) == held_out(2) == held_out(1, init_seed=9)
    assert held_out(1) != held_out(1, seed=8)
    assert held_out(1) != list(range(20))


def test_clients_hold_out_different_samples() -> None:
    fedapen, local = at_work(samples=40)
    first = fedapen.divided(local)[1]
    local.info = replace(local.info, id=1)
    assert not torch.equal(first, fedapen.divided(local)[1])


def test_networks_do_not_train_on_the_held_out_samples() -> None:
    fedapen, local = at_work(samples=40)
    [phase] = fedapen.phases(local)
    train, held_out = fedapen.divided(local)
    assert phase.samples is not None
    assert torch.equal(phase.samples, train)
    assert not set(phase.samples.tolist()) & set(held_out.tolist())


# The meme, and the client's state


def test_the_meme_is_the_smallest_architecture_unless_another_is_named() -> None:
    htm5 = federations.federation(["cnn1", "cnn5", "cnn2"], num_classes=10, shape=ImageShape(3, 32, 32))
    assert FedAPEN(federations.config("fedapen").method, htm5).small == "cnn5"
    named_one = FedAPEN(federations.config("fedapen", method={"meme": "tiny_cnn"}).method, htm5)
    assert "meme/conv1.weight" in named_one.init_server()


def test_a_meme_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown model 'tiny'"):
        method(meme="tiny").check()


def test_a_client_with_two_samples_is_refused() -> None:
    settings = federations.config("fedapen").method
    with pytest.raises(ConfigError, match=r"needs 3 training samples .* client 1 \(tiny_cnn\) has 2"):
        FedAPEN(settings, federations.federation(["tiny_mlp", "tiny_cnn"], [3, 2])).check()
    FedAPEN(settings, federations.federation(["tiny_mlp", "tiny_cnn"], [3, 3])).check()


def test_the_meme_is_the_mean_weighted_by_training_samples_and_counters_stay() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8, BatchNorm's statistics included; its counter does not travel."""
    fedapen = method(meme="tiny_mlp")
    start = fedapen.init_server()
    payload = fedapen.downlink(1, start, fedapen.federation.clients[0])
    uplinks = [
        Uplink(client, {name: torch.full_like(tensor, value) for name, tensor in payload.items()})
        for client, value in zip(fedapen.federation.clients, (4.0, 8.0, 10.0), strict=True)
    ]
    server, _ = fedapen.aggregate(1, start, uplinks)
    assert server.keys() - payload.keys() == {"meme/norm.num_batches_tracked"}
    assert all((server[name] == 8.0).all() for name in payload)


def test_a_stale_meme_moves_the_server_less_far() -> None:
    """From 0 toward 8 with weight ¼: 2."""
    fedapen = method()
    start = {name: torch.zeros_like(each) for name, each in fedapen.init_server().items()}
    sent = {name: torch.full_like(each, 8.0) for name, each in floating(start).items()}
    server = fedapen.aggregate(1, start, [Uplink(fedapen.federation.clients[0], sent, 0.25)]).server
    assert all((server[name] == 2.0).all() for name in sent)


def test_a_client_begins_with_equal_weights_and_the_servers_meme() -> None:
    fedapen = method()
    start = fedapen.init_client(fedapen.federation.clients[0])
    assert start["lam"].item() == 0.5
    assert federations.bits(part(start, "meme")) == federations.bits(part(fedapen.init_server(), "meme"))


def test_clients_answer_with_the_weight_that_they_train_with_next() -> None:
    """After a round, a client receives the new meme and learns λ. It repeats this at the beginning of the next one."""
    settings = {"federation": ALL, "method": {"lam_lr": 1.0}}
    parts = federations.built(federations.config("fedapen", **settings))
    first = federations.run(parts.engine, 1)
    second = parts.engine.round(first, lambda event: None)
    for client, (tensors, after) in enumerate(zip(first.clients, second.clients, strict=True)):
        local = federations.local(parts, client, tensors, 1)
        parts.method.receive(local, parts.method.downlink(2, first.server, local.info))
        parts.method.before_answering(local)
        assert tensors["lam"].item() == 0.5
        assert local.state["lam"].item() == after["lam"].item() != 0.5


def test_a_client_that_receives_nothing_answers_with_the_meme_that_it_trained() -> None:
    parts = federations.built(federations.config("fedapen", federation=ALL))
    state = federations.run(parts.engine, 1)
    local = federations.local(parts, 0, state.clients[0], 1)
    parts.method.before_answering(local)
    answered = local.nets["meme"].state_dict()["head.weight"]
    assert torch.equal(answered, state.clients[0]["meme/head.weight"])
    for others in (state.server, parts.engine.initial_state().server):
        assert not torch.equal(answered, others["meme/head.weight"])


# Costs, as the page has them


def test_the_meme_travels_and_nothing_else() -> None:
    """tiny_mlp on 8×8 grey images of four classes: (64 + 1)·12 and BatchNorm's 4·12, (12 + 1)·8, (8 + 1)·4."""
    config = federations.config("fedapen", federation=ALL | {"group": ["tiny_mlp"]})
    record = federations.run(federations.built(config).engine, 1).record
    assert record is not None
    numbers = 65 * 12 + 4 * 12 + 13 * 8 + 9 * 4
    assert record["bytes"]["per_client_up"] == record["bytes"]["per_client_down"] == [4 * numbers] * 4
    assert set(record["bytes"]["by_tensor"]) == {"up/meme", "down/meme"}


def test_a_client_keeps_a_meme_without_counters_and_one_number() -> None:
    """The same numbers of four bytes, and λ. The server also keeps BatchNorm's counter, of eight bytes."""
    config = federations.config("fedapen", federation={"group": ["tiny_mlp"]})
    state = federations.built(config).engine.initial_state()
    kept = {name: tensor for name, tensor in state.clients[0].items() if not name.startswith("model/")}
    numbers = 65 * 12 + 4 * 12 + 13 * 8 + 9 * 4
    assert total_bytes(kept) == 4 * (numbers + 1)
    assert total_bytes(state.server) == 4 * numbers + 8


def test_the_ledger_has_the_losses_of_both_networks_and_their_sum() -> None:
    record = federations.run(federations.built(federations.config("fedapen")).engine, 1).record
    assert record is not None
    assert set(record["method_metrics"]) == {"own_loss", "meme_loss"}
    assert sum(record["method_metrics"].values()) == pytest.approx(record["loss"]["mean"])


def test_flops_are_those_of_fml_on_fewer_samples_and_of_a_pass_over_the_others() -> None:
    """tiny_mlp has layers 64 → 12 → 8 → 4, so 2 · (768 + 96 + 32) = 1,792 FLOPs in a pass of one sample."""

    def flops(name: str, rounds: int, **options: Any) -> int:
        group = ALL | {"group": ["tiny_mlp"]}
        parts = federations.built(federations.config(name, method=options, federation=group))
        record = federations.run(parts.engine, rounds).record
        assert record is not None
        return int(record["flops"]["clients"])

    parts = federations.built(federations.config("fedapen", method={"lam_share": 0.2}))
    counts = [client.samples for client in parts.federation.clients]
    held_out = sum(count // 5 for count in counts)
    first, second = (flops("fedapen", rounds, lam_share=0.2) for rounds in (1, 2))
    assert first * sum(counts) == flops("fml", 1) * (sum(counts) - held_out)
    assert second - first == held_out * 2 * 1792


# Two rounds


def logits(w: Tensors, x: Tensor) -> Tensor:
    """TinyCNN."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"]).relu()
    h = F.max_pool2d(h, 3).flatten(1)
    for layer in ("fc1", "fc2"):
        h = (h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]).relu()
    return h @ w["head.weight"].T + w["head.bias"]


def ce(z: Tensor, y: Tensor) -> Tensor:
    return (torch.logsumexp(z, 1) - z[range(len(y)), y]).mean()


def kl(teacher: Tensor, student: Tensor) -> Tensor:
    p = teacher.detach().softmax(1)
    return (p * (p.log() - student.log_softmax(1))).sum(1).mean()


def test_two_whole_rounds_equal_the_reference() -> None:
    lr, lam_lr, size = 0.1, 0.5, 16
    config = federations.config(
        "fedapen",
        method={"lam_share": 0.6, "lam_lr": lam_lr, "lam_epochs": 3},
        federation=ALL | {"clients": 3, "group": ["tiny_cnn", "tiny_cnn_w2"]},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    weights = [torch.tensor(0.5, dtype=torch.float64) for _ in models]
    data = [reference.samples(parts, client) for client in range(3)]
    total = sum(len(y) for _, y in data)
    shared = part(start.server, "meme")
    for t in (1, 2):
        average = {name: torch.zeros_like(weight) for name, weight in shared.items()}
        for client, (x, y) in enumerate(data):
            own, meme = models[client], reference.leaves(shared)
            order = torch.randperm(len(y), generator=reference.stream("adaptability", 0, client))
            held_out, rest = order[: int(len(y) * 0.6)], order[int(len(y) * 0.6) :]
            if t > 1:
                for _ in range(3):
                    for rows in held_out.split(size):
                        lam = weights[client].requires_grad_()
                        both = (
                            lam * logits(own, x[rows]).detach() + (1 - lam) * logits(meme, x[rows]).detach()
                        )
                        ce(both, y[rows]).backward()
                        weights[client] = (lam - lam_lr * lam.grad).detach().clamp(0, 1)
            lam = weights[client]
            for chosen in reference.orders(len(rest), size, 2, reference.stream("batches/mutual", t, client)):
                rows = rest[chosen]
                z, z_meme = logits(own, x[rows]), logits(meme, x[rows])
                of_own = ce(z, y[rows]) + kl(z_meme, z)
                of_own = of_own + ce(lam * z + (1 - lam) * z_meme.detach(), y[rows])
                of_meme = ce(z_meme, y[rows]) + kl(z, z_meme)
                of_meme = of_meme + ce(lam * z.detach() + (1 - lam) * z_meme, y[rows])
                (of_own + of_meme).backward()
                for network in (own, meme):
                    reference.step(list(network.values()), lr)
            for name, weight in meme.items():
                average[name] += weight.detach() * len(y) / total
        shared = average

    reference.assert_equal(part(end.server, "meme"), shared)
    for tensors, own, lam in zip(end.clients, models, weights, strict=True):
        reference.assert_equal(part(tensors, "model"), own)
        reference.assert_equal({"lam": tensors["lam"]}, {"lam": lam})
        assert abs(lam.item() - 0.5) > 0.01
