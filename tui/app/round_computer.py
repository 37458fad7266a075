"""Starts the computation of something from a kept round: one at a time, in the background, each only once."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic

from simulator.results.analysis.run import SessionData
from tui.app.background import Background
from tui.app.child_process import ChildProcess
from tui.app.host import Host
from tui.app.view import Computed, Result, RoundKey, session_of
from tui.common.errors import explain


class RoundComputer(ABC, Generic[Result]):
    """The process that computes one, if any. `results`: the field of View with the results."""

    name: ClassVar[str]
    results: ClassVar[str]

    def __init__(self, host: Host, background: Background, data_dir: Path) -> None:
        self._host, self._background, self._data_dir = host, background, data_dir
        self._process: ChildProcess[Result] | None = None

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

    def end(self) -> None:
        """Stop the running computation, if any."""
        if self._process is not None:
            self._process.cancel()
            self._process = None

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
