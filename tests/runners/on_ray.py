"""Runs on a Ray of this machine with two actors, for the tests about it."""

from collections.abc import Callable
from typing import Any

from simulator.engine.progress import Event, unobserved
from simulator.engine.round import Engine
from tests import federations

RAY: dict[str, Any] = {"runner": "ray", "workers": 2}
STACKS = {**RAY, "inner": "stacked"}


def run(engine: Engine, rounds: int = 2, observe: Callable[[Event], None] = unobserved) -> dict[str, Any]:
    """All that comes of so many rounds."""
    state, records = engine.initial_state(), []
    for _ in range(rounds):
        state = engine.round(state, observe)
        records.append(federations.untimed(state.record))
    engine.close()
    return federations.state_bits(state) | {"records": records}


def pids(engine: Engine) -> list[int]:
    """The processes of the actors that are ready for it."""
    engine.open()
    return sorted(facts.pid for facts in engine._runner._pool._joined.values())


def pool(engine: Engine) -> Any:
    """The actors that it shares with other runs of this process."""
    engine.open()
    return engine._runner._pool.shared
