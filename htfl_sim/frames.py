"""Tidy tables as pandas data frames."""

from typing import TYPE_CHECKING

from simulator.results.analysis.tidy import Tidy

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(table: Tidy) -> "DataFrame":
    """A data frame of the table's columns: numbers that are not there are NaN, `at` is a time in UTC."""
    import pandas

    made = pandas.DataFrame(list(table.rows), columns=list(table.columns))
    for name in table.columns:
        if made[name].isna().all() and len(made):
            made[name] = made[name].astype(float)
    if "at" in table.columns:
        made["at"] = pandas.to_datetime(made["at"], utc=True)
    return made
