"""Rounds as a run of MLflow, in its tracking store: $MLFLOW_TRACKING_URI, or a folder that is named."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from simulator.base.extras import library
from simulator.base.nested import flattened, toml_value
from simulator.base.record import Record
from simulator.results.analysis.run import SessionData
from simulator.results.export.following import scalars

EXTRA = "mlflow"
BATCH = 1000
"""Numbers in one request: the store takes no more."""


class Mlflow:
    """A run named like the session, with its settings as parameters and the round as step."""

    def __init__(self, experiment: str, folder: Path | None) -> None:
        """Raises ConfigError where MLflow is not installed."""
        mlflow = library("mlflow", EXTRA)
        self._metric = library("mlflow.entities", EXTRA).Metric
        where = None if folder is None else f"sqlite:///{_made(folder).resolve() / 'mlflow.db'}"
        self._client: Any = mlflow.MlflowClient(tracking_uri=where)
        self._experiment = experiment
        self._id: str | None = None

    def begin(self, run: SessionData) -> None:
        known = self._client.get_experiment_by_name(self._experiment)
        experiment = known.experiment_id if known else self._client.create_experiment(self._experiment)
        self._id = self._client.create_run(experiment, run_name=run.name).info.run_id
        for key, value in flattened(run.config).items():
            if value is not None:
                self._client.log_param(self._id, key, value if isinstance(value, str) else toml_value(value))

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            at = record["timing"].get("at")
            when = datetime.fromisoformat(at) if at else datetime.now().astimezone()
            time = int(when.timestamp() * 1000)
            metrics = [
                self._metric(key, float(value), time, record["round"])
                for key, value in scalars(record, run).items()
            ]
            for start in range(0, len(metrics), BATCH):
                self._client.log_batch(self._id, metrics=metrics[start : start + BATCH])

    def close(self) -> None:
        if self._id is not None:
            self._client.set_terminated(self._id)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
