"""Starts work on a session in a process of its own, in the background: results from a kept round, and samples."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic

from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.ledger import CkaMeasurement
from simulator.results.analysis.run import SessionData
from simulator.results.inspection.client_samples import ClientSamples, Embedding
from tui.app.background import Background
from tui.app.child_process import ChildProcess, Found
from tui.app.cka_process import CkaProcess
from tui.app.confusion_process import ConfusionProcess
from tui.app.embedding_process import EmbeddingProcess, images_of
from tui.app.host import Host
from tui.app.samples_process import SamplesProcess
from tui.app.view import Computed, Result, RoundKey, client_of, session_of
from tui.common.errors import explain


class _Worker(Generic[Found]):
    """Has at most one process at work."""

    def __init__(self, host: Host, background: Background, data_dir: Path) -> None:
        self._host, self._background, self._data_dir = host, background, data_dir
        self._process: ChildProcess[Found] | None = None

    def end(self) -> None:
        """Stop the running process, if any."""
        if self._process is not None:
            self._process.cancel()
            self._process = None


class RoundComputer(_Worker[Result], ABC):
    """Computes something from a kept round: one at a time, each only once. `results`: the field of View with them."""

    name: ClassVar[str]
    results: ClassVar[str]

    @abstractmethod
    def process(self, run: SessionData, round: int) -> ChildProcess[Result]:
        """Start a process. Raises OSError if the system cannot."""

    def whose(self, run: SessionData) -> str:
        """The key of what the results belong to: the session."""
        return session_of(run)

    def compute(self, round: int) -> None:
        """Start on a kept round of the session shown. Stops a running computation; if it is the same one, only that."""
        run, now = self._host.view.run, self._now()
        place = (self.whose(run), round)
        self.end()
        if place == now.under_way or (place in now.found and not isinstance(now.found[place], str)):
            self._show(under_way=None)
            return
        try:
            self._process = process = self.process(run, round)
        except OSError as error:
            self._keep(place, explain(error)[0])
            return
        self._show(under_way=place)
        topic, doing = self.results, f"{self.name} of round {round}"

        def result() -> Result | str | None:
            return process.result(lambda text: self._background.tell(topic, f"{doing}: {text}…"))

        self._background.run(topic, f"{doing}…", result, partial(self._ended, process, place))

    def _ended(self, process: ChildProcess[Result], place: RoundKey, found: Result | str | None) -> None:
        if process is self._process and found is not None:  # not canceled
            self._process = None
            self._keep(place, found)

    def _keep(self, place: RoundKey, found: Result | str) -> None:
        """Show a result from now on. The reason of a failure appears at once."""
        self._show(under_way=None, found={**self._now().found, place: found})
        if isinstance(found, str):
            self._host.say(found, "warning")

    def _now(self) -> Computed[Result]:
        now: Computed[Result] = getattr(self._host.view, self.results)
        return now

    def _show(self, **changes: object) -> None:
        self._host.change(**{self.results: replace(self._now(), **changes)})  # type: ignore[arg-type]


class CkaComputer(RoundComputer[CkaMeasurement]):
    """Computes CKA that the run did not measure. `View.similarities` has the results; the session's files stay."""

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


class ConfusionComputer(RoundComputer[Confusion]):
    """Computes confusion matrices of clients. `View.confusions` has the results."""

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


class Embedder(RoundComputer[Embedding]):
    """Computes t-SNE. `View.embeddings` has the results."""

    name, results = "t-SNE", "embeddings"

    def process(self, run: SessionData, round: int) -> EmbeddingProcess:
        images = images_of(int(run.config["federation"]["clients"]))
        return EmbeddingProcess(run.folder, self._data_dir, round, images)


AT_ONCE = 40
"""Up to this many clients are all read for the first one, so that the others appear at once."""


class SampleReader(_Worker[tuple[ClientSamples, ...]]):
    """Reads clients' samples, one session at a time. `View.samples` has the results."""

    def read(self, client: int) -> None:
        """Read samples of a client of the session shown. Stops a running process for another one."""
        run = self._host.view.run
        session, number = session_of(run), int(run.config["federation"]["clients"])
        clients = range(number) if number <= AT_ONCE else (client,)
        self.end()
        try:
            self._process = SamplesProcess(run.folder, self._data_dir, clients)
        except OSError as error:
            self._keep(session, client, explain(error)[0])
            return
        self._show(under_way=session)
        ended = partial(self._ended, self._process, session, client)
        self._background.run("samples", "reading samples…", self._process.result, ended)

    def _ended(
        self,
        process: SamplesProcess,
        session: str,
        client: int,
        found: tuple[ClientSamples, ...] | str | None,
    ) -> None:
        if process is self._process and found is not None:  # not canceled
            self._process = None
            self._keep(session, client, found)

    def _keep(self, session: str, client: int, found: tuple[ClientSamples, ...] | str) -> None:
        """Show a result from now on, or the reason of a failure."""
        new = {client: found} if isinstance(found, str) else {each.client: each for each in found}
        kept = {(session, number): each for number, each in new.items()}
        self._show(under_way=None, found={**self._host.view.samples.found, **kept})

    def _show(self, **changes: object) -> None:
        self._host.change(samples=replace(self._host.view.samples, **changes))  # type: ignore[arg-type]
