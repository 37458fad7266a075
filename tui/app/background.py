"""Slow work, each task on its own thread, with a text in the status row meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from textual.app import App

from tui.common.errors import explain

Result = TypeVar("Result")


class Background:
    """The tasks of this process besides display: a word or two by topic."""

    def __init__(self, app: App[Any], changed: Callable[[], None], failed: Callable[[str], None]) -> None:
        """`changed` is called if the texts change, `failed` with the sentence of an error."""
        self._app, self._changed, self._failed = app, changed, failed
        self._doing: dict[str, str] = {}

    @property
    def doing(self) -> list[str]:
        """The texts of running tasks, oldest first."""
        return list(self._doing.values())

    def is_at(self, topic: str) -> bool:
        """Whether the task runs."""
        return topic in self._doing

    def begin(self, topic: str, doing: str) -> None:
        """Show this text from now on."""
        self._doing.pop(topic, None)
        if doing:
            self._doing[topic] = doing
        self._changed()

    def end(self, topic: str) -> None:
        """Remove the text."""
        self._doing.pop(topic, None)
        self._changed()

    def tell(self, topic: str, doing: str) -> None:
        """`begin`, from a thread."""
        self._app.call_from_thread(self.begin, topic, doing)

    def run(self, topic: str, doing: str, work: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Run a slow task. `then` receives its result, unless it fails. An empty text shows nothing."""

        def carry_out() -> None:
            try:
                ending = partial(then, work())
            except Exception as error:  # any error is shown, and the app continues
                ending = partial(self._failed, explain(error)[0])
            self._app.call_from_thread(ending)
            self._app.call_from_thread(self.end, topic)

        self.begin(topic, doing)
        self._app.run_worker(carry_out, thread=True)
