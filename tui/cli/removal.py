"""`htfl-sim rm`: remove sessions and studies."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

import htfl_sim as hs
from tui.cli import completion, options, output
from tui.common import formatting

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.results.analysis.summary import Summary


def rm(
    sessions: Annotated[
        list[str] | None,
        options.argument("SESSION...", completion.steerable, "Sessions and studies to remove."),
    ] = None,
    leftovers: Annotated[
        bool, options.flag("Remove the hidden folders that killed commands left.", "--leftovers")
    ] = False,
    yes: Annotated[bool, options.flag("Remove without asking.", "--yes", "-y")] = False,
    steal: Annotated[
        bool,
        options.flag(
            "Remove a session that another machine holds, if you know that machine to be dead.", "--steal"
        ),
    ] = False,
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Remove sessions and studies, with all their rounds and checkpoints, after a question. A running one stays.

    Forks stay whole: what they share with their parent is theirs too.
    A killed run, fork or rm may leave a hidden folder; --leftovers removes
    those that no process uses. `sessions --all` lists them.

    \b
    Examples
      htfl-sim rm mu07
      htfl-sim rm mu07 mu09 --yes
      htfl-sim rm --leftovers
    """
    if bool(sessions) == leftovers:
        raise hs.ConfigError("Name the sessions to remove, or use --leftovers by itself.")
    if leftovers:
        _remove_leftovers(hs.folders.sessions_dir(sessions_dir), yes, steal)
        return
    given = [hs.sessions.own_folders(name, sessions_dir) for name in sessions or ()]
    chosen = list(dict.fromkeys(path for path, _ in given))
    found = [hs.sessions.summary(path) for path in dict.fromkeys(each for _, own in given for each in own)]
    for path in chosen:
        hs.sessions.check_idle(path, steal=steal)
    for path in chosen:
        found_of = hs.sessions.dependents(path)
        for point in found_of.users:
            study = hs.folders.sessions_folder(path) / point.partition("/")[0]
            command = f"{hs.folders.continues(study)} {study.name}"
            output.say(f"{point} uses {path}. `htfl-sim {command}` will compute it again.", "yellow")
        for point in found_of.branches:
            output.say(f"{point} continues from {path}. Without it, the point cannot start.", "yellow")
    if not yes:
        _ask(found, [path for path in chosen if hs.folders.is_group(path)])
    for path in chosen:
        output.say(f"removed {hs.sessions.remove(path, steal=steal)}")


def _remove_leftovers(folder: "Path", yes: bool, steal: bool) -> None:
    found = hs.sessions.leftovers(folder, steal=steal)
    unused = [each for each in found if not each.in_use]
    for each in found:
        if each.in_use:
            output.say(f"kept {each.path}: a process may use it. If its machine is dead, add --steal.")
    if not unused:
        output.say(f"{folder} has no leftovers to remove.")
        return
    if not yes:
        rows = [[str(each.path), formatting.size(hs.sessions.size_on_disk(each.path))] for each in unused]
        output.tell(output.table(["leftover", ">size"], rows))
        _confirm(f"{len(unused)} leftover{'s' * (len(unused) > 1)}")
    for each in unused:
        hs.sessions.remove_leftover(each, steal=steal)
        output.say(f"removed {each.path}")


def _ask(found: "list[Summary]", studies: "list[Path]") -> None:
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
    what = [f"the study {path.name}" for path in studies]
    what += [f"{len(found)} sessions"] if len(found) > 1 else [each.name for each in found]
    _confirm(" and ".join(what))


def _confirm(what: str) -> None:
    if not sys.stdin.isatty():
        raise hs.ConfigError("Nobody is there to answer. Add --yes to remove without a question.")
    if not typer.confirm(f"Remove {what} for good?", err=True):
        raise typer.Abort
