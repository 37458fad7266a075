"""docs/python.md: the columns it lists are those that the data frames have."""

import re
from pathlib import Path

import htfl_sim as hs
from simulator.results.analysis import tidy
from simulator.results.inspection import partition

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def listed(heading: str) -> dict[str, str]:
    """The rows of the table under a heading, but for those that stand for several columns."""
    part = PAGE.split(f"### `{heading}`")[1].split("\n#")[0]
    return dict(re.findall(r"\| `([a-z_]+)` \| (.+) \|", part))


def test_every_column_is_listed_with_what_it_is() -> None:
    assert listed("clients()") == tidy.CLIENT_COLUMNS
    assert listed("cka()") == tidy.CKA_COLUMNS
    assert listed("partition()") == partition.COLUMNS


def test_every_public_name_stands_on_the_page() -> None:
    assert [name for name in hs.__all__ if name not in PAGE] == []
