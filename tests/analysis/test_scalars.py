"""One row of SCALARS is enough: whatever shows, compares, draws, or exports rounds has the scalar."""

from pathlib import Path
from typing import Any, cast

from docsite import tables
from simulator.base.record import SCALARS, Record, Scalar
from simulator.results.analysis import comparison, measures, tidy
from simulator.results.export.sinks import scalars
from simulator.results.figures.accuracy import values_of
from tests import sessions
from tests.analysis.runs import of, record
from tests.cli.conftest import call


def of_keys(**keys: Any) -> Record:
    """A record with nothing else."""
    return cast(Record, keys)


def test_a_scalar_is_the_sum_of_its_paths_and_missing_without_one() -> None:
    traffic = Scalar("bytes", "bytes.up + bytes.down", "bytes")
    assert traffic.of(of_keys(bytes={"up": 2, "down": 3})) == 5
    assert traffic.of(of_keys(bytes={"up": 2})) is None
    # A list counts, and is empty where it is missing.
    dropped = Scalar("dropped", "dropped", "count", listed=True)
    assert (dropped.of(of_keys(dropped=[3, 4])), dropped.of(of_keys())) == (2, 0)


def test_no_two_scalars_share_a_column_or_a_name() -> None:
    columns, titles = [each.column for each in SCALARS], [each.title for each in SCALARS if each.title]
    assert len(columns) == len({*columns}) and len(titles) == len({*titles})


def test_a_scalar_with_a_name_is_in_every_table_and_figure(tmp_path: Path) -> None:
    told = of("a", [record(1, 0.5, loss={"mean": 2.0, "per_client": [2.0]}), record(2, 0.5)])
    assert tidy.round_row(told.records[0])["loss"] == 2.0
    assert scalars(told.records[0], told)["rounds/loss"] == 2.0
    assert measures.measured(told, "training loss")[0] == 2.0
    assert values_of("loss")(told)[0] == 2.0
    assert "training loss" in measures.MEASURES and "training loss" in comparison.EXTRAS
    assert "| `loss.mean` | number or null | | `loss` |" in tables.record()
    sessions.make(tmp_path / "s", clients=2, rounds=2)
    shown = call("show", "s", "--sessions-dir", tmp_path).out
    assert "Numbers of round 2" in shown and "training loss" in shown
