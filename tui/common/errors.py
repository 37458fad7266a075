"""Turn exceptions into one line on stderr, with arguments as flags, and an exit code."""

import ast
import re
import shlex
import sys
import traceback
from collections.abc import Collection
from typing import Any

import typer

from htfl_sim.errors import (
    DiskError,
    HtflError,
    MethodError,
    NotEnoughMemory,
    PresetError,
    SessionUnreadable,
    TooLarge,
    fault_of_others,
    is_of_memory,
)
from tui.common.formatting import printable

USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""Typer's base class of all errors on the command line. Its name has changed between versions."""

BUG, USAGE_FAULT, NO_STORAGE, DIVERGED, NO_MEMORY, POINTS_FAILED = 1, 2, 5, 6, 7, 8
WATCHED, INTERRUPTED, OUTPUT_CLOSED = 10, 130, 141
CODES = (
    "Exit codes: 0 done · 2 usage or configuration · 3 data · 4 the session cannot be opened, or nobody answers · "
    "5 the disk refuses · 6 stopped since a client diverged · 7 not enough memory · 8 points of a study failed · "
    "10 stopped by a watcher · "
    "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, with a checkpoint · 141 nobody reads the output · 1 a bug"
)


class OutputClosed(Exception):
    """The reader of our output has gone, as `head` does after enough lines."""


class NoOutput(Exception):
    """The process has no standard output, as with `>&-`, and must write to it."""


def report(error: BaseException, debug: bool, flags: Collection[str] | None = None) -> int:
    """Print the error on stderr and return the exit code. flags: those of the typed command."""
    if debug and not isinstance(error, OutputClosed):
        traceback.print_exception(error)
    message, code = explain(error, flags)
    if message:
        print(f"error: {printable(message)}", file=sys.stderr)
    return code


def explain(error: BaseException, flags: Collection[str] | None = None) -> tuple[str, int]:
    """The sentence or two for an error, or "", with arguments in backticks as flags; and the exit code."""
    message, code = _explain(error)
    return as_flags(message, flags), code


def _explain(error: BaseException) -> tuple[str, int]:
    kind = type(error).__name__
    match error:
        case OutputClosed() | BrokenPipeError():
            return "", OUTPUT_CLOSED
        case NoOutput():
            return "standard output is closed: send it to a file, or to /dev/null.", OUTPUT_CLOSED
        case NotEnoughMemory():
            return str(error), error.exit_code
        case _ if is_of_memory(error):
            words = " ".join(str(error).split()) or kind
            return (
                f"not enough memory ({words if len(words) <= 200 else f'{words[:199]}…'}). Free some, or use fewer "
                "--workers, a smaller training.batch_size or fewer, smaller images; a run continues with "
                "`htfl-sim resume`."
            ), NO_MEMORY
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted.", INTERRUPTED
        case MethodError() if error.__cause__ is not None:
            return f"{error} --debug shows the traceback.", error.exit_code
        case HtflError() | SessionUnreadable() | DiskError() | PresetError() | TooLarge():
            return str(error), error.exit_code
        case _ if isinstance(error, USAGE):
            return _usage(error), USAGE_FAULT
        case _ if sentence := fault_of_others(error):
            return sentence, USAGE_FAULT
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}. Check the disk and the permissions.", NO_STORAGE
    bug = f"this is a bug in htfl-sim ({kind}: {error})."
    return f"{bug} Run it again with --debug to see where, and report it.", BUG


def _usage(error: Exception) -> str:
    """Typer's own message as a sentence, with a hint."""
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "htfl-sim"
    if (option := getattr(error, "option_name", None)) and context is not None:
        sets = any("--set" in each.opts for each in context.command.params)
        if sets and (key := _setting(option)):
            return f"there is no option {option}: say --set {key}=VALUE. See `htfl-sim config {key}`."
    stop = "" if message.endswith(("?", ".")) else "."
    return f"{message}{stop} See `{command} --help`."


def _setting(option: str) -> str | None:
    """The setting that a user may mean with its short name as an option: --lr is training.lr."""
    from htfl_sim.catalog import config_keys

    name = option.lstrip("-").replace("-", "_")
    return next((key for key in config_keys() if key.rpartition(".")[2] == name), None)


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
