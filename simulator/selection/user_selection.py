"""A user's own selection: a file with a function `select(candidates, number, round, draws)` → ids of clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.base import own_files
from simulator.base.errors import RAISED, ConfigError
from simulator.base.own_files import OwnFile
from simulator.base.rng import drawing_from, torch_stream
from simulator.base.sections import STRATEGIES, unknown_strategy
from simulator.selection.history import Candidate, Strategy

_FUNCTIONS: dict[str, Any] = {}


def load(path: Path) -> OwnFile:
    """Let `selection.strategy` name a file's function by its stem. A second time does nothing. Raises ConfigError."""
    if path.stem in STRATEGIES:
        raise ConfigError(f"The selection {path} has the name of a built-in strategy. Rename the file.")
    file, module = own_files.load("selection", path)
    function = getattr(module, "select", None)
    if not callable(function):
        raise ConfigError(
            f"The selection {path} has no function select(candidates, number, round, draws). Add one."
        )
    _FUNCTIONS[path.stem] = function
    return file


def origins(name: str) -> list[OwnFile]:
    """The file of this strategy. None for a strategy of htfl-sim."""
    file = own_files.loaded("selection", f"{name}.py")
    return [] if file is None else [file]


def strategy(name: str) -> Strategy:
    """The strategy of a user's file. Raises ConfigError if it is not loaded."""
    if name not in _FUNCTIONS:
        raise unknown_strategy(name)

    def select(
        candidates: Sequence[Candidate], number: int, round: int, draws: np.random.Generator
    ) -> list[int]:
        called = f"The selection {name}.py"
        key = int(draws.integers(2**62))
        with drawing_from(torch_stream(key, "selection")):
            try:
                found = list(_FUNCTIONS[name](candidates, number, round, draws))
            except RAISED as error:
                raise own_files.failed(f"{called}, in round {round},", error) from error
        where, known = f"{called} in round {round}", {each.id for each in candidates}
        for client in found:
            if not isinstance(client, int | np.integer) or client not in known:
                raise ConfigError(
                    f"{where} selects {client!r}, which is no candidate's id. Return ids of candidates."
                )
        chosen = [int(client) for client in found]
        if len(set(chosen)) != len(chosen):
            twice = next(client for client in chosen if chosen.count(client) > 1)
            raise ConfigError(f"{where} selects client {twice} twice. Return each id once.")
        if len(chosen) != number:
            raise ConfigError(
                f"{where} selects {len(chosen)} clients. Return {number} ids, as `number` says."
            )
        return chosen

    return select
