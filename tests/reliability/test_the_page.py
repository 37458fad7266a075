"""docs/reliability.md: every failure it lists has a test, and every test it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)(?:::(test_\w+))?`")
"""A test as the page names it: its file, here or from tests/ on, and maybe the function."""


def file_of(name: str) -> Path:
    here = Path(__file__).parent / name
    return here if here.is_file() else ROOT / "tests" / name


def rows() -> list[str]:
    found = [line for line in PAGE.splitlines() if line.startswith("| **")]
    assert len(found) > 20
    return found


def test_every_row_names_a_test() -> None:
    assert [row for row in rows() if not NAMED.search(row)] == []


def test_every_test_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE)
    missing = [
        (file, name)
        for file, name in named
        if not file_of(file).is_file() or f"def {name}" not in file_of(file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_test_file_here_is_on_the_page() -> None:
    here = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert here - {file for file, _ in NAMED.findall(PAGE)} == set()
