"""`htfl-sim sessions`: what has been run, and what was forked from what."""

from typing import Annotated

import typer

from tui.cli import lineage, options, output
from tui.cli.lineage import Placed
from tui.cli.summary import Summary, folders

EXPENDABLE = ["created", "size", "best", "data", "forked at"]


def sessions(
    sessions_dir: options.SessionsDir = None,
    size: Annotated[bool, typer.Option("--size", help="Also what each takes on disk.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the sessions: how far each got, by which methods, and how well it does; forks under their parents.

    One that cannot be read is listed as damaged; `verify` says why.

    \b
    Examples
      htfl-sim sessions
      htfl-sim sessions --size --sessions-dir /mnt/big/sessions
      htfl-sim sessions --json | jq -r '.[] | select(.state=="stopped") | .name'
    """
    folder = options.sessions_dir(sessions_dir)
    found = lineage.tree([Summary.read(path, sized=size) for path in folders(folder)])
    if as_json:
        output.emit([each.summary.to_json() for each in found])
        return
    if not found:
        output.say(f"No sessions in {folder}. Begin one: htfl-sim run")
        return
    columns = ["name", "method", "data", ">round", ">accuracy", ">best", "state", "created"]
    if size:
        columns.append(">size")
    if any(each.origin for each in found):
        columns.append("forked at")
    rows = (_row(each, size, "forked at" in columns) for each in found)
    named = {column.lstrip(">") for column in columns}
    output.show(output.table(columns, rows, [name for name in EXPENDABLE if name in named]))
    for each in found:
        if each.summary.error:
            output.say(f"{each.summary.name} is damaged: {each.summary.error}", "yellow")


def _row(placed: Placed, size: bool, forks: bool) -> list[object]:
    each = placed.summary
    return [
        placed.rule + each.name,
        lineage.course(each),
        each.dataset,
        None if each.round is None else f"{each.round}/{each.rounds}",
        output.share(each.accuracy),
        output.share(each.best),
        each.state,
        each.created[:16].replace("T", " ") if each.created else None,
        *([output.size(each.bytes)] if size else []),
        *([placed.origin] if forks else []),
    ]
