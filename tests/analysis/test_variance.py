"""The variance over seeds, with numbers derived by hand."""

from collections.abc import Mapping

import pytest

from simulator.base.errors import ConfigError
from simulator.results.analysis.variance import decomposed, variances
from tests.analysis import runs


def crossed(values: Mapping[tuple[int, int], float], **settings: str) -> list[runs.SessionData]:
    """Sessions by their seeds of data and initial weights, with these last accuracies."""
    return [
        runs.run(f"d{data}-i{init}", [0.1, value], seed={"all": 3, "data": data, "init": init}, **settings)
        for (data, init), value in values.items()
    ]


BY_HAND = {(0, 0): 0.60, (0, 1): 0.62, (1, 0): 0.70, (1, 1): 0.76}
"""The mean is 0.67. Data has the means 0.61 and 0.73, and SS = 2 · 2 · 0.06² = 0.0144. Init has 0.65 and 0.69, and
SS = 2 · 2 · 0.02² = 0.0016.
In total 0.07² + 0.05² + 0.03² + 0.09² = 0.0164, so the rest has 0.0004 with 1 degree of freedom."""


def test_a_two_by_two_design_is_split_as_by_hand() -> None:
    (row,) = variances(crossed(BY_HAND)).rows
    assert (row.n, row.training) == (4, None)
    assert row.mean == pytest.approx(0.67)
    assert row.data == pytest.approx((0.0144 - 0.0004) / 2)
    assert row.init == pytest.approx((0.0016 - 0.0004) / 2)
    assert row.rest == pytest.approx(0.0004)
    shares = [row.share(part) for part in ("data", "init", "rest")]
    assert shares == pytest.approx([0.875, 0.075, 0.05])  # of 0.007 + 0.0006 + 0.0004 = 0.008


def test_the_shares_are_printed_in_percent() -> None:
    table = variances(crossed(BY_HAND))
    (row,) = table.rows
    cells = {column.name: column.cell(row) for column in table.columns()}
    assert cells == {"dataset": "digits", "n": "4", "last, %": "67.00", "std (pp)": "8.94",
                     "data, %": "87.5", "init, %": "7.5", "training, %": "–", "rest, %": "5.0"}  # fmt: skip
    assert table.to_csv().splitlines()[0] == "dataset,n,mean,data,init,training,rest"
    assert "| digits | 4 | 67.00 | 8.94 | 87.5 | 7.5 | – | 5.0 |" in table.to_markdown()


def test_each_group_has_its_own_row() -> None:
    both = crossed(BY_HAND) + crossed(dict.fromkeys(BY_HAND, 0.5), method="fedgh")
    table = variances(both)
    approx = pytest.approx(0.007)
    assert [(row.key, row.data) for row in table.rows] == [(("fedlora",), approx), (("fedgh",), 0)]
    assert table.rows[1].share("data") is None


def test_a_negative_estimate_is_zero() -> None:
    """There is only the interaction: SS 1, 1 degree of freedom."""
    found = decomposed({(0, 0, 0): 0.0, (0, 1, 0): 1.0, (1, 0, 0): 1.0, (1, 1, 0): 0.0}, "all")
    assert (found["data"], found["init"], found["rest"]) == (0, 0, 1.0)


def test_a_single_seed_that_varies_has_all_of_the_variance() -> None:
    found = decomposed({(0, 0, 0): 0.5, (0, 0, 1): 0.6, (0, 0, 2): 0.7}, "all")
    assert (found["data"], found["init"], found["rest"]) == (None, None, None)
    assert found["training"] == pytest.approx(0.01)  # the sample variance of 0.5, 0.6 and 0.7


def test_seeds_that_vary_together_cannot_be_told_apart() -> None:
    same = [runs.run(f"s{seed}", [0.5], seed=seed) for seed in range(2)]
    with pytest.raises(ConfigError, match=r"are not crossed: 6 of 8 combinations are missing\. Cross them"):
        variances(same)
    with pytest.raises(ConfigError, match="nothing varies"):
        variances(same[:1])
