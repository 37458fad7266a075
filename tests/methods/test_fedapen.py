"""FedAPEN: two networks that teach each other and answer together, and the learned weight of each; by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import named, part
from simulator.engine.progress import unobserved
from simulator.methods.fedapen import FedAPEN, together
from simulator.models import ImageShape
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.phase import Nets
from simulator.training.trainer import TrainingContext
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, kl, logits
from tests.networks import Plain, batch

ALL = {"participation": 1.0}


def method(**options: Any) -> FedAPEN:
    return sharing.of(
        "fedapen", federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2]), **options
    )


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# Both networks together


def test_two_networks_answer_with_their_weighted_logits() -> None:
    """λ = ¼: ¼ · (4, 0) + ¾ · (0, 8) = (1, 6)."""
    nets = Nets(Plain(1.0), meme=Plain(-2.0))
    x = batch((4, 0, 0), (0, 4, 0)).x
    assert method().predict(nets, {"lam": torch.tensor(0.25)}, x).tolist() == [[-5.0, 0.0], [0.0, -5.0]]
    assert together(torch.tensor(0.25), torch.tensor([4.0, 0.0]), torch.tensor([0.0, 8.0])).tolist() == [1, 6]


# λ


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


def test_the_weight_stays_within_zero_and_one() -> None:
    """A rate of 10 would move it to 0.5 + 20 · (1 − σ(1)) = 5.9, and for the other label to 0.5 − 20 σ(1)."""
    fedapen, local = at_work(lam_lr=10, lam_epochs=1)
    fedapen.before_answering(local)
    assert local.state["lam"].item() == 1
    fedapen, local = at_work(lam_lr=10, lam_epochs=1)
    local._data.labels.fill_(1)
    fedapen.before_answering(local)
    assert local.state["lam"].item() == 0


def test_the_weight_is_learned_before_training_as_soon_as_the_meme_is_an_average() -> None:
    for round, begun, steps in [(1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1)]:
        fedapen, local = at_work(round, begun, lam_epochs=1)
        [phase] = fedapen.phases(local)
        assert local.state["lam"].item() == pytest.approx(stepped(0.5, steps))
        assert phase.state["lam"].item() == local.state["lam"].item()


def test_a_share_of_the_samples_is_held_out_at_least_one_and_two_remain() -> None:
    """Fewer than three samples: a client has them only by an event, and then learns no weight."""
    for samples, share, held_out in [
        (40, 0.25, 10),
        (41, 0.25, 10),
        (19, 0.05, 1),
        (4, 0.9, 2),
        (3, 0.05, 1),
        (2, 0.5, 0),
        (1, 0.5, 0),
    ]:
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


# The meme, and the client's state


def test_a_client_with_two_samples_is_refused() -> None:
    settings = federations.config("fedapen").method
    with pytest.raises(ConfigError, match=r"needs 3 training samples .* client 1 \(tiny_cnn\) has 2"):
        FedAPEN(settings, federations.federation(["tiny_mlp", "tiny_cnn"], [3, 2])).check()
    FedAPEN(settings, federations.federation(["tiny_mlp", "tiny_cnn"], [3, 3])).check()


def test_clients_answer_with_the_weight_that_they_train_with_next() -> None:
    """After a round, a client receives the new meme and learns λ. It repeats this at the beginning of the next one."""
    settings = {"federation": ALL, "method": {"lam_lr": 1.0}}
    parts = federations.built(federations.config("fedapen", **settings))
    first = federations.run(parts.engine, 1)
    second = parts.engine.round(first, unobserved)
    for client, (tensors, after) in enumerate(zip(first.clients, second.clients, strict=True)):
        local = federations.local(parts, client, tensors, 1)
        parts.method.receive(local, parts.method.downlink(2, first.server, local.info))
        parts.method.before_answering(local)
        assert tensors["lam"].item() == 0.5
        assert local.state["lam"].item() == after["lam"].item() != 0.5


# Costs, as the page has them


# Two rounds


def test_two_whole_rounds_equal_the_reference() -> None:
    lr, lam_lr = 0.1, 0.5
    config = federations.config(
        "fedapen",
        method={"lam_share": 0.6, "lam_lr": lam_lr, "lam_epochs": 3},
        federation=ALL | {"clients": 3, "group": ["tiny_cnn", "tiny_cnn_w2"]},
        training={"epochs": 2, "lr": lr},
    )
    ran = reference.Rounds(config, 2)
    models, shared = ran.of_clients("model"), part(ran.server, "meme")
    weights = [torch.tensor(0.5, dtype=torch.float64) for _ in models]
    for t in (1, 2):
        memes = [reference.leaves(shared) for _ in models]
        for client, ((x, y), own, meme) in enumerate(zip(ran.data, models, memes, strict=True)):
            order = torch.randperm(len(y), generator=reference.stream("adaptability", 0, client))
            held_out, rest = order[: int(len(y) * 0.6)], order[int(len(y) * 0.6) :]
            for rows in held_out.split(16) * 3 if t > 1 else ():
                lam = weights[client].requires_grad_()
                z, z_meme = (logits(w, x[rows]).detach() for w in (own, meme))
                ce(lam * z + (1 - lam) * z_meme, y[rows]).backward()
                weights[client] = (lam - lam_lr * lam.grad).detach().clamp(0, 1)
            lam = weights[client]
            for chosen in reference.orders(len(rest), 16, 2, reference.stream("batches/mutual", t, client)):
                rows = rest[chosen]
                z, z_meme = logits(own, x[rows]), logits(meme, x[rows])
                of_own = ce(z, y[rows]) + kl(z_meme, z)
                of_own = of_own + ce(lam * z + (1 - lam) * z_meme.detach(), y[rows])
                of_meme = ce(z_meme, y[rows]) + kl(z, z_meme)
                of_meme = of_meme + ce(lam * z.detach() + (1 - lam) * z_meme, y[rows])
                (of_own + of_meme).backward()
                reference.step([*own.values(), *meme.values()], lr)
        shared = ran.mean(memes)
    ran.assert_ended({"meme": shared}, {"model": models})
    for tensors, lam in zip(ran.end.clients, weights, strict=True):
        reference.assert_equal({"lam": tensors["lam"]}, {"lam": lam})
        assert abs(lam.item() - 0.5) > 0.01
