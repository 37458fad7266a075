"""docs/methods: every page says where paper, authors' code and this code differ, and names only options there are.

A list beside the index says where each default comes from.
"""

import csv
import re
from pathlib import Path

import pytest

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened, with_overrides
from simulator.config import Config

DOCS = Path(__file__).parents[2] / "docs" / "methods"
READ = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{7}\b")
NOT_FOUND = re.compile(r"\bno code\b[^.]*\bfound\b", re.IGNORECASE)
SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?) ?= ?([^`]+)`")
OPTION = re.compile(r"`method\.(\w+)")

NAMES = methods.names()
SOURCES = {"paper", "code", "comparison", "here"}


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def differences(text: str) -> str:
    """The section of that name; it is the page's last."""
    _, heading, section = text.partition("\n## Differences\n")
    assert heading, "the page has no section 'Differences'"
    return section


def rows(section: str) -> list[list[str]]:
    """The cells of its tables' lines, without the lines below the headings."""
    lines = [line for line in section.splitlines() if line.startswith("|") and set(line) - set("|- ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def settings(text: str) -> list[str]:
    """Everything of the form `key = value`, as --set takes it; a key without a section is the method's."""
    return [f"{key if '.' in key else f'method.{key}'}={value}" for key, value in SETTING.findall(text)]


def accepted(name: str, *assignments: str) -> Config:
    """The configuration of that method with these settings; raises ConfigError for one there is not."""
    return Config.read(with_overrides({"method": {"name": name}}, assignments))


def test_every_page_has_its_title_and_one_table_of_numbered_differences() -> None:
    for name in NAMES:
        assert methods.get(name).card.title in page(name)
        heading, *numbered = rows(differences(page(name)))
        assert [heading[0], heading[1], heading[3]] == ["#", "paper", "here"], name
        assert numbered, name
        assert [row[0] for row in numbered] == [str(number) for number in range(1, len(numbered) + 1)], name
        assert all(len(row) == 4 and all(row) for row in numbered), name


def test_every_page_names_the_commit_of_the_code_that_was_read_or_says_that_none_was_found() -> None:
    sections = {name: differences(page(name)) for name in NAMES}
    assert [
        name for name in NAMES if not (READ.search(sections[name]) or NOT_FOUND.search(sections[name]))
    ] == []


def test_every_setting_and_option_a_page_names_is_one_the_method_takes() -> None:
    for name in NAMES:
        text = page(name)
        for line in text.splitlines():
            for setting in settings(line):
                accepted(name, *settings(line), setting)  # it may need the others of its line
        assert set(OPTION.findall(text)) <= {*methods.get(name).Config.model_fields}, name
        assert f"\n<!-- made by docsite.method {name} -->\n" in text


def sourced(name: str) -> dict[str, tuple[str, str]]:
    """Every default that the list beside the index has for the method: its value and its source."""
    with (DOCS / "defaults.csv").open(encoding="utf-8") as file:
        found = [row for row in csv.DictReader(file) if row["method"] == name]
    assert all(row["where"] for row in found)
    assert len(found) == len({row["option"] for row in found})
    return {row["option"]: (row["default"], row["source"]) for row in found}


def test_the_list_has_every_default_as_it_is_with_its_source() -> None:
    """An option whose default is found out later is `none`."""
    for name in NAMES:
        defaults = flattened(accepted(name).to_json()["method"])
        del defaults["name"]
        listed = sourced(name)
        assert listed.keys() == defaults.keys(), name
        for option, (value, source) in listed.items():
            assert set(source.split(" and ")) <= SOURCES, f"{name}.{option}: {source}"
            if value == "none":
                assert defaults[option] is None, f"{name}.{option}"
            else:
                assert accepted(name, f"method.{option}={value}") == accepted(name), f"{name}.{option}"


def test_a_setting_that_is_not_the_methods_is_noticed() -> None:
    assert settings("`t_stable = 10`, `training.clip = 50`, `x = y`") == [
        "method.t_stable=10",
        "training.clip=50",
        "method.x=y",
    ]
    with pytest.raises(ConfigError, match=r"unknown key 'method\.x'"):
        accepted("fedssa", "method.x=y")
