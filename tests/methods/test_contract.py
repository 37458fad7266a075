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
"""Every runner of this process with every precision that a CPU has; Ray has tests of its own."""
ALIKE = ("its card", "every phase trains", "losses are pure", "a client's whole update")
"""How promises begin that know nothing of runners."""
IMPLIED = "the same seed gives"
"""By the promise about the number of workers, which are two runs of one seed."""


def trials() -> Iterator[Any]:
    """Every promise of every method in every way. One way of each method is tried each time, in turn; of kin, of that
    the traffic alone."""
    turn = itertools.cycle(WAYS)
    usual = {name: next(turn) for name in methods.names()}
    for name, (runner, precision), promise in itertools.product(methods.names(), WAYS, contract.PROMISES):
        if promise.sentence.startswith(ALIKE) and runner != usual[name][0]:
            continue
        fast = (runner, precision) == usual[name] and not promise.sentence.startswith(IMPLIED)
        if name in KIN:
            fast = fast and promise.sentence.startswith("measured traffic")
        words = promise.sentence.replace(" ", "_")
        marks = () if fast else pytest.mark.slow
        yield pytest.param(
            promise, name, runner, precision, id=f"{words}-{name}-{runner}-{precision}", marks=marks
        )


@pytest.mark.parametrize(("promise", "name", "runner", "precision"), [*trials()])
def test_every_method_keeps_its_promises(
    promise: Promise, name: str, runner: str, precision: Precision
) -> None:
    assert promise.broken_by(subject(name, runner, precision)) is None


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
