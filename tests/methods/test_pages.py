"""docs/methods: every page says where paper, authors' code and this code differ, and names only options there are.

The index says what was read of each method, and where each default comes from.
"""

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
DEFAULT = re.compile(r"`(\w+) = ([^`]+)` \(([^)]*)\)")
"""A default in the index: option, value, and `label: where`."""
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


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_one_table_of_numbered_differences(name: str) -> None:
    heading, *numbered = rows(differences(page(name)))
    assert [heading[0], heading[1], heading[3]] == ["#", "paper", "here"]
    assert numbered
    assert [row[0] for row in numbered] == [str(number) for number in range(1, len(numbered) + 1)]
    assert all(len(row) == 4 and all(row) for row in numbered)


@pytest.mark.parametrize("name", NAMES)
def test_every_page_names_the_commit_of_the_code_that_was_read_or_says_that_none_was_found(name: str) -> None:
    section = differences(page(name))
    assert READ.search(section) or NOT_FOUND.search(section)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_a_page_names_is_one_the_method_takes(name: str) -> None:
    for line in page(name).splitlines():
        for setting in settings(line):
            accepted(name, *settings(line), setting)  # it may need the others of its line


@pytest.mark.parametrize("name", NAMES)
def test_every_option_a_page_names_exists_and_the_page_names_the_command_that_lists_all(name: str) -> None:
    text = page(name)
    assert set(OPTION.findall(text)) <= {*methods.get(name).Config.model_fields}
    assert f"\n<!-- made by docsite.method {name} -->\n\n`htfl-sim methods {name}` prints" in text


def readings() -> dict[str, list[str]]:
    """The rows of the index's table of what was read, by the method's name: paper, code, defaults."""
    _, _, section = page("index").partition("\n## What was read\n")
    found = [(re.findall(r"\((\w+)\.md\)", row[0]), row[1:]) for row in rows(section)[1:]]
    names = [name for (name,), _ in found]
    assert len(names) == len(set(names))
    return {name: cells for (name,), cells in found}


def sourced(name: str) -> dict[str, tuple[str, str]]:
    """Every default that the index lists for the method: its value and its source, those of another row included."""
    cell = readings()[name][2]
    defaults = {option: (value, source) for option, value, source in DEFAULT.findall(cell)}
    for other in re.findall(r"those of \[[^]]+\]\((\w+)\.md\)", cell):
        defaults |= sourced(other)
    return defaults


def labels(source: str) -> set[str]:
    """Who has the value: `paper and code: §4` is of both."""
    return set(source.partition(":")[0].split(" and "))


def test_the_index_says_of_every_method_what_was_read() -> None:
    assert sorted(readings()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_index_names_the_commits_that_the_page_names(name: str) -> None:
    paper, code, _ = readings()[name]
    assert paper
    assert set(READ.findall(code)) == set(READ.findall(differences(page(name))))
    assert READ.search(code) or "none found" in code


@pytest.mark.parametrize("name", NAMES)
def test_the_index_has_every_default_as_it_is_with_its_source(name: str) -> None:
    """An option whose default is found out later is `none`."""
    defaults = flattened(accepted(name).to_json()["method"])
    del defaults["name"]
    listed = sourced(name)
    assert listed.keys() == defaults.keys()
    for option, (value, source) in listed.items():
        assert labels(source) <= SOURCES, f"{option}: {source}"
        if value == "none":
            assert defaults[option] is None
        else:
            assert accepted(name, f"method.{option}={value}") == accepted(name), (
                f"{option} is {defaults[option]}"
            )


@pytest.mark.parametrize("name", NAMES)
def test_defaults_that_no_one_source_has_together_are_called_mixed(name: str) -> None:
    having_all = SOURCES.intersection(*(labels(source) for _, source in sourced(name).values()))
    assert readings()[name][2].startswith("Mixed") == (not having_all)


def test_a_setting_that_is_not_the_methods_is_noticed() -> None:
    assert settings("`t_stable = 10`, `training.clip = 50`, `x = y`") == [
        "method.t_stable=10",
        "training.clip=50",
        "method.x=y",
    ]
    with pytest.raises(ConfigError, match=r"unknown key 'method\.x'"):
        accepted("fedssa", "method.x=y")
