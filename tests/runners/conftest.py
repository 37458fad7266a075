"""A Ray that stays for a file's tests, and methods of a user's own."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.contract import Subject
from simulator.engine.progress import Event, unobserved
from simulator.engine.round import Engine
from simulator.methods import registry
from tests import federations


@pytest.fixture(scope="module")
def ray_for_all() -> Iterator[None]:
    """Ray and its actors stay for all tests of a file: they take seconds to start."""
    engine = Subject("fedavg").built(runtime=RAY).engine
    engine.open()
    yield
    engine.close()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Registers a method of that name, FedAvg but for this body, from a plugin file."""
    for known in ("_METHODS", "_ORIGINS"):
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))

    def write(name: str, body: str) -> None:
        head = "import os, signal\nfrom simulator.methods import register\n"
        head += f"from simulator.methods.fedavg import FedAvg\n\n@register({name!r})\nclass Own(FedAvg):\n"
        path = tmp_path / f"{name}.py"
        path.write_text(head + textwrap.indent(textwrap.dedent(body), "    "), encoding="utf-8")
        registry.load(path)
        path.unlink()  # another machine would not have it

    return write


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
