"""`htfl-sim tag`: words to find sessions by."""

from typing import Annotated

import typer

import htfl_sim as hs
from tui.cli import options, output
from tui.cli.ticker import Ticker


def tag(
    session: options.SessionArgument,
    add: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TAG]...", help="Tags to add.", show_default=False),
    ] = None,
    remove: Annotated[
        list[str] | None, options.option("Tag to remove. May be repeated.", metavar="TAG")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Mark a session with words to find it by, or show them. Tags never change its rounds.

    Also while it runs: then its process writes them, between two clients.
    `sessions --tag` lists what is marked, and tag:NAME stands for it in
    compare, plot, report and export.

    \b
    Examples
      htfl-sim tag mu07 paper table-3
      htfl-sim tag mu07 --remove paper
      htfl-sim tag mu07
      htfl-sim compare tag:paper
    """
    with Ticker() as watch:
        tags = hs.sessions.tag(session, add or (), remove or (), sessions_dir=sessions_dir, watch=watch)
    name = hs.sessions.name_of(session, sessions_dir)
    if as_json:
        output.emit({"session": name, "tags": tags})
    else:
        output.show(f"{name}: {', '.join(tags) or 'no tags'}")
