"""Check that the packages of htfl-sim are its own. Other packages on an index have the same names as some of them.

Imports only the standard library, because the packages around it may be anything.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

ROOMS = ("checkpoints", "presets", "simulator", "tui")
MARK = "htfl-sim"
"""Every room's docstring contains this name."""
BEGINNING = 400
"""The mark is within this many characters of a room's file."""


class ForeignPackage(Exception):
    """A package of another distribution that replaces one of htfl-sim's."""

    exit_code = 2


def check() -> None:
    """Raise ForeignPackage, with the remedy, unless every room is htfl-sim's."""
    for room in ROOMS:
        found = _found(room)
        try:  # a later installation may have overwritten a file beside this package
            beside = found is not None and found.resolve().parents[1] == Path(__file__).resolve().parents[1]
            is_ours = beside and found and MARK in found.read_text(encoding="utf-8")[:BEGINNING]
        except (OSError, UnicodeDecodeError):
            is_ours = False
        if not is_ours:
            raise ForeignPackage(_sentence(room, found))


def _found(room: str) -> Path | None:
    """The file that `import room` runs, or has run; None if there is none."""
    loaded = sys.modules.get(room)
    if loaded is not None:
        return Path(loaded.__file__) if loaded.__file__ else None
    try:
        spec = find_spec(room)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _sentence(room: str, found: Path | None) -> str:
    from importlib.metadata import packages_distributions  # slow, so only in the error's text

    others = [name for name in packages_distributions().get(room, []) if name != "htfl-sim"]
    if found is None:
        what = f"htfl-sim's package '{room}' is missing"
    else:
        of = f" of {', '.join(others)}" if others else ""
        what = f"'{room}' is not htfl-sim's here but another package{of}, from {found.parent}"
    remedy = f"Run `pip uninstall {' '.join(others)}`, then" if others else "Run"
    again = "`pip install --force-reinstall --no-deps .` in the folder of htfl-sim's source"
    return f"{what}. {remedy} {again}, or install htfl-sim into an environment of its own."
