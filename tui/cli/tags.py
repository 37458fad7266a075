"""`htfl-sim tag`: words to find sessions by."""

from typing import Annotated

import typer

import checkpoints
from simulator.errors import ConfigError
from simulator.sessions.reader import SessionReader
from tui.cli import mailbox, options, output
from tui.common import folders


def tag(
    session: options.SessionArgument,
    add: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TAG]...", help="What to mark the session with.", show_default=False),
    ] = None,
    remove: Annotated[
        list[str] | None, options.option("A tag to take away; may be repeated.", metavar="TAG")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Mark a session with words to find it by, or show them. They change nothing of its rounds.

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
    reader = SessionReader(folders.session_folder(session, folders.sessions_dir(sessions_dir)))
    added, removed = (list(map(folders.checked_tag, each or ())) for each in (add, remove))
    if added or removed:
        _change(reader, added, removed)
    tags = checkpoints.tags_of(reader.folder)
    name = checkpoints.name_of(reader.folder)
    if as_json:
        output.emit({"session": name, "tags": tags})
    else:
        output.show(f"{name}: {', '.join(tags) or 'no tags'}")


def _change(reader: SessionReader, add: list[str], remove: list[str]) -> None:
    """By its owner, if it is run; else here."""
    if not reader.alive():
        try:
            checkpoints.mark(reader.folder, add, remove)
        except ValueError as error:
            raise ConfigError(f"{reader.folder}: {error}.") from error
        return
    command = checkpoints.post(reader.folder, "tag", {"add": add, "remove": remove})
    with mailbox.Ticker() as ticker:

        def look(note: mailbox.Note) -> bool:
            ticker.show(f"tagging: waits for the end of a client ({mailbox.progress(note)})")
            return False

        answer = mailbox.await_answer(reader, command, None, look)
    if answer and answer.outcome == "refused":
        raise ConfigError(f"{reader.folder} refused the tags: {answer.message.rstrip('.')}.")
    if answer is None:
        checkpoints.mark(reader.folder, add, remove)  # its owner ended meanwhile; once more does no harm
