"""`htfl-sim doctor`: what this machine offers, and what is missing."""

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import htfl_sim as hs
from tui.cli import options, output

if TYPE_CHECKING:
    from htfl_sim.machine import Check


def doctor(
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what this machine offers and what is missing: versions, cores, memory, CUDA, data, disk, terminal.

    \b
    Examples
      htfl-sim doctor
      htfl-sim doctor --json | jq -r '.[] | select(.status != "ok") | .what'
    """
    findings = [*hs.machine.doctor(sessions_dir, data_dir), *_terminal()]
    if as_json:
        output.emit([asdict(finding) for finding in findings])
    else:
        output.show(
            output.table(["", "status", ""], ([each.what, each.status, each.detail] for each in findings))
        )


_COLOURS = {
    "truecolor": "all of them",
    "256": "256, from which the app chooses; COLORTERM=truecolor says where a terminal has all (ssh leaves it out)",
    "standard": "16, which tell little apart; TERM=xterm-256color says where a terminal has more",
}
"""The terminal's abilities, as rich finds them."""


def _terminal() -> Iterator["Check"]:
    console = output.stderr()
    if not console.is_terminal:
        yield hs.machine.Check(
            "terminal", "missing", "stderr is no terminal: a run writes one line per round"
        )
    else:
        yield _room(*console.size)
        yield _colours(None if console.no_color else console.color_system)
    encoding = (sys.stdout.encoding or "").lower()
    unicode = encoding.startswith("utf")
    said = f"stdout writes {encoding or 'in no known encoding'}"
    yield hs.machine.Check(
        "unicode", "ok" if unicode else "missing", said if unicode else f"{said}; tui: --glyphs ascii"
    )


def _room(width: int, height: int) -> "Check":
    from tui.app.dialogs.notices import SMALLEST

    columns, rows = SMALLEST
    enough = width >= columns and height >= rows
    least = f"the app needs {columns}×{rows} and is made for 80×24 and more"
    return hs.machine.Check("terminal", "ok" if enough else "missing", f"{width}×{height}; {least}")


def _colours(system: str | None) -> "Check":
    term = os.environ.get("TERM", "")
    if system is None:
        why = "NO_COLOR is set" if os.environ.get("NO_COLOR") else f"TERM={term}"
        return hs.machine.Check("colours", "missing", f"none ({why}); the app says everything in characters")
    return hs.machine.Check("colours", "ok", f"{_COLOURS.get(system, system)} (TERM={term})")
