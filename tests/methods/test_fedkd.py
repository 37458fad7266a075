"""FedKD: what travels of a matrix, how two networks teach each other; by hand."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from simulator.base import rng
from simulator.base.tensors import Tensors
from simulator.methods import Uplink
from simulator.methods.fedkd import FedKD, decomposed, rank, restored, truncated
from simulator.training.phase import Nets
from tests import federations
from tests.methods import sharing
from tests.networks import Plain, batch


def method(rounds: int = 10, **options: Any) -> FedKD:
    return sharing.of(
        "fedkd",
        federations.federation(["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2], rounds=rounds),
        **options,
    )


def test_the_rank_is_the_fewest_factors_that_hold_the_energy() -> None:
    """s² = 9, 4, 1, and with it 9/14 = 0.643, 13/14 = 0.929 and 1 of the energy."""
    for energy, expected in [(0.5, 1), (0.64, 1), (0.7, 2), (0.92, 2), (0.95, 3), (1.0, 3)]:
        assert rank(torch.tensor([3.0, 2.0, 1.0]), energy) == expected


shapes = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**20), shapes, st.integers(1, 4), st.floats(0.5, 1.0))
def test_a_matrix_comes_back_within_the_energy_and_never_grows(
    seed: int, shape: tuple[int, ...], true_rank: int, energy: float
) -> None:
    """‖W − Ŵ‖² ≤ (1 − T)·‖W‖² for matrices and kernels of any true rank, for at most the matrix's own numbers; and one
    factor less would have left more than that behind."""
    stream = rng.torch_stream(seed, "tests/matrix")
    rows, columns = shape[0], math.prod(shape[1:])
    weight = torch.randn(rows, true_rank, generator=stream) @ torch.randn(
        true_rank, columns, generator=stream
    )
    weight = weight.reshape(shape)
    payload = truncated({"w": weight}, decomposed({"w": weight}), energy)
    assert sum(tensor.numel() for tensor in payload.values()) <= weight.numel()
    lost = (restored(payload, "w").reshape(shape) - weight).double().square().sum().item()
    whole = weight.double().square().sum().item()
    assert lost <= (1 - energy) * whole + 1e-5 * whole
    if "s/w" in payload and len(payload["s/w"]) > 1:
        fewer = {f"{part}/w": payload[f"{part}/w"] for part in ("s", "v")}
        fewer = {name: tensor[:-1] for name, tensor in fewer.items()} | {"u/w": payload["u/w"][:, :-1]}
        lost_then = (restored(fewer, "w").reshape(shape) - weight).double().square().sum().item()
        assert lost_then >= (1 - energy) * whole - 1e-5 * whole


def test_the_energy_rises_evenly_to_its_end_in_the_last_round() -> None:
    """0.95 + 0.03 · t/10."""
    fedkd = method(rounds=10)
    assert [fedkd.energy(t) for t in (1, 5, 10, 11)] == pytest.approx([0.953, 0.965, 0.98, 0.98], rel=1e-12)


def pair() -> Nets:
    """Features and logits are the pixels in the local model and minus the pixels in the meme; W_h doubles."""
    nets = Nets(Plain(1.0))
    nets["meme"] = Plain(-1.0)
    nets["projection"] = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    nets["projection"].load_state_dict({"weight": 2 * torch.eye(2)})
    return nets


SIGMA = 1 / (1 + math.exp(-1))
ERRORS = -math.log(SIGMA) - math.log(1 - SIGMA)
"""CE + CE_meme where the logits of the true class and the other are (1, 0) in the one and (−1, 0) in the other."""


def test_the_loss_divides_divergence_and_distance_by_the_sum_of_errors() -> None:
    """H = (1, 0), W_h·H_meme = (−2, 0): MSE 9/2. Either KL is (2σ − 1)·log(σ/(1−σ)) = 2σ − 1. Both have both."""
    loss = method().loss(pair(), {}, batch((1, 0, 0)), {})
    assert loss.item() == pytest.approx(ERRORS + 2 * ((2 * SIGMA - 1) + 4.5) / ERRORS, rel=1e-13)


def test_each_loss_reaches_its_own_network_and_the_divisor_none() -> None:
    """By the scales, for the pixel 1. Local: σ − 1 from CE, 2σ − 1 from KL, and d/dh (h + 2)²/2 = 3 from MSE. Meme:
    −σ, 1 − 2σ, and d/dh_meme (2h_meme − 1)²/2 = −6. W_h: the meme's MSE alone, d/dw (w·(−1) − 1)²/2 = 3."""
    nets = pair()
    method().loss(nets, {}, batch((1, 0, 0)), {}).backward()
    local = (SIGMA - 1) + ((2 * SIGMA - 1) + 3) / ERRORS
    meme = -SIGMA + ((1 - 2 * SIGMA) - 6) / ERRORS
    assert nets.model.scale.grad.item() == pytest.approx(local, rel=1e-12)
    assert nets["meme"].scale.grad.item() == pytest.approx(meme, rel=1e-12)
    assert nets["projection"].weight.grad[0, 0].item() == pytest.approx(3 / ERRORS, rel=1e-12)


