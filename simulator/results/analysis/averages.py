"""A number over seeds: mean, sample standard deviation, and how it differs from another's, seed by seed."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

CONFIDENCE = 0.95

Seed = TypeVar("Seed", bound=Hashable)


@dataclass(frozen=True)
class MeanStd:
    """`std` is that of a sample (n − 1 in the denominator, ddof=1); None of a single value."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "MeanStd | None":
        """Of the values there are; None where there is none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        mean = math.fsum(known) / len(known)
        return cls(mean, sample_std(known, mean) if len(known) > 1 else None, len(known))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean; None of a single value."""
        return None if self.std is None else _interval(self.mean, self.std, self.n)


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, and its 95 % interval by Student's t with pairs − 1 degrees of freedom.

    The interval is None where there is a single pair.
    """

    mean: float
    interval: tuple[float, float] | None
    pairs: int


def paired(values: Mapping[Seed, float], baseline: Mapping[Seed, float]) -> Difference | None:
    """`values` less `baseline`, both by seed, over the seeds that both have; None where there is none."""
    seeds = [seed for seed in values if seed in baseline]
    if not seeds:
        return None
    each = [values[seed] - baseline[seed] for seed in seeds]
    n, mean = len(each), math.fsum(each) / len(each)
    if n < 2:
        return Difference(mean, None, n)
    return Difference(mean, _interval(mean, sample_std(each, mean), n), n)


def sample_std(values: Sequence[float], mean: float) -> float:
    """The square root of Σ(x − mean)² / (n − 1) of two values or more."""
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def quantile_of_t(freedom: int) -> float:
    """Half the width, in standard errors, of the interval that holds CONFIDENCE of Student's t."""
    from scipy.special import stdtrit  # a second's import, and only a table with a baseline needs it

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _interval(mean: float, std: float, n: int) -> tuple[float, float]:
    reach = quantile_of_t(n - 1) * std / math.sqrt(n)
    return mean - reach, mean + reach
