"""From an exception to what the user reads and the shell receives: one line on stderr, and an exit code."""

import sys
import traceback

import typer

from checkpoints import DiskError, SessionUnreadable
from presets import PresetError
from simulator.errors import HtflError
from tui.common.formatting import printable

USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""Typer's base of all faults on the command line, which it keeps under a name that moved between versions."""

BUG, USAGE_FAULT, NO_STORAGE, INTERRUPTED, OUTPUT_CLOSED = 1, 2, 5, 130, 141


class OutputClosed(Exception):
    """Whoever read our output has gone, as `head` does when it has seen enough."""


def report(error: BaseException, debug: bool) -> int:
    """Say what went wrong, on stderr, and give the exit code."""
    if debug and not isinstance(error, OutputClosed):
        traceback.print_exception(error)
    message, code = explain(error)
    if message:
        print(f"error: {printable(message)}", file=sys.stderr)
    return code


def explain(error: BaseException) -> tuple[str, int]:
    """The sentence or two for an error, empty where there is nothing to say, and the exit code."""
    match error:
        case OutputClosed() | BrokenPipeError():
            return "", OUTPUT_CLOSED
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted.", INTERRUPTED
        case HtflError() | SessionUnreadable() | DiskError() | PresetError():
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


def _usage(error: Exception) -> str:
    """Typer's own message as a sentence, and where to look."""
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "htfl-sim"
    stop = "" if message.endswith(("?", ".")) else "."
    return f"{message}{stop} See `{command} --help`."
