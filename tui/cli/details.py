"""`htfl-sim show`: one session in full."""

from typing import Annotated

from tui.cli import options, output
from tui.common import folders


def show(
    session: options.SessionArgument,
    round: Annotated[
        int | None, options.option("The clients after this round.", "--round", metavar="R")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a session: settings, switches, accuracy over the rounds, every client, traffic, events, checkpoints.

    Also while it runs, and from a folder that cannot be written.

    \b
    Examples
      htfl-sim show quickstart-20260102-101500
      htfl-sim show mu07 --round 10
      htfl-sim show mu07 --json | jq .record.accuracy.per_client
    """
    from simulator.analysis.well_formed import well_formed
    from tui.cli.session_page import Page

    folder = folders.session_folder(session, folders.sessions_dir(sessions_dir))
    page = Page.read(folder, round)
    with well_formed(folder):
        if as_json:
            output.emit(page.to_json())
        else:
            output.show(*page.parts())
