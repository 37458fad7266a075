"""Starts the computation of embeddings: one at a time, in the background, each only once."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from htfl_sim.analysis import Embedding
from tui.app.background import Background
from tui.app.embedding_process import EmbeddingProcess, images_of
from tui.app.host import Host
from tui.app.view import EmbeddingKey, session_of
from tui.common.errors import explain


class Embedder:
    """The process that computes one, if any. `View.embeddings` has the results."""

    def __init__(self, host: Host, background: Background, data_dir: Path) -> None:
        self._host, self._background, self._data_dir = host, background, data_dir
        self._process: EmbeddingProcess | None = None

    def compute(self, round: int) -> None:
        """Start on a kept round of the session shown. Stops a running computation; if it is the same one, only that."""
        run, now = self._host.view.run, self._host.view.embeddings
        place = (session_of(run), round)
        self.end()
        if place == now.under_way or isinstance(now.found.get(place), Embedding):
            self._show(under_way=None)
            return
        images = images_of(int(run.config["federation"]["clients"]))
        try:
            self._process = EmbeddingProcess(run.folder, self._data_dir, round, images)
        except OSError as error:
            self._keep(place, explain(error)[0])
            return
        self._show(under_way=place)
        ended = partial(self._ended, self._process, place)
        self._background.run("embedding", f"t-SNE of round {round}…", self._process.result, ended)

    def end(self) -> None:
        """Stop the running computation, if any."""
        if self._process is not None:
            self._process.cancel()
            self._process = None

    def _ended(self, process: EmbeddingProcess, place: EmbeddingKey, found: Embedding | str | None) -> None:
        if process is self._process and found is not None:  # not canceled
            self._process = None
            self._keep(place, found)

    def _keep(self, place: EmbeddingKey, found: Embedding | str) -> None:
        """Show a result from now on. The reason of a failure appears at once."""
        self._show(under_way=None, found={**self._host.view.embeddings.found, place: found})
        if isinstance(found, str):
            self._host.say(found, "warning")

    def _show(self, **changes: object) -> None:
        self._host.change(embeddings=replace(self._host.view.embeddings, **changes))  # type: ignore[arg-type]
