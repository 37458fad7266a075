"""`htfl-sim rm`: sessions that are no longer wanted."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import checkpoints
from checkpoints import Locked
from simulator.analysis.summary import Summary
from simulator.errors import ConfigError
from tui.cli import completion, mailbox, options, output
from tui.common import folders, formatting


def rm(
    sessions: Annotated[list[str], options.argument("SESSION...", completion.sessions)],
    yes: Annotated[bool, options.flag("Remove without a question.", "--yes", "-y")] = False,
    steal: Annotated[bool, options.flag("The machine that held the session is dead.", "--steal")] = False,
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Remove sessions, with all their rounds and checkpoints, after a question. One that is run stays.

    Forks stay whole: what they share with their parent is theirs too.

    \b
    Examples
      htfl-sim rm mu07
      htfl-sim rm mu07 mu09 --yes
    """
    folder = folders.sessions_dir(sessions_dir)
    chosen = list(dict.fromkeys(folders.session_folder(name, folder) for name in sessions))
    found = [Summary.read(path, sized=True) for path in chosen]
    for path, summary in zip(chosen, found, strict=True):
        _refuse_running(path, summary, steal)
    if not yes:
        _ask(found)
    for path in chosen:
        checkpoints.remove(path, steal=steal)
        output.say(f"removed {path}")


def _refuse_running(path: Path, summary: Summary, steal: bool) -> None:
    """Before the question, and before any of several is removed; removing looks again, under the lock."""
    if summary.error is None and not steal and (reader := checkpoints.SessionReader(path)).alive():
        raise Locked(
            f"{path} is run by {mailbox.holder(mailbox.owner(reader))}; `htfl-sim stop {summary.name}` it first."
        )


def _ask(found: list[Summary]) -> None:
    rows = [
        [
            each.name,
            each.method,
            each.round,
            formatting.percent(each.best),
            formatting.size(each.bytes),
            each.state,
        ]
        for each in found
    ]
    output.tell(output.table(["name", "method", ">rounds", ">best", ">size", "state"], rows))
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked; say --yes to remove without a question.")
    what = f"{len(found)} sessions" if len(found) > 1 else found[0].name
    if not typer.confirm(f"Remove {what} for good?", err=True):
        raise typer.Abort
