"""What every registered method promises, checked for each of them alike; and that each check can fail."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator import contract, methods
from simulator.contract import Promise, Subject

DOCS = Path(__file__).parents[2] / "docs" / "methods"


@functools.cache
def subject(name: str) -> Subject:
    return Subject(name)


KIN = ("inco_prox", "inco_nova", "inco_scaffold", "inco_moon", "fedrolex", "fedl2g_f")
"""Methods that share their code with another one, which is tried each time."""


def trials() -> Iterator[Any]:
    """Every promise of every method; of kin, all but the traffic when slow."""
    for promise, name in itertools.product(contract.PROMISES, methods.names()):
        slow = name in KIN and not promise.sentence.startswith("measured traffic")
        words = promise.sentence.replace(" ", "_")
        yield pytest.param(promise, name, id=f"{words}-{name}", marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("promise", "name"), [*trials()])
def test_every_method_keeps_its_promises(promise: Promise, name: str) -> None:
    assert promise.broken_by(subject(name)) is None


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
