"""`export` of numbers to CSV and trackers: each round exactly once, also beside a live run, read back."""

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
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tidy import CLIENT_COLUMNS, Tidy
from simulator.results.export.sinks import scalars, send, sink, text
from tests.cli.conftest import Cli
from tests.face.conftest import tiny


def rows(written: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written)))


def test_rounds_as_csv_read_back_to_the_very_numbers_of_the_ledger(cli: Cli, trained: Path) -> None:
    found = rows(cli("export", trained).out)
    ledger = SessionReader(trained).records()
    assert [float(row["accuracy"]) for row in found] == [record["accuracy"]["mean"] for record in ledger]
    assert [int(row["flops"]) for row in found] == [record["flops"]["total"] for record in ledger]


def test_a_client_that_took_no_part_has_no_loss_in_the_csv(cli: Cli, trained: Path) -> None:
    result = cli("export", trained, "--what=clients", "--out=out/clients.csv")
    assert result.code == 0 and "4 rounds exported to csv in out/clients.csv" in result.err
    found = rows(Path("out/clients.csv").read_text(encoding="utf-8"))
    assert tuple(found[0])[: len(CLIENT_COLUMNS)] == tuple(CLIENT_COLUMNS) and len(found) == 16
    assert {"eval_accuracy", "test_loss"} <= found[0].keys()
    assert {row["loss"] == "" for row in found if row["took_part"] == "False"} == {True}
    assert {row["loss"] == "" for row in found if row["took_part"] == "True"} == {False}


def test_the_partition_and_cka_are_tables_too(cli: Cli, trained: Path) -> None:
    counts = rows(cli("export", trained, "--what=partition").out)
    assert sum(int(row[part]) for row in counts for part in ("train", "eval", "test")) == 600
    pairs = rows(cli("export", trained, "--what=cka").out)
    assert {row["round"] for row in pairs} == {"2", "4"}


def test_what_is_not_there_is_an_empty_cell_also_where_only_later_rounds_have_the_column() -> None:
    table = Tidy.of(("round",), [{"round": 1}, {"round": 2, "x": 0.5}])
    assert text(table) == "round,x\n1,\n2,0.5\n"


def test_options_that_say_nothing_here_are_refused(cli: Cli, trained: Path) -> None:
    for words, said in (
        (["--what=clients", "--to=tensorboard"], "--what chooses a table for csv"),
        (["--weights=client/1", "--follow"], "--follow makes no sense with --weights"),
        (["--weights=server"], "'server' names no client"),
        (["--weights=client/70"], "has no client 70"),
        (["--at-round=2"], "--at-round makes no sense with numbers"),
        (["--what=partition", "--follow"], "a partition does not change"),
        (["--project=x"], "--project belongs to"),
    ):
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


def read(folder: Path) -> dict[str, dict[int, float]]:
    """Every scalar by tag and step, as TensorBoard shows it."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator")
    from tensorboard.util.tensor_util import make_ndarray

    events = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: {event.step: make_ndarray(event.tensor_proto).item() for event in events.Tensors(tag)}
        for tag in events.PluginTagToContent("scalars")
    }


def test_the_events_read_back_are_the_ledger(trained: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = trained.parent / "runs"
    assert hs.open(trained).export("tensorboard", folder) == 4
    with pytest.raises(hs.ConfigError, match="holds TensorBoard events already"):
        hs.open(trained).export("tensorboard", folder)
    shown = read(folder)
    ledger, feed = SessionReader(trained).records(), Feed(trained)
    feed.refresh()
    expected = {record["round"]: scalars(record, feed.run) for record in ledger}
    assert {tag: set(steps) for tag, steps in shown.items()} == {
        tag: {round for round, found in expected.items() if tag in found} for tag in shown
    }
    for round, found in expected.items():
        assert {tag: shown[tag][round] for tag in found} == found
    assert [shown["rounds/accuracy"][record["round"]] for record in ledger] == [
        record["accuracy"]["mean"] for record in ledger
    ]


def test_mlflow_gives_back_the_ledger(trained: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    results = hs.open(trained)
    assert results.export("mlflow", trained.parent / "tracking") == 4
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{trained.parent / 'tracking' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("htfl-sim")
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "rounds/accuracy")
    assert [metric.value for metric in history] == results.records()["accuracy"].tolist()
    assert [metric.step for metric in history] == [1, 2, 3, 4]
    assert (run.info.run_name, run.info.status) == ("trained", "FINISHED")
    assert run.data.params["method.name"] == "fedlora"


def test_wandb_keeps_a_run_on_this_machine(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert hs.open(trained).export("wandb", trained.parent / "kept") == 4
    (kept,) = (trained.parent / "kept").rglob("*.wandb")
    assert b"rounds/accuracy" in kept.read_bytes()
