"""The training loop, its optimizers, and the learning rates by round."""

import functools
import itertools
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.base import rng
from simulator.base.errors import ConfigError, MethodError
from simulator.base.sections import MethodConfig, TrainingConfig
from simulator.base.tensors import named, of_module
from simulator.methods import registry
from simulator.methods.base import Card, Method
from simulator.methods.standalone import Standalone
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
from simulator.training.trainer import rate
from tests import federations

# The training loop: what a loss needs drawn is drawn for it, and what may be kept is kept.


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


def plain(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
    return torch.nn.functional.cross_entropy(nets.model(batch.x), batch.y)


def test_a_loss_gets_what_its_phase_draws_and_trains_on_the_batches_it_is_given_as_they_are() -> None:
    seen: list[tuple[Draws, int]] = []

    def loss(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """On disturbed images, and nothing drawn in here."""
        seen.append((draws, len(batch.y)))
        return plain(nets, state, batch._replace(x=batch.x + draws["noise"]), draws)

    def noise(stream: torch.Generator, batch: Batch) -> Draws:
        return {"noise": torch.randn(batch.x.shape, generator=stream)}

    after("scripted", 1, Phase("model", loss, draws=noise))
    assert all(draws.keys() == {"noise"} for draws, _ in seen)
    assert not torch.equal(seen[0][0]["noise"], seen[1][0]["noise"])
    seen.clear()
    given = [Batch(torch.zeros(n, 1, 8, 8), torch.zeros(n, dtype=torch.int64)) for n in (3, 1, 5)]
    phase = Phase("model", loss, batches=given, epochs=7, draws=noise)
    after("scripted", 1, phase, federation={"participation": 0.25})
    assert [size for _, size in seen] == [3, 1, 5]


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


def test_a_plain_optimizer_has_neither_momentum_nor_weight_decay() -> None:
    """With the configuration's 0.9 and 0.1 in force, a phase's own SGD leaves what it leaves without them. From w = (1,
    2) with the gradient (0.5, −1) at η = 0.1 it goes to (0.95, 2.1).
    """
    with_both, phase = {"momentum": 0.9, "weight_decay": 0.1}, Phase("model", plain, optimizer="sgd")
    ends = [federations.state_bits(after("scripted", 1, phase, training=each)) for each in (with_both, {})]
    assert ends[0] == ends[1]
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([0.5, -1.0])
    optimizer.PlainSGD([weight], 0.1).step()
    assert weight.tolist() == pytest.approx([0.95, 2.1])


def test_kept_moments_make_two_rounds_of_one_step_one_round_of_two() -> None:
    """One batch holds all samples and is given as it is, so that only the moments could tell the rounds apart."""
    draw = rng.torch_stream(0, "tests/batch")
    batch = Batch(torch.randn(8, 1, 8, 8, generator=draw), torch.arange(8) % 4)
    kept = {"optimizer": "adam", "keeps": "adam", "lr": 0.01}
    once, twice = (Phase("model", plain, batches=[batch] * k, **kept) for k in (1, 2))
    everybody = {"federation": {"participation": 1.0}}
    apart, together = after("fitted", 2, once, **everybody), after("fitted", 1, twice, **everybody)
    assert federations.state_bits(apart)["clients"] == federations.state_bits(together)["clients"]
    assert apart.clients[0]["adam/step"] == 2

    unkept = Phase("model", plain, batches=[batch], optimizer="adam", lr=0.01)
    afresh = after("scripted", 2, unkept, **everybody)
    of_both = [{k: v for k, v in s.clients[0].items() if k.startswith("model/")} for s in (apart, afresh)]
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
def test_a_step_does_not_take_a_weight_out_of_its_range(runner: str) -> None:
    """Each of 20 steps moves every bias by 0.1, to a place beyond the range. The other weights stay as they are."""
    for sign, end in ((-1, 0.5), (1, -0.25)):

        def loss(nets: Nets, *_: Any, sign: int = sign) -> Tensor:
            return sign * nets.model.head.bias.sum()

        phase = Phase("p", loss, steps=20, within={"model/head.bias": (-0.25, 0.5)})
        state = after("scripted", 1, phase, runtime={"runner": runner})
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
    network = parts.federation.build(info.architecture, rng.torch_stream(0, "t"))
    local = LocalClient(context, info, 1, named("model", of_module(network)))
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
    assert float(own_cross_entropy(scores, y)) == pytest.approx(float(terms[CROSS_ENTROPY]))  # outside


# The optimizers of a phase: bit for bit those of torch's classes, without what those load and look at.


TORCHS = {
    "sgd": lambda weights, lr, **said: torch.optim.SGD(weights, lr, fused=True, **said),
    "adam": lambda weights, lr, **said: torch.optim.Adam(weights, lr, fused=True, **said),
    "adamw": lambda weights, lr, **said: torch.optim.AdamW(weights, lr, fused=True, **said),
}
SETTINGS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
    ("adam", {"weight_decay": 0.1}),
    ("adamw", {"weight_decay": 0.1}),
]


def weights() -> list[torch.nn.Parameter]:
    """Two tensors of one seed; the second will have no gradient."""
    stream = rng.torch_stream(0, "tests/optimizer/weights")
    return [torch.nn.Parameter(torch.randn(shape, generator=stream)) for shape in ((5, 3), (4,))]


def moved(stepper: Any, those: list[torch.nn.Parameter]) -> list[list[float]]:
    """Three steps with gradients of one seed."""
    stream = rng.torch_stream(0, "tests/optimizer/gradients")
    for _ in range(3):
        stepper.zero_grad()
        those[0].grad = torch.randn(those[0].shape, generator=stream)
        stepper.step()
    return [weight.flatten().tolist() for weight in those]


def test_three_steps_are_those_of_torchs_own_class() -> None:
    for kind, said in SETTINGS:
        ours, theirs, before = weights(), weights(), weights()
        named = [(f"w{number}", weight) for number, weight in enumerate(ours)]
        settings = TrainingConfig.model_validate({"optimizer": kind, **said})
        expected = moved(TORCHS[kind](theirs, 0.1, **said), theirs)
        assert moved(optimizer.make(None, named, settings, 0.1), ours) == expected
        assert ours[1].tolist() == before[1].tolist() and ours[0].tolist() != before[0].tolist()


@pytest.mark.long
def test_a_round_loads_neither_torchs_compiler_nor_scikit_learn() -> None:
    """Either takes about as long as torch itself, at the start of every run."""
    code = (
        "import sys; from simulator.contract import Subject; Subject('fedgh').states(1); "
        "print([name for name in ('torch._dynamo', 'torch._inductor', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Learning rates by round: the numbers of each schedule by hand, and that training goes by them.


def rates(rounds: int, **training: Any) -> list[float]:
    settings = TrainingConfig(**training)
    return [rate(settings, round, rounds) for round in range(1, rounds + 1)]


def test_a_cosine_falls_from_the_rate_towards_the_least_one() -> None:
    """Four rounds from 0.9 to 0.1: cos 0, 45°, 90°, 135° are 1, √½, 0, −√½; 0.5 + 0.4 · each."""
    half = 0.5**0.5
    expected = [0.9, 0.5 + 0.4 * half, 0.5, 0.5 - 0.4 * half]
    assert rates(4, schedule="cosine", lr=0.9, lr_min=0.1) == pytest.approx(expected)
    assert rates(2, schedule="cosine", lr=1.0) == pytest.approx([1.0, 0.5])


def test_steps_multiply_after_so_many_rounds() -> None:
    assert rates(5, schedule="step", lr=1.0, lr_step=2, lr_decay=0.5) == [1.0, 1.0, 0.5, 0.5, 0.25]


@given(st.integers(1, 500), st.floats(1e-4, 1), st.floats(0, 1))
def test_a_cosine_never_rises_and_stays_between_its_ends(rounds: int, lr: float, share: float) -> None:
    found = rates(rounds, schedule="cosine", lr=lr, lr_min=lr * share)
    assert found[0] == pytest.approx(lr)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(found))
    assert min(found) >= lr * share * (1 - 1e-12)


def test_what_does_not_fit_together_is_refused() -> None:
    for training, why in [
        ({"schedule": "step"}, "needs lr_step"),
        ({"lr_min": 0.001}, "lr_min belongs to schedule 'cosine'"),
        ({"schedule": "cosine", "lr_step": 5}, "lr_step belongs to schedule 'step'"),
        ({"schedule": "cosine", "lr": 0.01, "lr_min": 0.1}, "lr_min = 0.1 is above lr = 0.01"),
        ({"schedule": "linear"}, "'training.schedule' = 'linear'"),
        ({"optimizer": "adamw", "momentum": 0.9}, "momentum belongs to optimizer 'sgd'"),
    ]:
        with pytest.raises(ConfigError, match=why):
            federations.config(training=training)


def run(rounds: int, name: str = "standalone", **training: Any) -> Any:
    settings = federations.config(name, rounds=rounds, federation={"participation": 1.0}, training=training)
    return federations.run(federations.built(settings).engine, rounds)


@pytest.mark.parametrize("name", ["standalone", "scaffold", "fedl2g_l"])
def test_a_round_trains_with_its_rate_and_records_it(name: str) -> None:
    """Half of the rate from round 2 on: as one round at the whole and then one at the half. Also where a method
    computes with the rate.
    """
    scheduled = run(2, name, schedule="step", lr=0.1, lr_step=1, lr_decay=0.5)
    parts = federations.built(federations.config(name, rounds=2, federation={"participation": 1.0}))
    changed = federations.settings(parts, training={"lr": 0.1})
    state = changed.engine.round(parts.engine.initial_state(), lambda _: None)
    state = federations.settings(parts, training={"lr": 0.05}).engine.round(state, lambda _: None)
    assert federations.state_bits(scheduled) == federations.state_bits(state)
    assert scheduled.record is not None and scheduled.record["lr"] == 0.05
    assert state.record is not None and "lr" not in state.record


def test_a_phase_with_a_rate_of_its_own_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Standalone.phases

    def own(self: Standalone, local: Any) -> list[Phase]:
        (phase,) = inner(self, local)
        return [Phase(phase.name, phase.loss, lr=0.1)]

    monkeypatch.setattr(Standalone, "phases", own)
    scheduled = run(2, schedule="step", lr=0.5, lr_step=1)
    assert federations.state_bits(scheduled) == federations.state_bits(run(2, lr=0.1))
