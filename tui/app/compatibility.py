"""The methods that a session's models can run, computed on a thread and cached."""

from collections.abc import Callable, Mapping
from functools import partial
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

    def known(self, config: Mapping[str, Any]) -> list[MethodChoice]:
        """Those that are known. If none are, compute them for later, while keys go on."""
        key = _federation(config)
        if key not in self._known and not self._background.is_at("choices"):
            self._background.run("choices", "", lambda: method_choices(config), partial(self._keep, key))
        return self._known.get(key, [])

    def forget(self) -> None:
        """Cancel all calls."""
        self._then = None

    def give(self, config: Mapping[str, Any], then: Callable[[list[MethodChoice]], None]) -> None:
        """Call `then` with them, once they are known."""
        key = _federation(config)
        if key in self._known:
            then(self._known[key])
        else:
            self._then = then
            self._background.run(
                "choices", "checking the methods…", lambda: method_choices(config), partial(self._keep, key)
            )

    def _keep(self, key: str, choices: list[MethodChoice]) -> None:
        self._known[key] = choices
        wanted, self._then = self._then, None
        if wanted is not None:
            wanted(choices)


def _federation(config: Mapping[str, Any]) -> str:
    """The part of a configuration on which the choices depend."""
    return str(config.get("federation")) + str(config.get("data"))
