"""Errors that users can correct. Each has a message of one or two sentences and an exit code."""

import difflib
import errno
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

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


def nearest(word: str, known: Iterable[str], titles: Mapping[str, str] | None = None) -> str:
    """A hint at the end of an error message: ' Did you mean …?', or nothing if no name is near.

    Capitals, hyphens, and underscores do not count. titles: what names are called elsewhere, such as in papers.
    """
    spelled = {_spelling(title): name for name, title in (titles or {}).items()}
    spelled |= {_spelling(name): name for name in reversed(list(known))}
    close = difflib.get_close_matches(_spelling(word), list(spelled)[::-1], n=1, cutoff=0.5)
    return f" Did you mean '{spelled[close[0]]}'?" if close else ""


def _spelling(word: str) -> str:
    return re.sub(r"[-_ ]", "", word).casefold()


def about_path(error: OSError, path: Path | str | None = None) -> str | None:
    """What is wrong with a path that a user gave, and what to do. None for any other fault, as of a full disk."""
    path = path or error.filename
    if not isinstance(path, str | Path):
        return None
    path = Path(path)
    match error.errno:
        case errno.ENOENT if not path.parent.exists():
            folder = path.parent
            return f"there is no folder {folder}. Make it first: `mkdir -p {shlex.quote(str(folder))}`."
        case errno.ENOENT:
            return f"there is no file {path}. Check its name."
        case errno.EISDIR:
            return f"{path} is a folder. Name a file in it."
        case errno.ENOTDIR | errno.EEXIST:
            return f"{path} needs a folder where a file is. Choose another path."
        case errno.ENAMETOOLONG:
            return f"the name {path.name[:20]}… is too long. Choose a shorter one."
    return None


def cannot_write(path: Path, error: OSError) -> ConfigError:
    """The error for a file of results that cannot be written."""
    reason = about_path(error, path) or f"{error.strerror or error}."
    return ConfigError(f"{path} cannot be written: {reason}")


def check_output(path: Path) -> None:
    """Raise ConfigError if there is no folder for a file of results, or a folder has its name."""
    if path.is_dir():
        raise cannot_write(path, IsADirectoryError(errno.EISDIR, ""))
    if not path.parent.is_dir():
        missing = errno.ENOTDIR if path.parent.exists() else errno.ENOENT
        raise cannot_write(path, OSError(missing, ""))


def a_type(value: object) -> str:
    """The type of a value, with its article: 'a float', 'an ndarray'."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"
