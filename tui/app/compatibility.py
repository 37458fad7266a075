"""The methods that a session's models can run, computed on a thread and cached."""

from collections.abc import Callable, Mapping
from typing import Any

from htfl_sim.compatibility import MethodChoice, method_choices
from tui.app.background import Background


class MethodChoices:
    """The choices for the models of a session, computed once per federation."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._known: dict[str, list[MethodChoice]] = {}
        self._then: Callable[[list[MethodChoice]], None] | None = None

    @property
    def awaited(self) -> bool:
        """Whether a function is still to be called with them."""
        return self._then is not None and self._background.is_at("choices")

    def forget(self) -> None:
        """Cancel all calls."""
        self._then = None

    def give(self, config: Mapping[str, Any], then: Callable[[list[MethodChoice]], None]) -> None:
        """Call `then` with them, once they are known."""
        key = str(config.get("federation")) + str(config.get("data"))

        def known(choices: list[MethodChoice]) -> None:
            self._known[key] = choices
            wanted, self._then = self._then, None
            if wanted is not None:
                wanted(choices)

        if key in self._known:
            then(self._known[key])
        else:
            self._then = then
            self._background.run("choices", "checking the methods…", lambda: method_choices(config), known)
