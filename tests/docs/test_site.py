"""The site as `make docs` builds it."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra 'docs'"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the site is made of."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    return folder


def build(project: Path) -> subprocess.CompletedProcess[str]:
    """With this checkout's code, and no way to ask another host: every proxy is a port where nobody listens."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=project, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **nowhere},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(project: Path) -> Path:
    built = build(project)
    assert built.returncode == 0, built.stderr
    return project / "build" / "site"


def test_every_page_is_there_and_the_search_knows_it(site: Path) -> None:
    search = (site / "search.json").read_text(encoding="utf-8")
    for page in PAGES:
        name = str(page.relative_to(DOCS).with_suffix(".html"))
        assert (site / name).is_file()
        assert f'"{name}' in search or name == "index.html"


def test_the_tables_made_from_the_code_are_in_it(site: Path) -> None:
    reference = (site / "configuration.html").read_text(encoding="utf-8")
    assert "<code>training.lr</code>" in reference
    assert "<code>method.t_stable</code>" in reference
    assert "Session.resume" in (site / "api.html").read_text(encoding="utf-8")


def test_every_link_between_its_pages_leads_somewhere(site: Path) -> None:
    """Those too that were made from the code, which the builder does not check."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:href|src)="([^"#:?]+)(?:#[^"]*)?"', text):
            base = site if target.startswith("/") else page.parent
            assert (base / target.lstrip("/")).exists(), f"{page.name}: {target}"


def test_reading_it_asks_no_other_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)\b[^>]*(?:src|href)="(https?:)?//', page.read_text("utf-8"))
        assert loaded == [], page.name


def test_a_broken_link_fails_the_build(site: Path, project: Path) -> None:
    page = project / "docs" / "wire.md"
    page.write_text(page.read_text("utf-8") + "\n[a](nowhere.md)\n", encoding="utf-8")
    assert build(project).returncode != 0
