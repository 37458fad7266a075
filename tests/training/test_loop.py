"""The training loop: what a loss needs drawn is drawn for it, and what may be kept is kept."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.errors import MethodError
from simulator.base.sections import MethodConfig
from simulator.base.tensors import named, of_module
from simulator.methods import registry
from simulator.methods.base import Card, Method
from simulator.training import optimizer
from simulator.training.client import LocalClient
from simulator.training.loop import steps
from simulator.training.phase import (
    CROSS_ENTROPY,
    Batch,
    Draws,
    Nets,
    Phase,
    computed,
    own_cross_entropy,
    recorded_cross_entropy,
)
from tests import federations


class Scripted(Method):
    """A method whose phases the test says."""

    name = "scripted"
    card = Card("Scripted", "a test", "none", "nothing", "–", "–")
    Config = MethodConfig
    given: Sequence[Phase] = ()

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return self.given


class Fitted(Scripted):
    """The same, with the moments of a plain Adam kept on the client."""

    name = "fitted"

    def init_client(self, client: Any) -> dict[str, Tensor]:
        model = self.federation.architecture_of(client)
        return {f"adam/{key}": each for key, each in optimizer.moments("adam", {"model": model}).items()}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in (Scripted, Fitted):
        monkeypatch.setitem(registry._METHODS, method.name, method)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny_cnn")


def after(name: str, rounds: int, *phases: Phase, **sections: Any) -> Any:
    registry.get(name).given = phases
    return federations.run(federations.built(federations.config(name, **sections)).engine, rounds)


def noisy(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
    """Cross-entropy on disturbed images, and nothing drawn in here."""
    return torch.nn.functional.cross_entropy(nets.model(batch.x + draws["noise"]), batch.y)


def plain(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
    return torch.nn.functional.cross_entropy(nets.model(batch.x), batch.y)


def noise(stream: torch.Generator, batch: Batch) -> Draws:
    return {"noise": torch.randn(batch.x.shape, generator=stream)}


def test_a_loss_gets_what_its_phase_draws() -> None:
    seen: list[Draws] = []

    def loss(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        seen.append(draws)
        return noisy(nets, state, batch, draws)

    after("scripted", 1, Phase("model", loss, draws=noise))
    assert all(each.keys() == {"noise"} for each in seen)
    assert not torch.equal(seen[0]["noise"], seen[1]["noise"])


def later(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws, *, steps: list[int]) -> Tensor:
    """Cross-entropy, from the second step on with dropout that the first one does not know of."""
    steps.append(len(steps))
    x = batch.x if len(steps) == 1 else torch.nn.functional.dropout(batch.x)
    return torch.nn.functional.cross_entropy(nets.model(x), batch.y)


def test_what_begins_to_draw_after_the_first_step_is_refused_rather_than_left_to_chance() -> None:
    with pytest.raises(MethodError, match="drew from torch's global generator, which no run can repeat"):
        after("scripted", 1, Phase("model", functools.partial(later, steps=[])))


def test_layers_that_draw_in_every_step_draw_from_the_phases_stream_in_every_step() -> None:
    """A stream from which as much is taken by hand ends where the phase's did, and no global generator has moved."""
    seen: list[Tensor] = []

    def dropping(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        seen.append(torch.nn.functional.dropout(torch.ones(50), 0.5))
        return plain(nets, state, batch, draws)

    before = torch.get_rng_state()
    after("scripted", 1, Phase("model", dropping, samples=torch.arange(64)), federation={"clients": 1})
    stream = rng.torch_stream(7, "draws/model", 1, 0)
    by_hand = [torch.empty(50).bernoulli_(0.5, generator=stream).div(0.5) for _ in seen]
    assert len(seen) == 4  # 64 images in batches of 16
    assert all(torch.equal(one, other) for one, other in zip(seen, by_hand, strict=True))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_phase_trains_on_the_batches_it_is_given_as_they_are() -> None:
    sizes: list[int] = []

    def loss(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        sizes.append(len(batch.y))
        return plain(nets, state, batch, draws)

    given = [Batch(torch.zeros(n, 1, 8, 8), torch.zeros(n, dtype=torch.int64)) for n in (3, 1, 5)]
    after("scripted", 1, Phase("model", loss, batches=given, epochs=7), federation={"participation": 0.25})
    assert sizes == [3, 1, 5]


def test_a_plain_optimizer_has_neither_momentum_nor_weight_decay() -> None:
    """With the configuration's 0.9 and 0.1 in force, a phase's own SGD leaves what it leaves without them."""
    with_both = {"training": {"momentum": 0.9, "weight_decay": 0.1}}
    phase = Phase("model", plain, optimizer="sgd")
    assert federations.state_bits(after("scripted", 1, phase, **with_both)) == federations.state_bits(
        after("scripted", 1, phase)
    )


def test_plain_sgd_takes_the_gradient_times_the_rate_away() -> None:
    """From w = (1, 2) with the gradient (0.5, −1) at η = 0.1 to (0.95, 2.1)."""
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([0.5, -1.0])
    optimizer.PlainSGD([weight], 0.1).step()
    assert weight.tolist() == pytest.approx([0.95, 2.1])


def test_kept_moments_make_two_rounds_of_one_step_one_round_of_two() -> None:
    """One batch holds all samples and is given as it is, so that only the moments could tell the rounds apart."""
    draw = rng.torch_stream(0, "tests/batch")
    batch = Batch(torch.randn(8, 1, 8, 8, generator=draw), torch.arange(8) % 4)
    kept = {"optimizer": "adam", "keeps": "adam", "lr": 0.01}
    once, twice = (
        Phase("model", plain, batches=[batch], **kept),
        Phase("model", plain, batches=[batch] * 2, **kept),
    )
    everybody = {"federation": {"participation": 1.0}}
    apart, together = after("fitted", 2, once, **everybody), after("fitted", 1, twice, **everybody)
    assert federations.state_bits(apart)["clients"] == federations.state_bits(together)["clients"]
    assert apart.clients[0]["adam/step"] == 2

    afresh = after(
        "scripted", 2, Phase("model", plain, batches=[batch], optimizer="adam", lr=0.01), **everybody
    )
    of_both = [
        {k: v for k, v in state.clients[0].items() if k.startswith("model/")} for state in (apart, afresh)
    ]
    assert federations.bits(of_both[0]) != federations.bits(of_both[1])


def test_gradients_are_clipped_to_a_norm_over_all_that_is_trained() -> None:
    """w = (0, 0) with the gradient (3, 4) at η = 1: a clip of 2.5 halves the step, one of 50 leaves it."""

    def pull(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        bias = nets.model.head.bias
        return 3.0 * bias[0] + 4.0 * bias[1] + 0.0 * nets.model(batch.x).sum()

    batch = Batch(torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64))
    moved = {}
    for clip in (2.5, 50.0, None):
        phase = Phase("model", pull, batches=[batch])
        sections = {"training": {"clip": clip, "lr": 1.0}, "federation": {"participation": 1.0}}
        before = federations.built(federations.config("scripted", **sections)).engine.initial_state()
        state = after("scripted", 1, phase, **sections)
        moved[clip] = (before.clients[0]["model/head.bias"] - state.clients[0]["model/head.bias"])[:2]
    torch.testing.assert_close(moved[2.5], torch.tensor([1.5, 2.0]))
    torch.testing.assert_close(moved[50.0], torch.tensor([3.0, 4.0]))
    assert torch.equal(moved[50.0], moved[None])


@pytest.mark.parametrize("runner", ["parallel", "stacked"])
@pytest.mark.parametrize(("sign", "end"), [(-1, 0.5), (1, -0.25)])
def test_a_step_does_not_take_a_weight_out_of_its_range(runner: str, sign: int, end: float) -> None:
    """Each of 20 steps moves every bias by 0.1, to a place beyond the range. The other weights stay as they are."""

    def loss(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        return sign * nets.model.head.bias.sum()

    phase = Phase("p", loss, steps=20, within={"model/head.bias": (-0.25, 0.5)})
    state = after("scripted", 1, phase, runtime={"runner": runner})
    assert state.record is not None
    for client in state.record["participants"]:
        assert state.clients[client]["model/head.bias"].tolist() == [end] * 4


def test_a_rate_that_anneals_falls_along_a_cosine_over_the_phases_batches() -> None:
    """The loss has gradient 1 in the first bias. Rates in three steps: 1, (1 + cos 60°)/2 = ¾, (1 + cos 120°)/2 = ¼."""

    def first_bias(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        return nets.model.head.bias[0]

    def moved(anneals: bool) -> float:
        parts = federations.built(federations.config("standalone"))
        start = parts.engine.initial_state().clients[0]
        local = federations.local(parts, 0, start)
        batches = [local.batch(local.train[:2])] * 3
        phase = Phase("x", first_bias, lr=1.0, optimizer="sgd", anneals=anneals, batches=batches)
        for _ in steps(local, phase):
            pass
        return float((start["model/head.bias"] - local.nets.model.head.bias.detach())[0])

    assert moved(True) == pytest.approx(2)
    assert moved(False) == pytest.approx(3)


# Weights of classes


def test_balanced_weights_give_each_class_of_a_client_the_same_weight_in_all() -> None:
    """Three samples of class 0 and one of class 2: 4 / (2 · 3) and 4 / (2 · 1). Class 1 is not among them."""
    parts = federations.built(federations.config("scripted", training={"class_weights": "balanced"}))
    info = parts.federation.clients[0]
    held = replace(parts.data.clients[0], classes=(0, 2), class_counts=(3, 1))
    context = federations.context(parts)
    context = replace(context, data=replace(parts.data, clients=(held, *parts.data.clients[1:])))
    local = LocalClient(
        context,
        info,
        1,
        named("model", of_module(parts.federation.build(info.architecture, rng.torch_stream(0, "t")))),
    )
    assert local.class_weights is not None
    assert local.class_weights.tolist() == pytest.approx([2 / 3, 1, 2, 1])


def test_the_weighted_loss_is_a_mean_over_classes_and_the_recorded_one_over_samples() -> None:
    """Losses of -ln p: log 2 on each of three samples of class 0, and log 4 on the one of class 1."""
    scores = torch.tensor([[0.5, 0.5]] * 3 + [[0.75, 0.25]]).log()
    y = torch.tensor([0, 0, 0, 1])
    weights = torch.tensor([4 / 6, 4 / 2])
    batch = Batch(scores, y)
    loss, terms, _ = computed(
        lambda nets, state, batch, draws: recorded_cross_entropy(*batch), Nets(), {}, batch, {}, weights
    )
    assert float(loss) == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert float(terms[CROSS_ENTROPY]) == pytest.approx((3 * math.log(2) + math.log(4)) / 4)
    assert float(loss) == pytest.approx(float(torch.nn.functional.cross_entropy(scores, y, weights)))
    assert float(own_cross_entropy(scores, y)) == pytest.approx(
        float(terms[CROSS_ENTROPY])
    )  # outside of a loss
