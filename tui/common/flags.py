"""Replace arguments in an error's text, in backticks as in Python, by a command's flags."""

import ast
import re
import shlex
from collections.abc import Collection
from typing import Any

_ARGUMENT = re.compile(r"`([a-z][a-z_]*)(?:=([^`]+))?`")
_KEY = re.compile(r"`([a-z_]+\.[a-z_0-9.]+=[^`]+)`")
_CALLED = {"goal": "until", "origin": "from", "keys": "key", "ranges": "space"}
"""Flags with other names than their arguments."""
_SETTINGS = ("rounds", "seed", "until", "until_time")
"""Keys of a configuration outside of sections. --set takes them if a command has no flag."""


def as_flags(text: str, flags: Collection[str] | None = None) -> str:
    """`text` with `rounds=9` as --rounds 9, or as --set rounds=9 if the command lacks that flag.

    A key such as `training.lr=0.1` becomes --set training.lr=0.1. flags: those of the typed command; None: of any. A
    name without a value becomes a flag only if the command has it, because it may be another word.
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
