"""What can go wrong and is the user's to mend: each error is one or two sentences and an exit code."""

import difflib
import errno
from collections.abc import Iterable, Mapping

_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "can't start new thread")
"""How libraries say so in a RuntimeError."""


RAISED = (Exception, SystemExit)
"""What a user's code may raise: `sys.exit` in a file must not end the program, least of all with exit code 0."""


class HtflError(Exception):
    """An error whose message tells a user what is wrong, where, and what to do.

    `exit_code` follows the command line's contract: 2 configuration, 3 data, 4 session, 5 storage, 7 memory.
    """

    exit_code = 1


class ConfigError(HtflError):
    """Bad usage or configuration: an unknown name or key, a bad value, a method its models cannot run."""

    exit_code = 2


class MethodError(ConfigError):
    """A method failed, or handed back what cannot be used: its author's to mend, or its settings'."""


class MachinesLost(ConfigError):
    """The machines that compute clients are gone. The session can be resumed."""


class DataError(HtflError):
    """A data set that is missing, damaged or cannot be divided as asked."""

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
    """Memory has run out, on the device or beside it."""

    exit_code = 7


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: the fault of no code, whoever's it came through."""
    match error:
        case NotEnoughMemory() | MemoryError() | OSError(errno=errno.ENOMEM):
            return True
        case RuntimeError():  # torch's for devices is one, whatever it says
            if type(error).__name__ == "OutOfMemoryError":
                return True
            return any(words in str(error) for words in _OUT_OF_MEMORY)
    return False


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that ends an error message: ' did you mean …?', or nothing when nothing is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def a_type(value: object) -> str:
    """Type of a value, with its article: 'a float', 'an ndarray'."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"
