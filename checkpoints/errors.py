"""What can go wrong in a session directory, each error with the command line's exit code."""

import errno
from pathlib import Path


class SessionUnreadable(Exception):
    """The session cannot be opened: damaged, locked, of another version, not there, its name taken."""

    exit_code = 4


class Damaged(SessionUnreadable):
    """Bytes on disk are not the bytes that were written."""


class Locked(SessionUnreadable):
    """Another process owns the session."""


class UnsupportedVersion(SessionUnreadable):
    """The session was written in a newer format than this program reads."""


class DiskError(Exception):
    """The disk refused: no space, read-only, no permission, or an I/O error."""

    exit_code = 5

    @classmethod
    def of(cls, error: OSError, path: Path, needed: int = 0) -> "DiskError":
        """The message for a failed system call at `path`; `needed` is the number of bytes it had to write."""
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                what = f"no space left: {needed:,} bytes were needed" if needed else "no space left"
                remedy = "Free some space, then resume from the last checkpoint."
            case errno.EROFS | errno.EACCES | errno.EPERM:
                what = "writing is not allowed"
                remedy = "Check the permissions or choose another sessions folder."
            case _:
                what = f"input/output failed ({error.strerror or error})"
                remedy = "Check the disk, then run `htfl-sim verify` before resuming."
        return cls(f"{path}: {what}. {remedy}")
