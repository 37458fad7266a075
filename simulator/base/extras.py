"""Optional packages and downloads: load one, or name the command that installs or downloads what is missing."""

import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from itertools import chain
from typing import Any

from simulator.base.errors import ConfigError, DataError
from simulator.base.own_files import OURS


def library(module: str, extra: str) -> Any:
    """Import a module of an optional package. Raises ConfigError with the install command if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{package} is not installed ({missing}). Install it: `{install_command(extra, package)}`."
        ) from missing


_REMEDIES = {
    "wandb": "Log in with `wandb login`, or set WANDB_MODE=offline to keep the run on this machine",
}


def complaint_of(error: BaseException) -> str | None:
    """The sentence for an error that another program raises, such as a missing login. None for others.

    Of htfl-sim's own requirements, only errors of networks and files count: others are htfl-sim's faults.
    """
    error = cause if isinstance(cause := getattr(error, "cause", None), BaseException) else error  # Ray's
    module = type(error).__module__.partition(".")[0]
    if module in OURS or module in sys.stdlib_module_names:
        return None
    if not isinstance(error, OSError) and (not (required := _required()) or module in required):
        return None  # ours; also without metadata, where nothing is known of requirements
    text = str(error).strip().rstrip(".").splitlines()
    remedy = _REMEDIES.get(module, f"See the documentation of {module}")
    return f"{module} failed: {type(error).__name__}: {text[0] if text else 'no reason given'}. {remedy}."


def _required() -> set[str]:
    """The modules of the packages without which htfl-sim does not run, and of those that these require."""
    found: set[str] = set()
    waiting = ["htfl-sim"]
    while waiting:
        with suppress(PackageNotFoundError):
            entries = [
                entry for entry in requires(waiting.pop()) or [] if "extra" not in entry.partition(";")[2]
            ]
            names = [_plain(re.split(r"[^A-Za-z0-9._-]", entry.strip(), maxsplit=1)[0]) for entry in entries]
            waiting += [name for name in names if name not in found]
            found.update(names)
    modules = packages_distributions().items()
    return {module for module, owners in modules if found.intersection(map(_plain, owners))}


def _plain(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install_command(extra: str, package: str | None = None) -> str:
    """The command that installs an extra in any folder. Without htfl-sim's metadata, it names the `package`."""
    try:
        entries = [entry.partition(";") for entry in requires("htfl-sim") or []]
    except PackageNotFoundError:  # its files were copied here, without its metadata
        entries = []
    found = [name.strip() for name, _, marker in entries if f"extra == '{extra}'" in marker.replace('"', "'")]
    return "pip install " + " ".join(f"'{each}'" for each in found or [package or extra])


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
    """The error of a dry run for what is not here. `command` with `options` downloads it; None: no such flag."""
    given = [(f"--{key.replace('_', '-')}", value) for key, value in options.items() if value is not None]
    line = shlex.join([*command, *chain(*given)])
    return NotDownloaded(
        f"{what} yet. A run would download it, and a dry run downloads nothing. To check everything, download it "
        f"first: `{line}`."
    )
