"""What the Python page says of a name is what its source says."""

import pytest

import simulator
from docsite import api


def test_a_function_is_shown_with_its_types_defaults_and_docstring() -> None:
    assert api.reference("docsite.api", "reference") == (
        "### reference\n\n```python\nreference(module: str, *names: str) -> str\n```\n\n"
        "These names of a module, or all that it offers, in order.\n"
    )


def test_a_class_is_shown_with_its_fields_and_public_methods() -> None:
    text = api.reference("simulator", "RunOutcome", "Session")
    assert "class RunOutcome:\n    state: Literal['finished', 'stopped', 'paused']\n    round: int\n" in text
    assert (
        "#### Session.resume\n\n```python\nresume(\n    folder: Path,\n    data_dir: Path,\n    *,\n" in text
    )
    assert "record: dict[str, Any] | None" in text
    assert "Session._" not in text


@pytest.mark.parametrize("name", simulator.__all__)
def test_everything_that_is_offered_has_a_docstring(name: str) -> None:
    heading, _, text = api.reference("simulator", name).partition("```\n\n")
    assert heading.startswith(f"### {name}\n")
    assert text.strip()
