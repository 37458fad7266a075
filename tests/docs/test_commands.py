"""Every command line that a page shows is one that htfl-sim takes: its commands, its options, its keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from simulator import methods
from simulator.config import keys
from tests.docs.pages import AT_THE_TOP, PAGES, ROOT
from tui.cli import app

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


@pytest.mark.parametrize("page", [*AT_THE_TOP, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_only_what_there_is(page: Path) -> None:
    found = [fault for words in lines(page.read_text(encoding="utf-8")) for fault in faults(words)]
    assert found == []


def test_a_command_an_option_and_a_key_that_there_are_not_are_noticed() -> None:
    shown = "`htfl-sim rum`, `htfl-sim data fetch x --fast`\n```\nhtfl-sim run --set training.lrr=1 --seed 1  # x\n```"
    assert [fault for words in lines(shown) for fault in faults(words)] == [
        "no key 'training.lrr'",
        "no command 'rum'",
        "fetch: no option '--fast'",
    ]
