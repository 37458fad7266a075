"""Dry runs download nothing: what is not on this machine is refused with the command that downloads it."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from simulator.base.errors import DataError

_forbidding = 0


class NotDownloaded(DataError):
    """A run would download something, and a dry run does not."""


@contextmanager
def forbidden() -> Iterator[None]:
    """Forbid downloads in this process."""
    global _forbidding
    _forbidding += 1
    try:
        yield
    finally:
        _forbidding -= 1


def allowed() -> bool:
    """Whether this process may download."""
    return not _forbidding


def not_downloaded(what: str, *command: str, **options: str | None) -> NotDownloaded:
    """The error of a dry run for something that is not here, such as 'cifar10 is not in FOLDER'.

    `command` downloads it. `options` are its flags, with an underscore for the dash; None: without it.
    """
    given = [(f"--{key.replace('_', '-')}", value) for key, value in options.items() if value is not None]
    line = shlex.join([*command, *chain(*given)])
    return NotDownloaded(
        f"{what} yet. A run would download it, and a dry run downloads nothing. To check everything, download it "
        f"first: `{line}`."
    )
