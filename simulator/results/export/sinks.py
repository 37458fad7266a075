"""Where the rounds of a session go, also while it runs: CSV files, and the trackers TensorBoard, W&B, and MLflow."""

import csv
import errno
import io
import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np

from simulator.base.errors import ConfigError, cannot_write, nearest
from simulator.base.extras import library
from simulator.base.nested import as_toml, flattened, toml_value
from simulator.base.record import Record
from simulator.base.units import cell
from simulator.metrics import by_client
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tidy import SESSION_TABLES, Tidy, round_row


def text(table: Tidy, header: bool = True) -> str:
    """The table as CSV."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if header:
        writer.writerow(map(cell, table.columns))
    writer.writerows(map(cell, row) for row in table.rows)
    return written.getvalue()


class Sink:
    """Where rounds go. `begin` comes first and `close` last, also when something failed in between."""

    def begin(self, run: SessionData) -> None:
        """The session, as it was found."""

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        """The next rounds, in order, each exactly once."""
        raise NotImplementedError

    def close(self) -> None:
        """There will be no more."""


class CsvFile(Sink):
    """A table of a session, written whole whenever there is more: a switch of method may bring new columns."""

    def __init__(self, path: Path, what: str) -> None:
        """Raises ConfigError if a folder has the file's name."""
        if path.is_dir():
            raise cannot_write(path, IsADirectoryError(errno.EISDIR, ""))
        self._path = path
        self._what = what

    def begin(self, run: SessionData) -> None:
        self.add((), run)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(text(SESSION_TABLES[self._what](run)), encoding="utf-8")
        beside.replace(self._path)


class CsvStream(Sink):
    """The same, line by line, as it comes. Its columns are those of the first rounds."""

    def __init__(self, stream: IO[str], what: str) -> None:
        self._stream = stream
        self._what = what
        self._columns: tuple[str, ...] | None = None
        self._rows = 0

    def begin(self, run: SessionData) -> None:
        if not run.live:  # all that there will be
            self.add((), run)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        table = SESSION_TABLES[self._what](run)
        header = self._columns is None
        self._columns = self._columns or table.columns
        found = [dict(zip(table.columns, row, strict=True)) for row in table.rows[self._rows :]]
        rows = tuple(tuple(row.get(name) for name in self._columns) for row in found)
        self._rows = len(table.rows)
        self._stream.write(text(Tidy(self._columns, rows), header))
        self._stream.flush()


POLL_SECONDS = 0.5
"""How often a live session is looked at."""


def send(folder: Path, sink: Sink, follow: bool = False) -> int:
    """Hand finished rounds to the sink, with `follow` while the session runs; how many. Raises as `Feed.refresh`."""
    feed = Feed(folder)
    feed.refresh()
    sent, live = 0, True
    try:
        sink.begin(feed.run)
        while True:
            # A round that is run again after a kill gives what it gave: it has been sent.
            if new := feed.run.records[sent:]:
                sink.add(new, feed.run)
                sent += len(new)
            if not (follow and live):
                return sent
            # Once it is not live, one more look: rounds may have come before the end was seen.
            if live := feed.run.live:
                time.sleep(POLL_SECONDS)
            feed.refresh()
    finally:
        sink.close()


_SCORES = ("rounds/accuracy", *(f"rounds/{part}_" for part in ("train", "eval", "test", "unseen")))
"""How the names of a round's scores begin."""


def scalars(record: Record, run: SessionData) -> dict[str, float]:
    """A round's numbers for a tracker: `rounds/COLUMN` as the table of rounds has them, and every client's.

    Trackers take the last number of a name for the result. So as long as every update has diverged, there are no
    scores, and `rounds/untrained` is 1.
    """
    numbers = {
        f"rounds/{name}": value
        for name, value in round_row(record).items()
        if name != "round" and isinstance(value, int | float) and not isinstance(value, bool)
    }
    # The count over all rounds is asked for only if this round has brought nothing.
    if len(record["participants"]) == len(record.get("diverged", ())) and (
        Divergence.of(run.totals, record["round"]).untrained
    ):
        numbers = {name: each for name, each in numbers.items() if not name.startswith(_SCORES)}
        return numbers | {"rounds/untrained": 1}
    for what in ("accuracy", "loss"):
        numbers |= {
            f"{what}/client_{client}": value
            for client, value in by_client.items(record[what]["per_client"])
            if value is not None
        }
    return numbers


