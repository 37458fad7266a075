"""The page on figures has every kind there is, with the command that draws it and a picture."""

import re

import pytest

from htfl_sim.comparing import KINDS
from tests.docs.pages import DOCS

SECTIONS = re.split(r"^## ", (DOCS / "figures.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown_with_its_command(kind: str) -> None:
    (section,) = (each for each in SECTIONS if each.startswith(f"{kind}\n"))
    assert f"    htfl-sim plot {kind} " in section
    (picture, *_) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", section)
    assert (DOCS / picture).is_file()
