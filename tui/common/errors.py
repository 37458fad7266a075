"""From an exception to what the user reads and the shell receives: one line on stderr, and an exit code."""

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
    is_of_memory,
)
from tui.common.flags import as_flags
from tui.common.formatting import printable

USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""Typer's base of all faults on the command line, which it keeps under a name that moved between versions."""

BUG, USAGE_FAULT, NO_STORAGE, DIVERGED, NO_MEMORY, POINTS_FAILED, INTERRUPTED = 1, 2, 5, 6, 7, 8, 130
OUTPUT_CLOSED = 141
CODES = (
    "Exit codes: 0 done · 2 usage or configuration · 3 data · 4 the session cannot be opened, or nobody answers · "
    "5 the disk refuses · 6 stopped since a client diverged · 7 not enough memory · 8 points of a study failed · "
    "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, with a checkpoint · 141 nobody reads the output · 1 a bug"
)


class OutputClosed(Exception):
    """Whoever read our output has gone, as `head` does when it has seen enough."""


class NoOutput(Exception):
    """The process was started without standard output, as by `>&-`, and has something to write there."""


def report(error: BaseException, debug: bool, flags: Collection[str] | None = None) -> int:
    """Say what went wrong, on stderr, and give the exit code. flags: those of the command that was typed."""
    if debug and not isinstance(error, OutputClosed):
        traceback.print_exception(error)
    message, code = explain(error, flags)
    if message:
        print(f"error: {printable(message)}", file=sys.stderr)
    return code


def explain(error: BaseException, flags: Collection[str] | None = None) -> tuple[str, int]:
    """The sentence or two for an error, empty where there is nothing to say, and the exit code.

    An error names arguments as Python takes them, in backticks; here they are flags.
    """
    message, code = _explain(error)
    return as_flags(message, flags), code


def _explain(error: BaseException) -> tuple[str, int]:
    match error:
        case OutputClosed() | BrokenPipeError():
            return "", OUTPUT_CLOSED
        case NoOutput():
            return "standard output is closed: send it to a file, or to /dev/null.", OUTPUT_CLOSED
        case NotEnoughMemory():
            return str(error), error.exit_code
        case _ if is_of_memory(error):
            return (
                f"not enough memory ({_in_one_line(error)}). Free some, or use fewer --workers, a smaller "
                "training.batch_size or fewer, smaller images; a run goes on with `htfl-sim resume`."
            ), NO_MEMORY
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted.", INTERRUPTED
        case MethodError() if error.__cause__ is not None:
            return f"{error} --debug shows the traceback.", error.exit_code
        case HtflError() | SessionUnreadable() | DiskError() | PresetError() | TooLarge():
            return str(error), error.exit_code
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}. Check the disk and the permissions.", NO_STORAGE
        case _ if isinstance(error, USAGE):
            return _usage(error), USAGE_FAULT
    kind = type(error).__name__
    return (
        f"this is a bug in htfl-sim ({kind}: {error}). Run it again with --debug to see where, and report it.",
        BUG,
    )


def _in_one_line(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 200 else f"{words[:199]}…"


def _usage(error: Exception) -> str:
    """Typer's own message as a sentence, and where to look."""
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "htfl-sim"
    if (option := getattr(error, "option_name", None)) and (key := _setting(option)) and _sets(context):
        return f"there is no option {option}: say --set {key}=VALUE. See `htfl-sim config {key}`."
    stop = "" if message.endswith(("?", ".")) else "."
    return f"{message}{stop} See `{command} --help`."


def _setting(option: str) -> str | None:
    """The setting that somebody may mean who writes its name as an option: --lr is training.lr."""
    from htfl_sim.catalog import config_keys

    name = option.lstrip("-").replace("-", "_")
    return next((key for key in config_keys() if key.rpartition(".")[2] == name), None)


def _sets(context: Any) -> bool:
    """Whether a command takes --set."""
    return context is not None and any("--set" in each.opts for each in context.command.params)
