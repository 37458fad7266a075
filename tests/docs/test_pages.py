"""Every command line that a page shows is one that htfl-sim takes, and every link leads to something."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from simulator import methods
from simulator.config import keys
from tests.docs import pages
from tests.docs.pages import AT_THE_TOP, DOCS, PAGES, ROOT
from tui.cli import app

# Every command line that a page shows is one that htfl-sim takes: its commands, its options, its keys.


COMMAND = typer.main.get_command(app)
SHOWN = re.compile(r"htfl-sim((?: +[^\s`|&;#]+)+)")
KEYS = {
    *keys(),
    "preset",
    "profile",
    "method.name",
    *(f"method.{key}" for name in methods.names() for key in methods.get(name).Config.model_fields),
}
TABLES = ("system.devices", "system.utilization")
"""Keys under which a user chooses the names."""


def lines(text: str) -> Iterator[list[str]]:
    """The words after 'htfl-sim' in code, between back-ticks or in a block."""
    blocks = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for code in [*blocks, *inline]:
        for words in SHOWN.findall(code):
            yield words.split()


def faults(words: list[str]) -> Iterator[str]:
    """What htfl-sim would not take of these words."""
    command: Any = COMMAND
    while hasattr(command, "commands") and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        name, *words = words
        if name not in command.commands:
            yield f"no command '{name}'"
            return
        command = command.commands[name]
    options = {
        option
        for each in (command, COMMAND)
        for one in each.params
        for option in one.opts + one.secondary_opts
    }
    for number, word in enumerate(words):
        option = word.rstrip(",.)]").lstrip("[")
        if option.startswith("--") and option.partition("=")[0] not in options | {"--help"}:
            yield f"{command.name}: no option '{option}'"
        if word == "--set" and "=" in "".join(words[number + 1 : number + 2]):
            key = words[number + 1].strip("'\"").partition("=")[0]
            if key not in KEYS and key.rpartition(".")[0] not in TABLES:
                yield f"no key '{key}'"


def test_pages_show_only_what_there_is_and_link_to_files_that_are_there() -> None:
    """The pages of the site to files of docs/ alone: the site has nothing else."""
    found = {
        str(page.relative_to(ROOT)): wrong
        for page in [*AT_THE_TOP, *PAGES]
        if (text := page.read_text(encoding="utf-8"))
        and (
            wrong := [
                *(fault for words in lines(text) for fault in faults(words)),
                *pages.faults(page, text, ROOT if page in AT_THE_TOP else DOCS),
            ]
        )
    }
    assert found == {}


def test_what_there_is_not_and_a_link_that_leads_nowhere_is_noticed() -> None:
    shown = "`htfl-sim rum`, `htfl-sim data fetch x --fast`\n```\nhtfl-sim run --set training.lrr=1 --seed 1  # x\n```"
    assert [fault for words in lines(shown) for fault in faults(words)] == [
        "no key 'training.lrr'", "no command 'rum'", "fetch: no option '--fast'",
    ]  # fmt: skip
    for text, fault in (
        ("[a](nowhere.md)", "nowhere.md is no file"),
        ("[a](methods)", "methods is no file"),
        ("![a](../README.md)", "../README.md leads out of docs/"),
        ("[a](wire.md#no-such-heading)", "wire.md#no-such-heading: there is no such heading"),
        ("# Here\n[a](#here), [b](performance.md#the-terminal-app), [c](https://example.org)", None),
        ("```\n[a](nowhere.md)\n```\n`[b](nowhere.md)`", None),
    ):
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
