"""Computes CKA of kept rounds that the run did not measure. The session's files stay as they are."""

from simulator.results.analysis.cka import CkaMeasurement
from simulator.results.analysis.run import SessionData
from tui.app.cka_process import CkaProcess
from tui.app.round_computer import RoundComputer


class CkaComputer(RoundComputer[CkaMeasurement]):
    """`View.similarities` has the results."""

    name, results = "CKA", "similarities"

    def process(self, run: SessionData, round: int) -> CkaProcess:
        return CkaProcess(run.folder, self._data_dir, round)

    def compute_shown(self) -> None:
        """Compute CKA of the round shown from its checkpoint, or stop if it is being computed. Shows why not."""
        view = self._host.view
        if (under_way := view.similarities.computing(view.run)) is not None:
            self.compute(under_way)
        elif (found := view.cka) is not None and found.round == view.shown:
            self._host.say(f"CKA of round {found.round} is known already. Press 3 to see it.")
        elif view.kept is not None:
            self.compute(view.kept)
        elif view.run.round:
            again = "Press f to fork a session that computes this round again."
            gone, shown = f"The checkpoint of round {view.shown} is gone. {again}", view.shown
            self._host.say(gone, "warning", lambda: self._host.view.shown == shown)
        else:
            none = "No round is finished yet. Press space to resume the run."
            self._host.say(none, holds=lambda: not self._host.view.run.round)
