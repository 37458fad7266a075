"""FedNova: normalized updates and the length of the server's step, by hand."""

import pytest
import torch

from simulator.base.sections import TrainingConfig
from simulator.base.tensors import part
from simulator.methods import Uplink
from simulator.methods.fednova import FedNova
from tests import federations
from tests.methods import sharing

BATCHES_OF_TWO = TrainingConfig(batch_size=2)


def method(samples: list[int], training: TrainingConfig = BATCHES_OF_TWO, **options: str) -> FedNova:
    return sharing.method("fednova", ["tiny_mlp"] * len(samples), samples, training, **options)


def server(method: FedNova, value: float) -> dict[str, torch.Tensor]:
    return sharing.filled(method.init_server(), value)


def test_an_update_is_divided_by_the_number_of_steps() -> None:
    """Four samples in batches of two are two steps: from 10 to 4, d = (10 − 4)/2 = 3."""
    fednova = method([4])
    _, (client, payload) = sharing.trained_to(
        fednova, 0, server(fednova, 10.0), sharing.start(fednova, 0), 4.0
    )
    assert payload["steps"].tolist() == [2]
    assert payload["steps"].dtype == torch.int32
    updates = part(payload, "update")
    assert updates.keys() == sharing.weights(fednova.federation, client)
    assert all((d == 3.0).all() for d in updates.values())


def test_the_server_takes_the_mean_direction_times_the_mean_number_of_steps() -> None:
    """n = 4, 12: p = ¼, ¾; τ = 2, 6, so τ_eff = ½ + 4½ = 5. From 10 to 8 and to 4: d = 1, 1, and w = 10 − 5·1 = 5.
    (FedAvg would be at 8/4 + 3·4/4 = 5 too: with d equal they agree.) From 10 to 4 and to 4: d = 3, 1, so
    Σ p d = ¾ + ¾ = 1½ and w = 10 − 5·1½ = 2½, while FedAvg stays at 4."""
    fednova = method([4, 12])
    start = server(fednova, 10.0)
    for first, second, expected in ((8.0, 4.0, 5.0), (4.0, 4.0, 2.5)):
        uplinks = [
            sharing.trained_to(fednova, k, start, sharing.start(fednova, k), value)[1]
            for k, value in enumerate((first, second))
        ]
        merged, _ = fednova.aggregate(1, start, uplinks)
        assert (merged["tiny_mlp/fc1.weight"] == expected).all()
        assert (merged["tiny_mlp/norm.weight"] == expected).all()


def test_running_statistics_are_averaged_and_not_normalized() -> None:
    """n = 4, 12: 8/4 + 3·4/4 = 5, whatever the steps."""
    fednova = method([4, 12])
    start = server(fednova, 10.0)
    uplinks = [
        sharing.trained_to(fednova, k, start, sharing.start(fednova, k), value)[1]
        for k, value in enumerate((8.0, 4.0))
    ]
    merged, _ = fednova.aggregate(1, start, uplinks)
    assert (merged["tiny_mlp/norm.running_mean"] == 5.0).all()
    assert merged["tiny_mlp/norm.num_batches_tracked"] == 0


def test_with_momentum_a_gradient_counts_for_every_step_it_goes_on_acting() -> None:
    """ρ = ½: of three gradients the last acts once, the one before 1 + ½, the first 1 + ½ + ¼: a = 4¼."""
    fednova = method([6], TrainingConfig(batch_size=2, momentum=0.5))
    assert fednova.norm(3) == pytest.approx(4.25)


def test_tau_eff_counts_steps_or_norms() -> None:
    """p = ¼, ¾, τ = 1, 3 and ρ = ½: Σ p τ = 2½; a = 1, 4¼, Σ p a = ¼ + 3 3/16 = 3 7/16. Without momentum, the same."""
    for momentum, choice, expected in ((0.5, "steps", 2.5), (0.5, "norms", 3.4375), (0.0, "norms", 2.5)):
        training = TrainingConfig(batch_size=2, momentum=momentum)
        fednova = method([2, 6], training, tau_eff=choice)
        uplinks = [
            Uplink(client, {"steps": torch.tensor([tau], dtype=torch.int32)})
            for client, tau in zip(fednova.federation.clients, (1, 3), strict=True)
        ]
        assert fednova.tau_eff(uplinks) == pytest.approx(expected)


def test_adam_normalises_by_the_steps() -> None:
    assert method([6], TrainingConfig(batch_size=2, optimizer="adam")).norm(3) == 3


def test_with_equal_steps_it_is_fedavg() -> None:
    """Five samples each in one batch: all take one step, and normalising by it changes nothing."""
    training = {"batch_size": 1000}
    fednova, fedavg = (
        federations.run(federations.built(federations.config(name, training=training)).engine, 3).server
        for name in ("fednova", "fedavg")
    )
    for name, tensor in fedavg.items():
        torch.testing.assert_close(fednova[name], tensor, rtol=1e-4, atol=1e-5)
