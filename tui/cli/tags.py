"""`htfl-sim tag` and `htfl-sim note`: words to find sessions by, and a line about one."""

from typing import Annotated

import typer

import htfl_sim as hs
from tui.cli import options, output
from tui.cli.ticker import Ticker


def tag(
    session: options.SteerableArgument,
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
    """Mark a session, or all of a study, with words to find it by, or show them. Tags never change its rounds.

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
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    with Ticker() as watch:
        tags = {each: hs.sessions.tag(each, add or (), remove or (), watch=watch) for each in chosen}
    if as_json:
        told = [{"session": hs.folders.name_of(each), "tags": words} for each, words in tags.items()]
        output.emit(told[0] if place in tags else told)
        return
    for each, words in tags.items():
        output.show(f"{hs.folders.name_of(each)}: {', '.join(words) or 'no tags'}")


def note(
    session: options.SteerableArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help='The note, in quotes; "" removes it.', show_default=False),
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a line about a session, or about all of a study, or show it. A note never changes its rounds.

    It is one line of up to 1,000 letters. `show` prints it, and the app
    lists it and finds sessions by its words. A new note replaces the old one.

    \b
    Examples
      htfl-sim note mu07 "the lr of the paper, but 10 clients"
      htfl-sim note mu07
      htfl-sim note mu07 ""
    """
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    with Ticker() as watch:
        notes = {each: hs.sessions.note(each, text, watch=watch) for each in chosen}
    if as_json:
        told = [{"session": hs.folders.name_of(each), "note": written} for each, written in notes.items()]
        output.emit(told[0] if place in notes else told)
        return
    for each, written in notes.items():
        output.show(f"{hs.folders.name_of(each)}: {written or 'no note'}")