BATCH = 1000
"""Numbers in one request to MLflow: its store takes no more."""


class TensorBoard(Sink):
    """A log directory with one event file, of double precision; the step is the round, the time that of its end."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigError where TensorBoard is not installed, or the folder holds events already."""
        event, summary, make, writer = (
            library(f"tensorboard.{module}", "tensorboard")
            for module in (
                "compat.proto.event_pb2", "compat.proto.summary_pb2", "util.tensor_util",
                "summary.writer.event_file_writer",
            )
        )  # fmt: skip
        self._event, self._summary, self._tensor = event.Event, summary, make.make_tensor_proto
        if any(folder.glob("events.out.tfevents.*")):
            raise ConfigError(
                f"{folder} holds TensorBoard events already, which would be shown twice; remove it, or choose "
                "another folder: `out=DIR`."
            )
        self._writer = writer.EventFileWriter(str(folder))

    def begin(self, run: SessionData) -> None:
        if run.config:
            lines = "\n".join(f"    {line}" for line in as_toml(run.config).splitlines())  # verbatim
            settings = lines.encode(errors="backslashreplace")
            self._add("settings", "text", np.array([settings], dtype=object), 0, time.time())

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            for tag, value in scalars(record, run).items():
                self._add(tag, "scalars", np.float64(value), record["round"], _ended(record))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, tag: str, plugin: str, value: object, step: int, at: float) -> None:
        metadata = self._summary.SummaryMetadata(
            plugin_data=self._summary.SummaryMetadata.PluginData(plugin_name=plugin)
        )
        shown = self._summary.Summary.Value(tag=tag, tensor=self._tensor(value), metadata=metadata)
        summary = self._summary.Summary(value=[shown])
        self._writer.add_event(self._event(wall_time=at, step=step, summary=summary))


class Wandb(Sink):
    """A run named like the session, with its settings as config and the round as step."""

    def __init__(self, project: str, folder: Path | None) -> None:
        """Raises ConfigError where wandb is not installed."""
        self._wandb = library("wandb", "wandb")
        self._project = project
        self._folder = folder
        self._run: Any = None

    def begin(self, run: SessionData) -> None:
        where = None if self._folder is None else str(_made(self._folder))
        self._run = self._wandb.init(project=self._project, name=run.name, config=run.config, dir=where)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            self._run.log(scalars(record, run), step=record["round"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class Mlflow(Sink):
    """A run with the settings as parameters and the round as step, in $MLFLOW_TRACKING_URI or a named folder."""

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
            at = int(_ended(record) * 1000)
            metrics = [
                self._metric(key, float(value), at, record["round"])
                for key, value in scalars(record, run).items()
            ]
            for start in range(0, len(metrics), BATCH):
                self._client.log_batch(self._id, metrics=metrics[start : start + BATCH])

    def close(self) -> None:
        if self._id is not None:
            self._client.set_terminated(self._id)


def _ended(record: Record) -> float:
    """When a round ended, in Unix seconds; now where an earlier version wrote nothing."""
    at = record["timing"].get("at")
    return datetime.fromisoformat(at).timestamp() if at else time.time()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


Target = Literal["csv", "tensorboard", "wandb", "mlflow"]
TARGETS: tuple[Target, ...] = get_args(Target)
PROJECT = "htfl-sim"


def sink(target: str, session: str, out: Path | None, what: str = "rounds", project: str = PROJECT) -> Sink:
    """Where a session's rounds go: `out` is a file (csv) or a folder; each has a default of its own. `what` is a table
    for csv; `project` is W&B's project or MLflow's experiment.

    Raises ConfigError for an unknown target, and where its library is not installed.
    """
    match target:
        case "csv":
            return CsvFile(out or Path(f"{session}-{what}.csv"), what)
        case "tensorboard":
            return TensorBoard(out or Path("runs") / session)
        case "wandb":
            return Wandb(project, out)
        case "mlflow":
            return Mlflow(project, out)
    raise ConfigError(
        f"there is no export to '{target}'.{nearest(target, TARGETS)} There is: {', '.join(TARGETS)}."
    )
