"""CITATION.cff says what pyproject.toml says."""

import tomllib

import yaml

from tests.docs.pages import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_has_what_the_format_asks_for() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert all({"name"} == author.keys() for author in CITATION["authors"])


def test_name_and_license_are_the_projects() -> None:
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["title"].startswith(PROJECT["name"])
