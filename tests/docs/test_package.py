"""What is built of the project: its wheel in a fresh environment, its site, its README on an index, its notebook."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import DOCS, PAGES, ROOT, links
from tests.docs.test_tutorial import commands

METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOOK = METADATA["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NO_BACKEND = ("Could not find a version that satisfies the requirement hatch", "No module named pip")
"""What pip says where it cannot have the tools that build a wheel."""


def test_the_citation_is_complete_and_says_what_the_project_says() -> None:
    citation, project = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8")), METADATA["project"]
    assert citation["cff-version"] == "1.2.0" and {"message", "title", "authors"} <= citation.keys()
    assert all({"name"} == author.keys() for author in citation["authors"])
    assert citation["license"] == project["license"] and citation["title"].startswith(project["name"])


# The notebook runs from top to bottom, and is stored without what it gave.


def cells(notebook: Path) -> list[dict[str, Any]]:
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_notebooks_are_stored_without_outputs() -> None:
    for notebook in (DOCS / "notebooks").glob("*.ipynb"):
        for cell in cells(notebook):
            assert (cell["outputs"], cell["execution_count"]) == ([], None), notebook


@pytest.mark.slow
def test_the_first_steps_measure_what_the_ledger_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(DOCS / "notebooks" / "first-steps.ipynb"):
        exec("".join(cell["source"]), names)
    assert names["correct"] == pytest.approx(names["recorded"])
    assert names["run"].round == names["fork"].round == 4


# The README as a package index shows it: without the repository around it.


def shown(text: str) -> str:
    """A page after the substitutions that the build makes."""
    for each in HOOK["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_links_into_the_repository_become_their_text_pictures_go_and_nothing_else_changes() -> None:
    def words(text: str) -> list[str]:
        return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).split()

    page = "A\n\n![p](docs/p.svg)\n\nB [c](docs/c.md#d), [e](https://example.org), `[f](g)`."
    assert shown(page) == "A\n\nB c, [e](https://example.org), `f`."
    assert [target for target in links(shown(README)) if not target.startswith("https:")] == []
    picture = re.findall(r"!\[([^\]]*)\]", README)
    assert words(shown(README)) == words(README.replace(f"![{picture[0]}]", "![]"))


# The wheel in a fresh environment, which runs the tutorial outside the checkout.


def shell(command: list[str | Path] | str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    own = {key: each for key, each in os.environ.items() if not key.startswith(("PYTHON", "HTFL", "VIRTUAL"))}
    return subprocess.run(
        command, cwd=folder, env=own | more, shell=isinstance(command, str), capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    built = shell([sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--wheel-dir", folder], folder)
    if any(each in built.stderr for each in NO_BACKEND):
        pytest.skip("no package index here to build a wheel with")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("htfl_sim-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it, and the dependencies of this one, but not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    done = shell(
        [folder / "bin" / "python", "-m", "pip", "install", "--no-deps", "--no-index", wheel], folder
    )
    assert done.returncode == 0, done.stderr
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A path that such a file names is not searched for files of its kind: this checkout's is not followed.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_wheel_carries_the_readme(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert shown(README) in archive.read(metadata).decode("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_needs_no_checkout_and_brings_what_is_no_python_file(installed: Path, tmp_path: Path) -> None:
    look = "import json, sys, checkpoints, htfl_sim, presets, simulator, tui\n"
    look += "from simulator.studies.study import shipped_studies\n"
    look += "files = [m.__file__ for m in (checkpoints, htfl_sim, presets, simulator, tui)]\n"
    look += "print(json.dumps([sys.path, files, len(presets.names()), len(shipped_studies())]))"
    seen = shell([installed / "python", "-c", look], tmp_path)
    assert seen.returncode == 0, seen.stderr
    path, files, *many = json.loads(seen.stdout)
    assert str(ROOT) not in path and min(many) > 10
    assert all(Path(file).is_relative_to(installed.parent) for file in files), files


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_runs_the_tutorial_s_commands(installed: Path, tmp_path: Path) -> None:
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    for line in commands():
        ran = shell(line, tmp_path, PATH=path)
        assert ran.returncode == 0, (line, ran.stderr)
    assert "<h2>Commands for the same bits</h2>" in (tmp_path / "t3.html").read_text(encoding="utf-8")


# The site as `make docs` builds it.


def build(project: Path) -> subprocess.CompletedProcess[str]:
    """With this checkout's code, and no way to ask another host: every proxy is a port where nobody listens."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=project, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **nowhere},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra 'docs'")
def test_the_site_has_every_page_with_what_is_made_and_asks_no_other_host(tmp_path: Path) -> None:
    """Links too that were made from the code, which the builder does not check. A broken link fails the build."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built, site = build(tmp_path), tmp_path / "build" / "site"
    assert built.returncode == 0, built.stderr
    search = (site / "search.json").read_text(encoding="utf-8")
    for page in PAGES:
        name = str(page.relative_to(DOCS).with_suffix(".html"))
        assert (site / name).is_file()
        assert f'"{name}' in search or name == "index.html"
    made = {
        "configuration": ("<code>training.lr</code>", "<code>method.t_stable</code>"),
        "api": ("Session.resume",),
    }
    for name, words in made.items():
        assert all(word in (site / f"{name}.html").read_text(encoding="utf-8") for word in words)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:href|src)="([^"#:?]+)(?:#[^"]*)?"', text):
            base = site if target.startswith("/") else page.parent
            assert (base / target.lstrip("/")).exists(), f"{page.name}: {target}"
        loaded = re.findall(r'<(?:script|img|link)\b[^>]*(?:src|href)="(https?:)?//', text)
        assert loaded == [], page.name
    page = tmp_path / "docs" / "wire.md"
    page.write_text(page.read_text("utf-8") + "\n[a](nowhere.md)\n", encoding="utf-8")
    assert build(tmp_path).returncode != 0
