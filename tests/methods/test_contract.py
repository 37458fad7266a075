"""What every registered method promises, checked for each of them alike; and that each check can fail."""

import functools
from pathlib import Path

import pytest

from simulator import contract, methods
from simulator.contract import Promise, Subject

DOCS = Path(__file__).parents[2] / "docs" / "methods"


@functools.cache
def subject(name: str) -> Subject:
    return Subject(name)


@pytest.mark.parametrize("name", methods.names())
@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.sentence.replace(" ", "_"))
def test_every_method_keeps_its_promises(promise: Promise, name: str) -> None:
    assert promise.broken_by(subject(name)) is None


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
