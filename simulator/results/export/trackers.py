"""Rounds in the trackers: TensorBoard's event files, a run of Weights & Biases, and one of MLflow."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.extras import library
from simulator.base.nested import as_toml, flattened, toml_value
from simulator.base.record import Record
from simulator.results.analysis.run import SessionData
from simulator.results.export.following import scalars

BATCH = 1000
"""Numbers in one request to MLflow: its store takes no more."""


class TensorBoard:
    """A log directory with one event file; the step is the round, the time that of its end.

    Scalars have double precision, so that they read back as the ledger has them.
    """

    def __init__(self, folder: Path) -> None:
        """Raises ConfigError where TensorBoard is not installed, or the folder holds events already."""
        self._event = library("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = library("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._tensor = library("tensorboard.util.tensor_util", "tensorboard").make_tensor_proto
        writer = library("tensorboard.summary.writer.event_file_writer", "tensorboard").EventFileWriter
        if any(folder.glob("events.out.tfevents.*")):
            raise ConfigError(
                f"{folder} holds TensorBoard events already, which would be shown twice; remove it, or choose "
                "another folder: `out=DIR`."
            )
        self._writer = writer(str(folder))

    def begin(self, run: SessionData) -> None:
        if run.config:
            text = as_toml(run.config)
            settings = "\n".join(f"    {line}" for line in text.splitlines())  # Markdown for: as it stands
            self._add(
                "settings",
                "text",
                np.array([settings.encode(errors="backslashreplace")], dtype=object),
                0,
                None,
            )

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            for tag, value in scalars(record, run).items():
                self._add(tag, "scalars", np.float64(value), record["round"], record["timing"].get("at"))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, tag: str, plugin: str, value: object, step: int, at: str | None) -> None:
        metadata = self._summary.SummaryMetadata(
            plugin_data=self._summary.SummaryMetadata.PluginData(plugin_name=plugin)
        )
        shown = self._summary.Summary.Value(tag=tag, tensor=self._tensor(value), metadata=metadata)
        when = datetime.fromisoformat(at) if at else datetime.now().astimezone()
        self._writer.add_event(
            self._event(wall_time=when.timestamp(), step=step, summary=self._summary.Summary(value=[shown]))
        )


class Wandb:
    """A run named like the session, with its settings as config and the round as step.

    $WANDB_MODE=offline keeps it on this machine.
    """

    def __init__(self, project: str, folder: Path | None) -> None:
        """Raises ConfigError where wandb is not installed."""
        self._wandb = library("wandb", "wandb")
        self._project = project
        self._folder = folder
        self._run: Any = None

    def begin(self, run: SessionData) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        where = None if self._folder is None else str(self._folder)
        self._run = self._wandb.init(project=self._project, name=run.name, config=run.config, dir=where)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            self._run.log(scalars(record, run), step=record["round"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class Mlflow:
    """A run named like the session, with its settings as parameters and the round as step.

    Its tracking store is $MLFLOW_TRACKING_URI, or a folder that is named.
    """

    def __init__(self, experiment: str, folder: Path | None) -> None:
        """Raises ConfigError where MLflow is not installed."""
        mlflow = library("mlflow", "mlflow")
        self._metric = library("mlflow.entities", "mlflow").Metric
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
