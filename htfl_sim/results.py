"""Read sessions without a lock, also while another process runs them."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import checkpoints
from htfl_sim import comparing, sessions
from htfl_sim.folders import data_folder, place_of
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
    from simulator.results.inspection.checkpoint import ClientModel

Place = str | Path


class Results:
    """A session's results, as its files have them now. Every access reads new ones.

    `path` is its folder, or its name in $HTFL_SESSIONS, or else in ./sessions. Only `partition`, `model`, `scores`, and
    `data` load torch and the session's data set. Raises SessionUnreadable if it is missing or damaged.
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
        """All data of the session as of now, in the form of htfl-sim's own tables and figures."""
        self._feed.refresh()
        return self._feed.run

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def state(self) -> str:
        """'running', 'pausing', 'paused', 'stopping', 'stopped', 'finished', or 'interrupted'."""
        return self.moment.state

    @property
    def round(self) -> int:
        """The last finished round; 0 before the first."""
        return self.moment.round

    @property
    def rounds(self) -> int:
        """The round at which it ends."""
        return self.moment.rounds

    @property
    def method(self) -> str:
        """The present method."""
        return self.moment.method

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration after the last checkpoint, as nested plain values."""
        return self.moment.config

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The rounds with a kept checkpoint. Other rounds' models are computed again on demand."""
        return self.moment.checkpoints

    @property
    def tags(self) -> tuple[str, ...]:
        """The session's tags. Raises Damaged of the room `checkpoints`."""
        return checkpoints.tags_of(self.path)

    @property
    def accuracy(self) -> float | None:
        """The mean test accuracy after the last round, 0…1; None before the first."""
        record = self.moment.record(None)
        return record["accuracy"]["mean"] if record else None

    @property
    def best(self) -> float | None:
        """The highest mean test accuracy so far, 0…1. It is chosen on the test samples themselves."""
        record = self.moment.record(None)
        return record["accuracy"]["best_mean"] if record else None

    def records(self) -> "DataFrame":
        """One row per round."""
        return frame(tidy.rounds(self.moment))

    def clients(self) -> "DataFrame":
        """One row per round and client."""
        return frame(tidy.clients(self.moment))

    def cka(self) -> "DataFrame":
        """One row per measured round, layer, and pair of clients."""
        return frame(tidy.cka(self.moment))

    def partition(self) -> "DataFrame":
        """One row per client and class with its samples in each part. Reads the data set."""
        from simulator.results.inspection import partition

        found = partition.of_session(self.path, data_folder(self._data_dir))
        return frame(tidy.Tidy.of(partition.COLUMNS, list(found.rows())))

    def model(self, client: int, round: int | None = None) -> "Network":
        """A client's model after a round (None: the last), in evaluation mode.

        If the round has no checkpoint, rounds are run again from the nearest earlier one. Their results must equal the
        ledger. Some methods predict with more than the model, such as prototypes or a mask. Then this warns; `scores`
        returns what the ledger measured. Raises HtflError.
        """
        [found] = self._models(client, round)
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

        Includes everything that the method predicts with. Raises HtflError.
        """
        return self._models(client, round)[0].scores(part)

    def data(self, client: int, part: Literal["train", "eval", "test"] = "test") -> "tuple[Tensor, Tensor]":
        """A client's samples in the form of its model's input, and their labels [n]."""
        from simulator.results.inspection import checkpoint

        return checkpoint.samples(self.path, data_folder(self._data_dir), client, part)

    def export(
        self,
        to: "Target" = "csv",
        out: Place | None = None,
        *,
        what: Literal["rounds", "clients", "cka"] = "rounds",
        follow: bool = False,
        project: str = "htfl-sim",
    ) -> int:
        """Export the rounds to a CSV file, TensorBoard, W&B, or MLflow, as `htfl-sim export` does. Returns their
        number.

        Raises ConfigError if the library is not installed, or the target exists.
        """
        return sessions.export(self.path, to, out, what=what, follow=follow, project=project)

    def export_weights(
        self, clients: Sequence[int] | None, out: Place, round: int | None = None
    ) -> "list[Exported]":
        """Write models (None: of all clients) as plain safetensors into a folder.

        Each comes with a Python file that loads it with torch alone. Raises HtflError.
        """
        written = sessions.export_weights(self.path, clients, out, round=round, data_dir=self._data_dir)
        return list(written.models)

    def plot(self, kind: comparing.Kind = "accuracy", **options: Any) -> "Figure":
        """A matplotlib figure of this session, as `hs.plot` draws it. Raises ConfigError and DataError."""
        return comparing.plot_runs(kind, [self.moment], options, self._data_dir)

    def commands(self) -> list[str]:
        """The command lines that reproduce this session's results."""
        from simulator.results.analysis.reproduction import command_lines

        return command_lines(self.path)

    def _models(self, client: int, round: int | None) -> "Sequence[ClientModel]":
        from simulator.results.inspection import checkpoint

        return checkpoint.of_clients(self.path, data_folder(self._data_dir), [client], round).clients


def open(path: Place, data_dir: Place | None = None) -> Results:
    """Read a session. Raises SessionUnreadable if it is missing or damaged."""
    return Results(path, data_dir)


def frame(table: Tidy) -> "DataFrame":
    """A data frame of the table's columns. Missing numbers are NaN, and `at` is a time in UTC."""
    import pandas

    made = pandas.DataFrame(list(table.rows), columns=list(table.columns))
    for name in table.columns:
        if made[name].isna().all() and len(made):
            made[name] = made[name].astype(float)
    if "at" in table.columns:
        made["at"] = pandas.to_datetime(made["at"], utc=True)
    return made
