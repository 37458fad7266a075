"""When a change of a client's accuracy is more than chance: accuracies are shares of a few test samples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Z = 1.96
"""Standard errors to either side of a 95 % interval."""
FEW = 20
"""An accuracy over fewer test samples moves by more than five points with one of them."""


def standard_errors(before: Any, after: Any, tested: Any) -> Array:
    """[N] the change from one accuracy to another, in standard errors of a difference of two shares [N]."""
    change, middle = np.asarray(after - before, float), (before + after) / 2
    error = np.sqrt(2 * middle * (1 - middle) / np.maximum(tested, 1))
    return np.asarray(np.divide(change, error, out=np.zeros_like(change), where=error > 0))


def is_fall(before: Any, after: Any, tested: Any) -> NDArray[np.bool_]:
    """[N] whether accuracies fell, significantly at 5 %, over at least FEW test samples."""
    return np.asarray((np.asarray(tested) >= FEW) & (standard_errors(before, after, tested) <= -Z))
