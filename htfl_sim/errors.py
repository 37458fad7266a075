"""The errors that a user can correct. Each message says what is wrong, where, and what to do."""

from checkpoints import Damaged, DiskError, Locked, SessionUnreadable, TooLarge
from presets import PresetError
from simulator.base.errors import (
    ConfigError,
    DataError,
    HtflError,
    MachinesLost,
    MethodError,
    NotEnoughMemory,
    PointsFailed,
    SessionError,
    about_path,
    check_output,
    is_of_memory,
)
from simulator.base.extras import complaint_of
from simulator.base.own_files import line_in, said

__all__ = [
    "ConfigError", "Damaged", "DataError", "DiskError", "HtflError", "Locked", "MachinesLost",
    "MethodError", "NotEnoughMemory", "PointsFailed", "PresetError", "SessionError", "SessionUnreadable",
    "TooLarge", "check_output", "fault_of_others", "is_of_memory",
]  # fmt: skip


def fault_of_others(error: BaseException) -> str | None:
    """The sentence for an unforeseen error of a user's file, of another program, or about a path. None for our own."""
    if line := line_in(error):
        return f"{line[0]}, line {line[1]}: {said(error)}. Correct this file. --debug shows the traceback."
    if isinstance(error, OSError) and (sentence := about_path(error)):
        return sentence
    return complaint_of(error)
