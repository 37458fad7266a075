"""Linear CKA: how alike two networks represent the same samples, whatever the basis and the scale they do it in.

For Gram matrices K = XXᵀ and L = YYᵀ of n samples, CKA = HSIC(K, L) / √(HSIC(K, K) · HSIC(L, L)) (Kornblith et al.
2019, §3). Both estimators of HSIC are inner products ⟨K̃, L̃⟩ of matrices centred each by itself, up to a factor that
cancels: Kornblith's with K̃ = HKH, and the unbiased one (Song et al. 2012, which Nguyen et al. 2021 put into CKA) with
K̃ "U-centred" (Székely and Rizzo 2014). So each network is centred and scaled once, and all pairs are one product.
"""

import torch
from torch import Tensor

FEWEST_IMAGES = 4
"""The unbiased estimator divides by n(n − 3)."""

ROUNDING = 1e-6
"""What varies by less than this, relative to the whole, is float32's rounding and not a representation."""

_COLUMNS = 8192
"""Widened to float64 at a time."""


def centred_gram(x: Tensor, debiased: bool = False) -> Tensor:
    """The centred Gram matrix of a layer's outputs x [n, …], scaled to norm 1: [n²], float32.

    The inner product of two such is their CKA, that of one with itself 1. All NaN where CKA is 0/0: for outputs that
    are the same for every sample, or not finite.
    """
    x = x.flatten(1).to(torch.float32)
    x = x / torch.linalg.vector_norm(x)
    # Centring the features centres their Gram matrix; done afterwards, it would subtract large numbers from each other.
    x -= x.mean(0)
    gram = (x @ x.T).double()
    variance = gram.trace()
    centred = _u_centred(gram) if debiased else _centred(gram)
    norm = torch.linalg.matrix_norm(centred)
    nothing = (variance <= ROUNDING**2) | (norm <= ROUNDING * variance)
    return torch.where(nothing, torch.nan, centred / norm).flatten().to(torch.float32)


def all_pairs(grams: Tensor) -> Tensor:
    """CKA of every pair of centred Gram matrices [clients, n²]: [clients, clients], float64."""
    total = torch.zeros(len(grams), len(grams), dtype=torch.float64, device=grams.device)
    for columns in grams.split(_COLUMNS, dim=1):
        wide = columns.double()
        total += wide @ wide.T
    return (total + total.T) / 2  # the product's rounding need not be the same on both sides


def _centred(gram: Tensor) -> Tensor:
    """HKH with H = 1 − 11ᵀ/n."""
    rows = gram.mean(1)
    return gram - rows[:, None] - rows + rows.mean()


def _u_centred(gram: Tensor) -> Tensor:
    """K̃ with zero diagonal and zero sums of rows, of which ⟨K̃, L̃⟩/(n(n − 3)) is the unbiased HSIC."""
    n = len(gram)
    gram = gram.clone().fill_diagonal_(0)
    rows = gram.sum(1) / (n - 2)
    return (gram - rows[:, None] - rows + rows.sum() / (n - 1)).fill_diagonal_(0)
