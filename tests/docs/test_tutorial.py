"""The tutorial's commands, in its order, on less data and for fewer rounds."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import call
from tests.docs.pages import DOCS

SMALLER = {"--rounds 10": "--rounds 2 --set data.limit=300", "--rounds 3": "--rounds 1", "0..2": "0..1"}


def commands() -> list[str]:
    """What the sections before that on a paper's own data have one type, but for what installs; on less data."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8").partition("## A paper's own data")[0]
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [_smaller(line) for block in blocks for line in block.splitlines() if line.startswith("htfl-sim ")]


def _smaller(line: str) -> str:
    for said, smaller in SMALLER.items():
        line = line.replace(said, smaller)
    return line


@pytest.mark.slow
def test_every_command_of_the_tutorial_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in commands():
        line, _, written = line.partition(" > ")
        result = call(*shlex.split(line, comments=True)[1:])
        assert result.code == 0, (line, result.err)
        if written:
            Path(written).write_text(result.out, encoding="utf-8")
    table = json.loads(call("compare", "t3", "--by", "method", "--json").out)
    assert [row["n"] for row in table["rows"]] == [2, 2, 2, 2]
    assert "\\begin{tabular}" in Path("table.tex").read_text(encoding="utf-8")
    for figure in ("accuracy.pdf", "box.pdf", "partition.pdf"):
        assert Path(figure).read_bytes().startswith(b"%PDF")
    assert "<h2>The same bits again</h2>" in Path("t3.html").read_text(encoding="utf-8")
