"""What the project says of itself, its README as an index shows it, and its notebook."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT, links

# CITATION.cff says what pyproject.toml says.


CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_has_what_the_format_asks_for() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert all({"name"} == author.keys() for author in CITATION["authors"])


def test_name_and_license_are_the_projects() -> None:
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["title"].startswith(PROJECT["name"])


# The notebook runs from top to bottom, and is stored without what it gave.


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


# The README as a package index shows it: without the repository around it.


METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOOK = METADATA["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shown(text: str) -> str:
    """A page after the substitutions that the build makes."""
    for each in HOOK["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_every_link_that_is_left_has_an_address_of_its_own() -> None:
    assert [target for target in links(shown(README)) if not target.startswith("https:")] == []


def test_links_into_the_repository_become_their_text_and_pictures_go() -> None:
    page = "A\n\n![p](docs/p.svg)\n\nB [c](docs/c.md#d), [e](https://example.org), `[f](g)`."
    assert shown(page) == "A\n\nB c, [e](https://example.org), `f`."


def test_nothing_else_of_the_readme_changes() -> None:
    def words(text: str) -> list[str]:
        return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).split()

    picture = re.findall(r"!\[([^\]]*)\]", README)
    assert words(shown(README)) == words(README.replace(f"![{picture[0]}]", "![]"))


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("hatchling", "hatch_fancy_pypi_readme")),
    reason="needs hatchling and hatch-fancy-pypi-readme",
)
def test_a_wheel_carries_it(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert shown(README) in archive.read(metadata).decode("utf-8")
