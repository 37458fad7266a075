"""The notebook runs from top to bottom, and is stored without what it gave."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(notebook: Path) -> None:
    for cell in cells(notebook, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.slow
def test_the_first_steps_run_to_their_end_and_measure_what_the_ledger_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(DOCS / "notebooks" / "first-steps.ipynb", "code"):
        exec("".join(cell["source"]), names)
    assert names["correct"] == pytest.approx(names["recorded"])
    assert names["run"].round == names["fork"].round == 4
