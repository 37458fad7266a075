"""Arguments in an error's text, in backticks as Python takes them, put as the flags that a command takes."""

import ast
import re
import shlex
from collections.abc import Collection
from typing import Any

_ARGUMENT = re.compile(r"`([a-z][a-z_]*)(?:=([^`]+))?`")
_KEY = re.compile(r"`([a-z_]+\.[a-z_0-9.]+=[^`]+)`")
_CALLED = {"goal": "until", "origin": "from"}
"""Flags that are not called like their argument."""
_SETTINGS = ("rounds", "seed", "until")
"""Keys of a configuration that stand in no section: where a command has no flag for one, --set takes it."""


def as_flags(text: str, flags: Collection[str] | None = None) -> str:
    """`text` with `rounds=9` as --rounds 9, or as --set rounds=9 for a command whose flags lack that, and a key such as
    `training.lr=0.1` as --set training.lr=0.1.

    flags: those of the command that was typed; None: of any. A name without a value is only put as a flag that the
    command has, since it may be another word.
    """

    def flag(found: re.Match[str]) -> str:
        name, text = found.groups()
        option = f"--{_CALLED.get(name, name).replace('_', '-')}"
        if text is None:
            return option if flags is not None and option in flags else found[0]
        value = _value(text)
        if flags is not None and option not in flags and name in _SETTINGS:
            return f"--set {name}={value}"
        match value:
            case True:
                return option
            case False:
                return f"--no-{option.removeprefix('--')}"
            case dict():
                return " ".join(f"{option} {key}={','.join(map(str, each))}" for key, each in value.items())
        return f"{option} {shlex.quote(str(value))}"

    return _ARGUMENT.sub(flag, _KEY.sub(lambda key: f"--set {shlex.quote(key[1])}", text))


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
