"""A run begun here, on a thread that tells of its start and of its end."""

import threading
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from tui.app.messages import RunEnded, RunStarted


class Begun(threading.Thread):
    """Is under way from its start until it tells that it has ended.

    What it tells may be answered before its thread is gone: whether the thread is alive says too much.
    """

    def __init__(self, name: str, folder: Path, post: Callable[[Message], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.folder = folder
        self._post = post
        self._has_ended = False

    @property
    def is_under_way(self) -> bool:
        return self.is_alive() and not self._has_ended

    def _tell_start(self) -> None:
        self._post(RunStarted(self.folder))

    def _tell_end(self, state: str, failure: str | None) -> None:
        self._has_ended = True
        self._post(RunEnded(self.folder, state, failure))
