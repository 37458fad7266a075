"""What can go wrong in a session directory, each error with the command line's exit code."""

import errno
import os
from pathlib import Path

FEW_INODES = 8
"""More than this process's threads return at once."""
MANY_BYTES = 1 << 20
"""With more free space than this, a small file was not refused for its bytes."""


class SessionUnreadable(Exception):
    """The session cannot be opened: damaged, locked, of another version, not there, its name taken."""

    exit_code = 4


class Damaged(SessionUnreadable):
    """Bytes on disk are not the bytes that were written."""


class Locked(SessionUnreadable):
    """Another process owns the session."""


class Displaced(Locked):
    """Another process took the session over from this one, which writes no more."""


class UnsupportedVersion(SessionUnreadable):
    """The session was written in a newer format than this program reads."""


class TooLarge(ValueError):
    """What is to be written could not be read back. Nothing was written."""

    exit_code = 5

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


class DiskError(Exception):
    """The disk refused: no space, read-only, no permission, or an I/O error."""

    exit_code = 5

    @classmethod
    def of(cls, error: OSError, path: Path, needed: int = 0) -> "DiskError":
        """The message for a failed system call at `path`; `needed` is the number of bytes it had to write."""
        match error.errno:
            case errno.ENOSPC if _lacks_inodes(path):
                what = "the file system can hold no more files: its inodes are used up"
                remedy = "Remove some files, then resume from the last checkpoint."
            case errno.ENOSPC | errno.EDQUOT:
                what = f"no space left: {needed:,} bytes were needed" if needed else "no space left"
                remedy = "Free some space, then resume from the last checkpoint."
            case errno.EROFS | errno.EACCES | errno.EPERM:
                what = "writing is not allowed"
                remedy = "Check the permissions or choose another sessions folder."
            case errno.ENOTDIR | errno.EEXIST:
                what = "a file is where a folder is needed"
                remedy = "Choose another sessions folder."
            case errno.EMFILE | errno.ENFILE:
                what = "no more files can be opened at once"
                remedy = "Raise the limit (`ulimit -n`), then resume from the last checkpoint."
            case _:
                what = f"input/output failed ({error.strerror or error})"
                remedy = "Check the disk, then run `htfl-sim verify SESSION` before resuming."
        return cls(f"{path}: {what}. {remedy}")


def _lacks_inodes(path: Path) -> bool:
    """Whether the file system of `path`, or of the nearest folder above it that is there, lacks inodes, not bytes.

    Another thread may have given a few inodes back since the failure, when it replaced a file.
    """
    for place in (path, *path.parents):
        try:
            found = os.statvfs(place)
        except OSError:
            continue
        has_room = found.f_bavail * found.f_frsize > MANY_BYTES
        return found.f_files > 0 and found.f_favail < FEW_INODES and has_room
    return False
