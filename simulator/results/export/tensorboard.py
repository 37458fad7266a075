"""Rounds as TensorBoard's event files: scalars in double precision, so that they read back as the ledger has them."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.extras import library
from simulator.base.nested import as_toml
from simulator.base.record import Record
from simulator.results.analysis.run import SessionData
from simulator.results.export.following import scalars

EXTRA = "tensorboard"


class TensorBoard:
    """A log directory with one event file; the step is the round, the time that of its end."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigError where TensorBoard is not installed, or the folder holds events already."""
        self._event = library("tensorboard.compat.proto.event_pb2", EXTRA).Event
        self._summary = library("tensorboard.compat.proto.summary_pb2", EXTRA)
        self._tensor = library("tensorboard.util.tensor_util", EXTRA).make_tensor_proto
        writer = library("tensorboard.summary.writer.event_file_writer", EXTRA).EventFileWriter
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
