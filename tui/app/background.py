"""Slow work, each piece on a thread of its own, and what is said of it in the status row meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from textual.app import App

from tui.common.errors import explain

Result = TypeVar("Result")


class Background:
    """What this process is at besides showing: by topic, in a word or two."""

    def __init__(self, app: App[Any], changed: Callable[[], None], failed: Callable[[str], None]) -> None:
        """`changed` is told when another word is to be said, `failed` the sentence of what went wrong."""
        self._app, self._changed, self._failed = app, changed, failed
        self._doing: dict[str, str] = {}

    @property
    def doing(self) -> list[str]:
        """What is under way, oldest first."""
        return list(self._doing.values())

    def is_at(self, topic: str) -> bool:
        """Whether it is under way."""
        return topic in self._doing

    def begin(self, topic: str, doing: str) -> None:
        """Say from now on what is being done."""
        self._doing.pop(topic, None)
        if doing:
            self._doing[topic] = doing
        self._changed()

    def end(self, topic: str) -> None:
        """Say it no longer."""
        self._doing.pop(topic, None)
        self._changed()

    def tell(self, topic: str, doing: str) -> None:
        """`begin`, from a thread."""
        self._app.call_from_thread(self.begin, topic, doing)

    def run(self, topic: str, doing: str, work: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Do something slow; `then` gets what came of it, where it did not fail. An empty word: nothing is said."""

        def carry_out() -> None:
            try:
                ending = partial(then, work())
            except Exception as error:  # whatever it is, it is shown, and the app goes on
                ending = partial(self._failed, explain(error)[0])
            self._app.call_from_thread(ending)
            self._app.call_from_thread(self.end, topic)

        self.begin(topic, doing)
        self._app.run_worker(carry_out, thread=True)
