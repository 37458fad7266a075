"""`htfl-sim show`: all details of a session."""

from typing import Annotated

import htfl_sim as hs
from tui.cli import options, output


def show(
    session: options.SessionArgument,
    round: Annotated[
        int | None, options.option("Round after which to show the clients.", "--round", metavar="R")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a session: settings, switches, accuracy over the rounds, every client, traffic, events, checkpoints.

    Works while it runs, and from a folder that cannot be written.

    \b
    Examples
      htfl-sim show quickstart-20260102-101500
      htfl-sim show mu07 --round 10
      htfl-sim show mu07 --json | jq .record.accuracy.per_client
    """
    from tui.cli.session_page import parts

    found = hs.sessions.details(session, round, sessions_dir=sessions_dir)
    if note := hs.folders.link_note(session, hs.folders.sessions_dir(sessions_dir)):
        output.say(note)
    with found.well_formed():
        if as_json:
            output.emit(found.to_json())
        else:
            output.show(*parts(found))
