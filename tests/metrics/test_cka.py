"""Linear CKA against its definition, and what it must not depend on."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.metrics.cka_matrices import all_pairs, centred_gram

ESTIMATORS = pytest.mark.parametrize("debiased", [False, True], ids=["plain", "debiased"])


def outputs(seed: int, *shape: int, shift: float = 0.0) -> Tensor:
    """Normal numbers around `shift`."""
    return torch.from_numpy(np.random.default_rng(seed).normal(shift, 1.0, shape)).float()


def cka(x: Tensor, y: Tensor, debiased: bool = False) -> float:
    """What is under test: the CKA of two layers' outputs."""
    return float(all_pairs(torch.stack([centred_gram(x, debiased), centred_gram(y, debiased)]))[0, 1])


def by_definition(x: Tensor, y: Tensor) -> float:
    """tr(KHLH) / √(tr(KHKH) tr(LHLH)) with H = 1 − 11ᵀ/n, in float64 as it is written."""
    x, y = x.flatten(1).double().numpy(), y.flatten(1).double().numpy()
    n = len(x)
    h = np.eye(n) - 1 / n
    gram_x, gram_y = x @ x.T, y @ y.T

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.trace(a @ h @ b @ h)) / (n - 1) ** 2

    return hsic(gram_x, gram_y) / math.sqrt(hsic(gram_x, gram_x) * hsic(gram_y, gram_y))


def by_counting(x: Tensor, y: Tensor) -> float:
    """HSIC as Song et al. define the unbiased estimate: means over all tuples of *different* images.

    E[K_ij L_ij] + E[K_ij L_qr] − 2 E[K_ij L_iq], each over distinct indices.
    """
    x, y = x.double().numpy(), y.double().numpy()
    n = len(x)
    gram_x, gram_y = x @ x.T, y @ y.T

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        two = np.mean([a[i, j] * b[i, j] for i, j in permutations(range(n), 2)])
        three = np.mean([a[i, j] * b[i, q] for i, j, q in permutations(range(n), 3)])
        four = np.mean([a[i, j] * b[q, r] for i, j, q, r in permutations(range(n), 4)])
        return float(two + four - 2 * three)

    return hsic(gram_x, gram_y) / math.sqrt(hsic(gram_x, gram_x) * hsic(gram_y, gram_y))


@given(
    n=st.integers(4, 40), p=st.integers(1, 60), q=st.integers(1, 60), shift=st.sampled_from([0.0, 3.0, 50.0])
)
def test_it_is_what_the_formula_says(n: int, p: int, q: int, shift: float) -> None:
    """Also where the mean is fifty times the spread, as after a ReLU it can be many times."""
    x = outputs(1, n, p, shift=shift)
    y = outputs(2, n, q, shift=shift) + 0.5 * x[:, :1]
    assert cka(x, y) == pytest.approx(by_definition(x, y), abs=1e-5)


@given(n=st.integers(4, 8), p=st.integers(2, 5), q=st.integers(2, 5))
def test_the_debiased_one_is_the_mean_over_distinct_images(n: int, p: int, q: int) -> None:
    x, y = outputs(n, n, p, shift=1.0), outputs(n + 100, n, q)
    assert cka(x, y, debiased=True) == pytest.approx(by_counting(x, y), abs=1e-5)


def test_four_images_by_hand() -> None:
    """(1, 1, −1, −1) and (1, −1, 1, −1) share nothing; x and z = (3, 1, −1, −3) share (x·z)²/(x·x z·z) = 64/80."""
    x, y, z = (torch.tensor(v).reshape(4, 1) for v in ([1.0, 1, -1, -1], [1.0, -1, 1, -1], [3.0, 1, -1, -3]))
    assert cka(x, y) == pytest.approx(0.0, abs=1e-6)
    assert cka(x, z) == pytest.approx(0.8, abs=1e-6)


@ESTIMATORS
@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6), shift=st.floats(-10, 10))
def test_a_model_is_wholly_like_itself_turned_scaled_and_shifted(
    debiased: bool, seed: int, scale: float, shift: float
) -> None:
    x = outputs(seed, 24, 12)
    turn, _ = torch.linalg.qr(outputs(seed + 1, 12, 12))
    assert cka(x, x, debiased) == pytest.approx(1.0, abs=1e-6)
    assert cka(x, scale * (x @ turn + shift), debiased) == pytest.approx(1.0, abs=1e-4)


def test_independent_features_are_not_alike_once_debiased() -> None:
    """Plain CKA of 1000 features in 64 images calls two independent noises alike: each Gram matrix is nearly ∝ H."""
    pairs = [(outputs(seed, 64, 1000), outputs(seed + 500, 64, 1000)) for seed in range(20)]
    assert np.mean([cka(x, y) for x, y in pairs]) > 0.9
    assert abs(np.mean([cka(x, y, debiased=True) for x, y in pairs])) < 0.02


@ESTIMATORS
def test_all_pairs_at_once_are_the_pairs_one_by_one(debiased: bool) -> None:
    """In 96² > 8192 columns, so that the sum over their parts is put to the test."""
    shared = outputs(9, 96, 10)
    layers = [shared + outputs(seed, 96, 10) for seed in range(6)]
    together = all_pairs(torch.stack([centred_gram(x, debiased) for x in layers]))
    for i, x in enumerate(layers):
        for j, y in enumerate(layers):
            assert float(together[i, j]) == pytest.approx(cka(x, y, debiased), abs=1e-12)
    assert torch.equal(together, together.T)


@ESTIMATORS
@pytest.mark.parametrize(
    "empty",
    [
        torch.zeros(16, 5),
        torch.full((16, 5), 0.1),
        0.3 + 1e-8 * outputs(1, 16, 5),
        outputs(1, 16, 5).index_fill(0, torch.tensor([3]), float("nan")),
        outputs(1, 16, 5).index_fill(0, torch.tensor([3]), float("inf")),
    ],
    ids=["zero", "constant", "constant but for rounding", "nan", "infinite"],
)
def test_outputs_that_say_nothing_are_like_nothing_not_even_themselves(debiased: bool, empty: Tensor) -> None:
    grams = torch.stack([centred_gram(x, debiased) for x in (outputs(1, 16, 5), empty, outputs(2, 16, 5))])
    alike = all_pairs(grams)
    assert alike[1].isnan().all()
    assert alike[:, 1].isnan().all()
    assert alike[[0, 0, 2], [0, 2, 2]].isfinite().all()


def test_debiased_images_all_equally_far_apart_have_nothing_to_compare() -> None:
    """One feature per image: off the diagonal, the centred Gram matrix is one constant, and U-centred it is zero."""
    apart = centred_gram(torch.eye(16) * 1.7 + 0.3, debiased=True)
    assert apart.isnan().all()
