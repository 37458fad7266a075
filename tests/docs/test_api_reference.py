"""What the Python page says of a name is what its source says."""

import importlib
import inspect

import pytest

import htfl_sim as hs
from docsite import api


def test_a_function_is_shown_with_its_types_defaults_and_docstring() -> None:
    assert api.reference("docsite.api", "reference") == (
        "### reference\n\n```python\nreference(module: str, *names: str) -> str\n```\n\n"
        "These names of a module, or all that it offers, in order; modules in it have a part of their own.\n"
    )


def test_a_class_is_shown_with_its_fields_and_public_methods() -> None:
    text = api.reference("simulator", "RunOutcome", "Session")
    assert "class RunOutcome:\n    state: Literal['finished', 'stopped', 'paused']\n    round: int\n" in text
    assert (
        "#### Session.resume\n\n```python\nresume(\n    folder: Path,\n    data_dir: Path,\n    *,\n" in text
    )
    assert "record: Record | None" in text
    assert "Session._" not in text


MODULES = ("simulator", *(f"htfl_sim.{name}" for name in hs.__all__ if inspect.ismodule(getattr(hs, name))))


@pytest.mark.parametrize("module", MODULES)
def test_everything_that_is_offered_has_a_docstring(module: str) -> None:
    room = importlib.import_module(module)
    for name in getattr(room, "__all__", ()):
        found = getattr(room, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert inspect.getdoc(found), name
            assert api.reference(module, name).startswith(f"### {name}\n")
