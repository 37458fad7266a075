"""`htfl-sim tag` and `htfl-sim note`: words to find sessions by, and a line about one."""

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


def note(
    session: options.SessionArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help='The note, in quotes; "" removes it.', show_default=False),
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a line about a session, or show it. A note never changes its rounds.

    It is one line of up to 1,000 letters. `show` prints it, and the app
    lists it and finds sessions by its words. A new note replaces the old one.

    \b
    Examples
      htfl-sim note mu07 "the lr of the paper, but 10 clients"
      htfl-sim note mu07
      htfl-sim note mu07 ""
    """
    with Ticker() as watch:
        written = hs.sessions.note(session, text, sessions_dir=sessions_dir, watch=watch)
    name = hs.sessions.name_of(session, sessions_dir)
    if as_json:
        output.emit({"session": name, "note": written})
    else:
        output.show(f"{name}: {written or 'no note'}")
