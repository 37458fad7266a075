"""`htfl-sim sessions`: list sessions and their forks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import htfl_sim as hs
from tui.cli import completion, options, output
from tui.common import formatting

if TYPE_CHECKING:
    from htfl_sim.sessions import Leftover
    from simulator.results.analysis.lineage import Branch
    from simulator.results.analysis.summary import Summary

EXPENDABLE = ["created", "size", "best", "data", "forked at", "tags"]


def sessions(
    method: Annotated[
        str | None,
        options.option(
            "List only sessions that use or used this method.", metavar="M", complete=completion.methods
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        options.option("List only sessions with this data set.", metavar="D", complete=completion.datasets),
    ] = None,
    state: Annotated[
        str | None,
        options.option(
            "List only sessions in this state: running, stopped, finished, damaged, and so on.",
            metavar="STATE",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        options.option(
            "List only sessions with this tag. Repeat it for several tags; a session must have all of them.",
            metavar="TAG",
        ),
    ] = None,
    sessions_dir: options.SessionsDir = None,
    size: Annotated[bool, options.flag("Also print the size on disk.", "--size")] = False,
    all_: Annotated[
        bool, options.flag("Also list hidden folders of commands that run or were killed.", "--all", "-a")
    ] = False,
    duplicates: Annotated[
        bool,
        options.flag("List only groups of sessions with equal fingerprints: identical runs.", "--duplicates"),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List sessions with their rounds, methods, and accuracy. Forks appear under their parents.

    A session that cannot be read is listed as damaged; `verify` says why.
    --all also lists the hidden folders that `rm --leftovers` would remove.

    \b
    Examples
      htfl-sim sessions
      htfl-sim sessions --size --sessions-dir /mnt/big/sessions
      htfl-sim sessions --method fedgh --state stopped
      htfl-sim sessions --tag paper
      htfl-sim sessions --all --size
      htfl-sim sessions --duplicates
      htfl-sim sessions --json | jq -r '.[] | select(.best > 0.9) | .name'
    """
    if duplicates:
        if method or dataset or state or tag or size or all_:
            raise hs.ConfigError("`duplicates` lists all sessions. Leave the other options out.")
        _list_duplicates(hs.sessions.duplicates(sessions_dir), as_json)
        return
    found = hs.sessions.search(
        sessions_dir, method=method, dataset=dataset, state=state, tags=tag or (), sized=size, hidden=all_
    )
    if as_json:
        output.emit([each.summary.to_json() for each in found])
        return
    _tell_leftovers(hs.sessions.leftovers(sessions_dir))
    if not found:
        folder = hs.folders.sessions_dir(sessions_dir)
        every = hs.sessions.search(sessions_dir, hidden=all_)
        none = f"None of the {len(every)} sessions in {folder} is like that."
        output.say(none if every else f"No sessions in {folder}. Begin one: htfl-sim run")
        return
    columns = ["name", "method", "data", ">round", ">accuracy", ">best", "state", "created"]
    if size:
        columns.append(">size")
    if any(each.summary.parent for each in found):
        columns.append("forked at")
    if any(each.summary.tags for each in found):
        columns.append("tags")
    rows = (_row(each, columns) for each in found)
    named = {column.lstrip(">") for column in columns}
    output.show(output.table(columns, rows, [name for name in EXPENDABLE if name in named]))
    for each in found:
        if each.summary.error:
            output.say(f"{each.summary.name} is damaged: {each.summary.error}", "yellow")


def _list_duplicates(groups: "Sequence[Sequence[Summary]]", as_json: bool) -> None:
    if as_json:
        output.emit([[each.to_json() for each in group] for group in groups])
        return
    if not groups:
        output.say("No two sessions have the same fingerprint.")
        return
    rows = [
        [number, each.name, formatting.course(each.methods), f"{each.round}/{each.rounds}", each.state]
        for number, group in enumerate(groups, 1)
        for each in group
    ]
    output.show(output.table([">group", "name", "method", ">round", "state"], rows))


def _tell_leftovers(hidden: "Sequence[Leftover]") -> None:
    if unused := sum(not each.in_use for each in hidden):
        left = f"{unused} leftover{'s' * (unused > 1)}"
        output.say(f"Killed commands left {left}. Remove with `htfl-sim rm --leftovers`.", "dim")


def _row(branch: "Branch", columns: Sequence[str]) -> list[object]:
    from simulator.results.analysis.divergence import NO_SCORE

    each = branch.summary
    return [
        formatting.branches(branch.last) + each.name,
        formatting.course(each.methods),
        each.dataset,
        None if each.round is None else f"{each.round}/{each.rounds}",
        NO_SCORE if each.untrained else formatting.percent(each.accuracy),
        formatting.at_round(each.best, each.best_round),
        each.state,
        each.created[:16].replace("T", " ") if each.created else None,
        *([formatting.size(each.bytes)] if ">size" in columns else []),
        *([_origin(branch)] if "forked at" in columns else []),
        *([", ".join(each.tags)] if "tags" in columns else []),
    ]


def _origin(branch: "Branch") -> str:
    """A fork's parent and round, and whether the parent still exists."""
    parent = branch.summary.parent
    return f"{parent['name']}@{parent['round']}{' (gone)' * branch.orphan}" if parent else ""