def filled(fedkd: FedKD, value: float) -> Tensors:
    """An uplink of a meme in which every number is the same: its matrices, of rank one, travel as factors."""
    meme = {
        name: torch.full(tensor.shape, value)
        for name, tensor in fedkd.federation.architecture(fedkd.small).state_dict().items()
    }
    payload = truncated(meme, decomposed(meme), 0.95)
    assert {"u/fc1.weight", "meme/fc1.bias"} < payload.keys()
    return payload


def test_the_meme_is_the_mean_of_the_restored_ones_weighted_by_training_samples() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8, in the meme and in what its new factors make."""
    fedkd = method()
    start = fedkd.init_server()
    uplinks = [
        Uplink(client, filled(fedkd, value))
        for client, value in zip(fedkd.federation.clients, (4.0, 8.0, 10.0), strict=True)
    ]
    server, metrics = fedkd.aggregate(1, start, uplinks)
    assert metrics == {"energy": fedkd.energy(1)}
    shapes = [{name: each.shape for name, each in tensors.items()} for tensors in (server, start)]
    assert shapes[0] == shapes[1]  # of kernels, too
    for name, tensor in server.items():
        if name.startswith("meme/"):
            torch.testing.assert_close(tensor, torch.full_like(tensor, 8.0))
    payload = fedkd.downlink(2, server, fedkd.federation.clients[0])
    assert payload["s/fc1.weight"].shape == (1,)
    fc1 = restored(payload, "fc1.weight")
    torch.testing.assert_close(fc1, torch.full_like(fc1, 8.0))


def trained(client: int) -> tuple[Any, dict[str, Tensor]]:
    """A client's local update, with models of 8 and of 500 features, and its state before."""
    config = federations.config(
        "fedkd", federation={"clients": 2, "participation": 1.0, "group": ["tiny_cnn", "cnn5"]}
    )
    parts = federations.built(config, federations.generated(side=16))
    state = parts.engine.initial_state()
    info = parts.federation.clients[client]
    payload = {name: t.clone() for name, t in parts.method.downlink(1, state.server, info).items()}
    return federations.updated(parts, client, state.clients[client], payload), state.clients[client]


def test_w_h_joins_features_of_different_widths_and_stays_with_the_client() -> None:
    for client, features in [(0, 8), (1, 500)]:
        done, before = trained(client)
        assert before["projection/weight"].shape == done.tensors["projection/weight"].shape == (features, 8)
        assert not torch.equal(done.tensors["projection/weight"], before["projection/weight"])
        assert not any(name.partition("/")[0] == "projection" for name in done.uplink)
        assert [name for name in before if name.startswith("projection/")] == ["projection/weight"]


def test_a_matrix_that_is_not_finite_travels_as_such() -> None:
    """The decomposition would raise; a diverged client is the engine's to name."""
    weight = torch.tensor([[1.0, math.nan], [math.inf, 1.0]])
    payload = truncated({"w": weight}, decomposed({"w": weight}), 0.95)
    assert not restored(payload, "w").isfinite().all()


def test_factors_travel_only_where_they_are_fewer_numbers_than_the_weight() -> None:
    """Of rank 1, a 2×3 matrix has 2 + 1 + 3 = 6 numbers in its factors and in itself; a 2×4 one 7 and 8."""
    for columns, travels in [(3, ["meme/w"]), (4, ["s/w", "u/w", "v/w"])]:
        weight = torch.ones(2, columns)
        assert sorted(truncated({"w": weight}, decomposed({"w": weight}), 0.95)) == travels


def test_a_matrix_that_float32_cannot_decompose_is_decomposed_in_float64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MKL failed for a finite 500 × 500 weight of a CNN."""
    svd = torch.linalg.svd

    def failing(matrix: Tensor, **options: bool) -> Any:
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("linalg.svd: The algorithm failed to converge")
        return svd(matrix, **options)

    weight = torch.arange(12.0).reshape(3, 4)
    expected = decomposed({"w": weight})
    monkeypatch.setattr(torch.linalg, "svd", failing)
    found = decomposed({"w": weight})
    assert found["s/w"].dtype == torch.float32
    assert torch.allclose(found["s/w"], expected["s/w"], atol=1e-5)
    assert torch.allclose((found["u/w"] * found["s/w"]) @ found["v/w"], weight, atol=1e-5)
