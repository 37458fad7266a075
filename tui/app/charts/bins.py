"""A matrix made smaller by averaging neighbours."""

import numpy as np

from tui.app.charts.canvas import Array


def edges(count: int, bins: int) -> Array:
    """[bins + 1] edges that share `count` things out over `bins` bins, whose sizes differ by at most one."""
    return np.arange(bins + 1) * count // bins


def binned(matrix: Array, rows: int, columns: int) -> Array:
    """[rows, columns] means over blocks of `matrix` [n ≥ rows, m ≥ columns], NaN left out; NaN where all are."""
    if matrix.shape == (rows, columns):
        return matrix
    there = np.isfinite(matrix)
    totals, counts = _summed(np.where(there, matrix, 0.0), rows, columns), _summed(there * 1.0, rows, columns)
    return np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)


def _summed(matrix: Array, rows: int, columns: int) -> Array:
    by_row = np.add.reduceat(matrix, edges(matrix.shape[0], rows)[:-1], axis=0)
    return np.asarray(np.add.reduceat(by_row, edges(matrix.shape[1], columns)[:-1], axis=1))
