"""What every registered method promises, checked for each of them alike; and that each check can fail."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator import contract, methods, runners
from simulator.contract import Promise, Subject
from simulator.training.precision import Precision

DOCS = Path(__file__).parents[2] / "docs" / "methods"


@functools.cache
def subject(name: str, runner: str, precision: Precision) -> Subject:
    return Subject(name, runner=runner, precision=precision)


KIN = ("inco_prox", "inco_nova", "inco_scaffold", "inco_moon", "fedrolex", "fedl2g_f")
"""Methods that share their code with another one, which is tried each time."""
WAYS: list[tuple[str, Precision]] = [*itertools.product(runners.names_within(), ("float32", "bf16"))]
"""Every runner of this process with every precision that a CPU has."""
ON_RAY: list[tuple[str, Precision]] = [("ray", "float32"), ("ray", "bf16")]
"""The same on Ray, which takes long to start: one for all of them, and never each time."""
ALIKE = ("its card", "every phase trains", "losses are pure", "a client's whole update")
"""How promises begin that know nothing of runners."""
IMPLIED = "the same seed gives"
"""By the promise about the number of workers, which are two runs of one seed."""
LOOKS_ON = "measured traffic"
"""A promise that is watched in the method's hooks, which on Ray are called in other processes; records that are equal
in process and on Ray imply it (`tests/runners/test_ray.py`)."""


def trials() -> Iterator[Any]:
    """Every promise of every method in every way. One way of each method is tried each time, in turn; of kin, of that
    the traffic alone."""
    turn = itertools.cycle(WAYS)
    usual = {name: next(turn) for name in methods.names()}
    ways = [*WAYS, *ON_RAY]
    for name, (runner, precision), promise in itertools.product(methods.names(), ways, contract.PROMISES):
        if promise.sentence.startswith(ALIKE) and runner != usual[name][0]:
            continue
        if promise.sentence.startswith(LOOKS_ON) and runner == "ray":
            continue
        fast = (runner, precision) == usual[name] and not promise.sentence.startswith(IMPLIED)
        if name in KIN:
            fast = fast and promise.sentence.startswith("measured traffic")
        words = promise.sentence.replace(" ", "_")
        marks = () if fast else pytest.mark.slow
        yield pytest.param(
            promise, name, runner, precision, id=f"{words}-{name}-{runner}-{precision}", marks=marks
        )


@pytest.fixture(scope="module")
def actors() -> Iterator[None]:
    """A Ray and two actors, for all that is tried on it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    engine = Subject("fedavg").built(runtime={"runner": "ray", "workers": 2}).engine
    engine.open()
    yield
    engine.close()


@pytest.mark.parametrize(("promise", "name", "runner", "precision"), [*trials()])
def test_every_method_keeps_its_promises(
    promise: Promise, name: str, runner: str, precision: Precision, request: pytest.FixtureRequest
) -> None:
    if runner == "ray":
        request.getfixturevalue("actors")
    assert promise.broken_by(subject(name, runner, precision)) is None


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
