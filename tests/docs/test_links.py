"""Every link of a page leads to something, in the repository as on the site."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simulator import methods
from tests.docs import pages
from tests.docs.pages import AT_THE_TOP, DOCS, PAGES, ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_links_to_files_of_docs_that_are_there(page: Path) -> None:
    """Of docs/ alone: the site has nothing else."""
    assert list(pages.faults(page, page.read_text(encoding="utf-8"), DOCS)) == []


@pytest.mark.parametrize("page", AT_THE_TOP, ids=lambda page: page.name)
def test_a_page_at_the_top_links_to_files_that_are_there(page: Path) -> None:
    assert list(pages.faults(page, page.read_text(encoding="utf-8"), ROOT)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a](nowhere.md)", "nowhere.md is no file"),
        ("[a](methods)", "methods is no file"),
        ("![a](../README.md)", "../README.md leads out of docs/"),
        ("[a](wire.md#no-such-heading)", "wire.md#no-such-heading: there is no such heading"),
        ("# Here\n[a](#here), [b](performance.md#the-terminal-app), [c](https://example.org)", None),
        ("```\n[a](nowhere.md)\n```\n`[b](nowhere.md)`", None),
    ],
)
def test_a_link_that_leads_nowhere_is_noticed(text: str, fault: str | None) -> None:
    assert list(pages.faults(DOCS / "wire.md", text, DOCS)) == ([fault] if fault else [])


def test_the_sites_navigation_has_every_page_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]

    def listed(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [
            path for each in (entry.values() if isinstance(entry, dict) else entry) for path in listed(each)
        ]

    assert sorted(listed(nav)) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_the_methods_page_links_to_every_method() -> None:
    page = DOCS / "methods" / "index.md"
    linked = {Path(path).stem for path, _ in pages.relative(page.read_text(encoding="utf-8"))}
    linked.remove("defaults")
    assert linked == {*methods.names(), "writing-a-method"}
