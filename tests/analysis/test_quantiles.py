"""Quantiles over clients: numpy's, but for clients without a value."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from simulator.results.analysis.client_values import quantiles


def test_quantiles_lie_between_order_statistics_and_leave_nan_out() -> None:
    values = np.array([[1.0, 2, 3, 4, np.nan], [5, np.nan, np.nan, np.nan, np.nan], [np.nan] * 5])
    low, middle = quantiles(values, (0.1, 0.5))
    # Four values: the 10 % quantile is 0.3 of the way from the first to the second.
    np.testing.assert_allclose(low, [1.3, 5.0, np.nan])
    np.testing.assert_allclose(middle, [2.5, 5.0, np.nan])


@given(arrays.arrays(float, (3, 7), elements=st.floats(-1e6, 1e6)), st.floats(0, 1))
def test_quantiles_are_numpys_where_nothing_is_missing(values: np.ndarray, share: float) -> None:
    (mine,) = quantiles(values, (share,))
    np.testing.assert_allclose(mine, np.quantile(values, share, axis=1), rtol=1e-9, atol=1e-9)
