"""A line on stderr while a command waits for its answer."""

import time
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from tui.cli import output
from tui.common.formatting import printable

AT_ONCE_SECONDS = 0.25
"""Seconds until the line appears. Faster answers need no line."""


class Ticker:
    """A line that is updated in place on a terminal. Elsewhere, it is written once."""

    def __init__(self) -> None:
        console = output.stderr()
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )
        self._shown = ""
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if kind is KeyboardInterrupt:
            output.say("No longer waiting; the command stays asked for.")

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if time.monotonic() - self._began < AT_ONCE_SECONDS:
            return
        if self._live and text != self._shown:
            self._live.update(Text(printable(text)), refresh=True)
        elif not self._shown:
            output.say(text)
        self._shown = text

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._live:
            self._live.console.print(Text(printable(text)))
        else:
            output.say(text)
