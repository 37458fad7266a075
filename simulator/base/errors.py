"""Errors that users can correct. Each has a message of one or two sentences and an exit code."""

import difflib
import errno
from collections.abc import Iterable, Mapping

_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "can't start new thread")
"""The words for it in a library's RuntimeError."""


RAISED = (Exception, SystemExit)
"""Exceptions that a user's code may raise.

`sys.exit` in a file must not end the program, least of all with exit code 0.
"""


class HtflError(Exception):
    """An error whose message tells a user what is wrong, where, and what to do.

    `exit_code` follows the command line's contract: 2 configuration, 3 data, 4 session, 5 storage, 7 memory.
    """

    exit_code = 1


class ConfigError(HtflError):
    """Bad usage or configuration: an unknown name or key, a bad value, a method its models cannot run."""

    exit_code = 2


class MethodError(ConfigError):
    """A method failed, or returned an unusable value. Its author or its settings can correct this."""


class MachinesLost(ConfigError):
    """The machines that compute clients are gone. The session can be resumed."""


class DataError(HtflError):
    """A data set that is missing, damaged, or cannot be divided as configured."""

    exit_code = 3


class SessionError(HtflError):
    """A session that cannot be resumed as it is."""

    exit_code = 4


class PointsFailed(SessionError):
    """Points of a study that failed, with the reason of each by its name."""

    def __init__(self, reasons: Mapping[str, str], points: int) -> None:
        said = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in reasons.items())
        super().__init__(f"{len(reasons)} of {points} points failed: {said}.")
        self.reasons = reasons


class NotEnoughMemory(HtflError):
    """Memory has run out, on the device or on the host."""

    exit_code = 7


def is_of_memory(error: BaseException) -> bool:
    """Whether an error reports missing memory, which is not a fault of the code that raised it."""
    match error:
        case NotEnoughMemory() | MemoryError() | OSError(errno=errno.ENOMEM):
            return True
        case RuntimeError():  # torch has one for devices, with any text
            if type(error).__name__ == "OutOfMemoryError":
                return True
            return any(words in str(error) for words in _OUT_OF_MEMORY)
    return False


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at the end of an error message: ' Did you mean …?', or nothing if no name is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def a_type(value: object) -> str:
    """The type of a value, with its article: 'a float', 'an ndarray'."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"
