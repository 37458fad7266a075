"""W&B's and MLflow's runs, where the libraries are installed: kept on this machine, and read back."""

from pathlib import Path

import pytest

import htfl_sim as hs


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
