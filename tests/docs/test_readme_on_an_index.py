"""The README as a package index shows it: without the repository around it."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, links

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOOK = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
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
