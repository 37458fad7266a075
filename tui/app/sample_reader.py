"""Reads clients' samples in the background, one session at a time."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from simulator.results.inspection.client_samples import ClientSamples
from tui.app.background import Background
from tui.app.host import Host
from tui.app.samples_process import SamplesProcess
from tui.app.view import session_of
from tui.common.errors import explain

AT_ONCE = 40
"""Up to this many clients are all read for the first one, so that the others appear at once."""


class SampleReader:
    """The process that reads samples, if any. `View.samples` has the results."""

    def __init__(self, host: Host, background: Background, data_dir: Path) -> None:
        self._host, self._background, self._data_dir = host, background, data_dir
        self._process: SamplesProcess | None = None

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

    def end(self) -> None:
        """Stop the running process, if any."""
        if self._process is not None:
            self._process.cancel()
            self._process = None

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
