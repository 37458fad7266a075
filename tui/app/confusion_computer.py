"""Computes confusion matrices of clients after kept rounds."""

from simulator.results.analysis.confusion import Confusion
from simulator.results.analysis.run import SessionData
from tui.app.confusion_process import ConfusionProcess
from tui.app.round_computer import RoundComputer
from tui.app.view import client_of


class ConfusionComputer(RoundComputer[Confusion]):
    """`View.confusions` has the results."""

    results = "confusions"
    _client = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"confusion matrix of client {self._client}"

    def whose(self, run: SessionData) -> str:
        return client_of(run, self._client)

    def process(self, run: SessionData, round: int) -> ConfusionProcess:
        return ConfusionProcess(run.folder, self._data_dir, self._client, round)

    def compute_for(self, client: int, round: int) -> None:
        """`compute`, of this client."""
        self._client = client
        self.compute(round)
