"""`export` of numbers: CSV, and each round exactly once, also beside a live run."""

import csv
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import htfl_sim as hs
from checkpoints import SessionReader
from simulator.base.errors import ConfigError
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tidy import CLIENT_COLUMNS, Tidy
from simulator.results.export.sinks import send, sink, text
from tests.cli.conftest import Cli, cli, sessions  # noqa: F401 - fixtures
from tests.face.conftest import tiny


def rows(written: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written)))


def test_rounds_as_csv_read_back_to_the_very_numbers_of_the_ledger(cli: Cli, trained: Path) -> None:  # noqa: F811
    found = rows(cli("export", trained).out)
    ledger = SessionReader(trained).records()
    assert [float(row["accuracy"]) for row in found] == [record["accuracy"]["mean"] for record in ledger]
    assert [int(row["flops"]) for row in found] == [record["flops"]["total"] for record in ledger]


def test_a_client_that_took_no_part_has_no_loss_in_the_csv(cli: Cli, trained: Path) -> None:  # noqa: F811
    result = cli("export", trained, "--what=clients", "--out=out/clients.csv")
    assert result.code == 0 and "4 rounds exported to csv in out/clients.csv" in result.err
    found = rows(Path("out/clients.csv").read_text(encoding="utf-8"))
    assert tuple(found[0])[: len(CLIENT_COLUMNS)] == tuple(CLIENT_COLUMNS) and len(found) == 16
    assert {"eval_accuracy", "test_loss"} <= found[0].keys()
    assert {row["loss"] == "" for row in found if row["took_part"] == "False"} == {True}
    assert {row["loss"] == "" for row in found if row["took_part"] == "True"} == {False}


def test_the_partition_and_cka_are_tables_too(cli: Cli, trained: Path) -> None:  # noqa: F811
    counts = rows(cli("export", trained, "--what=partition").out)
    assert sum(int(row[part]) for row in counts for part in ("train", "eval", "test")) == 600
    pairs = rows(cli("export", trained, "--what=cka").out)
    assert {row["round"] for row in pairs} == {"2", "4"}


def test_what_is_not_there_is_an_empty_cell() -> None:
    assert text(Tidy(("a", "b"), ((1, None), (None, 0.5)))) == "a,b\n1,\n,0.5\n"


def test_a_column_that_only_later_rounds_have_is_empty_before() -> None:
    assert Tidy.of(("round",), [{"round": 1}, {"round": 2, "x": 3.0}]).rows == ((1, None), (2, 3.0))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--what=clients", "--to=tensorboard"], "--what chooses a table for csv"),
        (["--weights=client/1", "--follow"], "--follow makes no sense with --weights"),
        (["--weights=server"], "'server' names no client"),
        (["--at-round=2"], "--at-round makes no sense with numbers"),
        (["--what=partition", "--follow"], "a partition does not change"),
        (["--project=x"], "--project belongs to"),
    ],
)
def test_options_that_say_nothing_here_are_refused(
    cli: Cli,  # noqa: F811
    trained: Path,
    words: list[str],
    said: str,
) -> None:
    result = cli("export", trained, *words)
    assert result.code == 2 and said in result.err


def test_an_unknown_export_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"no export to 'tensorbord'\. Did you mean 'tensorboard'"):
        sink("tensorbord", "x", None)


class Collected:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.calls: list[str] = []

    def begin(self, run: SessionData) -> None:
        self.calls.append("begin")

    def add(self, records: Sequence[dict[str, Any]], run: SessionData) -> None:
        self.rounds += [record["round"] for record in records]

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.slow
def test_following_a_live_run_hands_over_every_round_once_and_ends_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    run = hs.run(tiny(), folder, until=1)
    run.close()
    run.extend(12)
    code = f"import htfl_sim as hs; hs.resume({str(folder)!r}).run()"
    running = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
    reader = SessionReader(folder)
    while not reader.alive():
        assert running.poll() is None
        time.sleep(0.05)
    collected = Collected()
    assert send(folder, collected, follow=True) == 12
    assert running.wait() == 0
    assert collected.rounds == list(range(1, 13))
    assert collected.calls == ["begin", "close"]
