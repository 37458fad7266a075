"""Learning rates by round: the numbers of each schedule by hand, and that training goes by them."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.methods.standalone import Standalone
from simulator.training import optimizer
from simulator.training.phase import Phase
from simulator.training.trainer import rate
from tests import federations


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
    computes with the rate."""
    scheduled = run(2, name, schedule="step", lr=0.1, lr_step=1, lr_decay=0.5)
    parts = federations.built(federations.config(name, rounds=2, federation={"participation": 1.0}))
    state = federations.settings(parts, training={"lr": 0.1}).engine.round(
        parts.engine.initial_state(), lambda _: None
    )
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


def test_adamw_takes_the_decay_from_the_weight_and_not_through_the_gradient() -> None:
    """First step: w ← w(1 − ηλ) − η·g/|g|, with w = 2, η = 0.1, λ = 0.5: 1.9 − 0.1. Adam's own moves by η alone."""
    moved = {}
    for kind in ("adam", "adamw"):
        weight = torch.nn.Parameter(torch.tensor([2.0]))
        settings = TrainingConfig(optimizer=kind, weight_decay=0.5)
        stepper = optimizer.make(None, [("w", weight)], settings, 0.1)
        weight.grad = torch.tensor([3.0])
        stepper.step()
        moved[kind] = weight.item()
    assert moved == pytest.approx({"adam": 1.9, "adamw": 1.8})
