"""The tutorial's commands, in its order, on less data and for fewer rounds."""

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import call
from tests.docs.pages import DOCS

SMALLER = {
    "--rounds 10": "--rounds 2 --set data.limit=300",
    "--rounds 3": "--rounds 1",
    "--budget 9 --halving 3": "--budget 2",
}


def commands() -> list[str]:
    """What the sections before that on a paper's own data have one type, but for what installs; on less data."""
    return [_smaller(line) for line in _lines()]


def _smaller(line: str) -> str:
    for said, smaller in SMALLER.items():
        line = line.replace(said, smaller)
    return line


def _lines() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", _text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("htfl-sim ")]


def _text() -> str:
    return (DOCS / "tutorial.md").read_text(encoding="utf-8").partition("## A paper's own data")[0]


def cells(lines: Iterable[str]) -> list[list[str]]:
    """The cells of a Markdown table, without the line under its heading."""
    rows = (line for line in lines if line.startswith("|") and "---" not in line)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def printed(line: str, columns: list[str]) -> list[list[str]]:
    """What a command prints as Markdown, in these columns."""
    result = call(*shlex.split(line)[1:], "--format", "md")
    assert result.code == 0, result.err
    heading, *rows = cells(result.out.splitlines())
    return [columns, *([row[heading.index(column)] for column in columns] for row in rows)]


def percent(cell: str) -> float:
    return float(cell.partition(" ")[0].replace("−", "-"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorials_commands_print_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processors round differently: the numbers may then differ by a few percentage points, and the choices too.

    The commands take under 15 minutes on two cores.
    """
    monkeypatch.chdir(tmp_path)
    steps = [line for line in _lines() if line.startswith(("htfl-sim tune", "htfl-sim sweep"))]
    for line in steps:
        assert call(*shlex.split(line)[1:]).code == 0
    compares = [line for line in _lines() if line.startswith("htfl-sim compare final") and ">" not in line]
    tables = re.findall(r"(?:^\|.*\n)+", _text(), re.MULTILINE)
    of_tuning, *others = (cells(each.splitlines()) for each in tables)
    assert [row[0] for row in of_tuning[1:]] == ["standalone", "fedgh", "fedlora", "fedssa"]
    for line, shown in zip(compares, others, strict=True):
        again = printed(line, shown[0])
        assert [row[0] for row in again] == [row[0] for row in shown]
        for column, name in enumerate(shown[0]):
            if name.startswith(("gain", "last")):
                for row, other in zip(shown[1:], again[1:], strict=True):
                    assert percent(other[column]) == pytest.approx(percent(row[column]), abs=8), (name, row)


@pytest.mark.slow
def test_every_command_of_the_tutorial_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in commands():
        line, _, written = line.partition(" > ")
        result = call(*shlex.split(line, comments=True)[1:])
        assert result.code == 0, (line, result.err)
        if written:
            Path(written).write_text(result.out, encoding="utf-8")
    table = json.loads(call("compare", "final", "--by", "method", "--json").out)
    assert [row["n"] for row in table["rows"]] == [5, 5, 5, 5]
    assert "\\begin{tabular}" in Path("table.tex").read_text(encoding="utf-8")
    for figure in ("gains.pdf", "accuracy.pdf", "tuning.pdf"):
        assert Path(figure).read_bytes().startswith(b"%PDF")
    assert "<h2>Commands for the same bits</h2>" in Path("final.html").read_text(encoding="utf-8")
