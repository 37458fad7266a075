"""Sessions as they are read: without a lock, also while another process runs them."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import checkpoints
from htfl_sim import comparing, sessions
from htfl_sim.folders import place_of
from simulator.results.analysis import tidy
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.run import SessionData as Moment
from simulator.results.analysis.tidy import Tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from torch import Tensor

    from simulator.models import Network
    from simulator.results.export.sinks import Target
    from simulator.results.export.weights import Exported
    from simulator.results.inspection.models import Models

Place = str | Path


class Results:
    """A session's results as its files have them now. Every look reads what is new.

    `path` is its folder, or its name in $HTFL_SESSIONS, or else in ./sessions. Only `partition`, `model`, `scores` and
    `data` load torch and the session's data set. Raises SessionUnreadable where it is missing or damaged.
    """

    def __init__(self, path: Place, data_dir: Place | None = None) -> None:
        self.path = place_of(path)
        self._data_dir = data_dir
        self._feed = Feed(self.path)
        self._feed.refresh()

    def __repr__(self) -> str:
        now = self.moment
        mean = "" if self.accuracy is None else f", accuracy {self.accuracy:.4f}"
        stands = f"{now.method}, {now.state}, round {now.round} of {now.rounds}{mean}"
        return f"<{type(self).__name__} {self.path}: {stands}>"

    @property
    def moment(self) -> Moment:
        """Everything of the session as it is now, as htfl-sim's own tables and figures take it."""
        self._feed.refresh()
        return self._feed.run

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def state(self) -> str:
        """'running', 'pausing', 'paused', 'stopping', 'stopped', 'finished' or 'interrupted'."""
        return self.moment.state

    @property
    def round(self) -> int:
        """The last finished round; 0 before the first."""
        return self.moment.round

    @property
    def rounds(self) -> int:
        """The round that is to be the last."""
        return self.moment.rounds

    @property
    def method(self) -> str:
        """The method in force."""
        return self.moment.method

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration in force after the last checkpoint, as nested plain values."""
        return self.moment.config

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The rounds whose checkpoint is kept; other rounds' models are computed again when they are asked for."""
        return self.moment.checkpoints

    @property
    def tags(self) -> tuple[str, ...]:
        """What the session is marked with. Raises Damaged of the room `checkpoints`."""
        return checkpoints.tags_of(self.path)

    @property
    def accuracy(self) -> float | None:
        """The mean test accuracy after the last round, 0…1; None before the first."""
        record = self.moment.record(None)
        return record["accuracy"]["mean"] if record else None

    @property
    def best(self) -> float | None:
        """The highest mean test accuracy so far, 0…1: chosen on the test samples themselves."""
        record = self.moment.record(None)
        return record["accuracy"]["best_mean"] if record else None

    def records(self) -> "DataFrame":
        """A row a round; docs/python.md lists the columns."""
        return frame(tidy.rounds(self.moment))

    def clients(self) -> "DataFrame":
        """A row for every round and client; docs/python.md lists the columns."""
        return frame(tidy.clients(self.moment))

    def cka(self) -> "DataFrame":
        """A row for every measured round, layer and pair of clients; docs/python.md lists the columns."""
        return frame(tidy.cka(self.moment))

    def partition(self) -> "DataFrame":
        """A row for every client and class with its samples in each part; reads the data set."""
        from simulator.results.inspection import partition

        found = partition.of_session(self.path, self._data_folder())
        return frame(tidy.Tidy.of(partition.COLUMNS, list(found.rows())))

    def model(self, client: int, round: int | None = None) -> "Network":
        """A client's model after a round (None: the last), in evaluation mode.

        Where no checkpoint of the round is kept, rounds are run again from the nearest earlier one, and must give what
        the ledger says. Some methods answer with more than the model, such as prototypes or a mask: then this warns,
        and `scores` gives what the ledger measured. Raises HtflError.
        """
        [found] = self._models(client, round).clients
        if not found.answers_by_itself():
            warnings.warn(
                f"Method {self.method} answers with more than this model, so its accuracy differs from the ledger's. "
                f"Use scores(client={client}) for what the run evaluated.",
                stacklevel=2,
            )
        return found.network

    def scores(
        self, client: int, part: Literal["train", "eval", "test"] = "test", round: int | None = None
    ) -> "Tensor":
        """Scores [n, C] of a client's samples as the run evaluates them, after a round (None: the last).

        Includes what the method uses beside the model. Raises HtflError.
        """
        return self._models(client, round).clients[0].scores(part)

    def data(self, client: int, part: Literal["train", "eval", "test"] = "test") -> "tuple[Tensor, Tensor]":
        """A client's samples as its model takes them, and their labels [n]."""
        from simulator.results.inspection import models

        return models.samples(self.path, self._data_folder(), client, part)

    def export(
        self,
        to: "Target" = "csv",
        out: Place | None = None,
        *,
        what: Literal["rounds", "clients", "cka"] = "rounds",
        follow: bool = False,
        project: str = "htfl-sim",
    ) -> int:
        """Send the rounds to a CSV file, TensorBoard, W&B or MLflow, as `htfl-sim export`; how many there were.

        Raises ConfigError where the library is not installed, or the place is taken.
        """
        return sessions.export(self.path, to, out, what=what, follow=follow, project=project)

    def export_weights(
        self, clients: Sequence[int] | None, out: Place, round: int | None = None
    ) -> "list[Exported]":
        """Write models (None: of all clients) as plain safetensors, each with a Python file that loads it with torch
        alone, into a folder. Raises HtflError."""
        written = sessions.export_weights(self.path, clients, out, round=round, data_dir=self._data_dir)
        return list(written.models)

    def plot(self, kind: comparing.Kind = "accuracy", **options: Any) -> "Figure":
        """A matplotlib figure of this session, as `hs.plot` draws it. Raises ConfigError and DataError."""
        return comparing.plot_runs(kind, [self.moment], options, self._data_dir)

    def commands(self) -> list[str]:
        """The command lines that give this session's very results again."""
        from simulator.results.analysis.reproduction import command_lines

        return command_lines(self.path)

    def _models(self, client: int, round: int | None) -> "Models":
        from simulator.results.inspection import models

        return models.of_clients(self.path, self._data_folder(), [client], round)

    def _data_folder(self) -> Path:
        from simulator.data.datasets import data_folder

        return data_folder(None if self._data_dir is None else str(self._data_dir))


def open(path: Place, data_dir: Place | None = None) -> Results:
    """A session to read. Raises SessionUnreadable where there is none, or it is damaged."""
    return Results(path, data_dir)


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
