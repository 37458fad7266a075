"""Wait until the owner of a live session answers a command."""

import time
from collections.abc import Callable
from typing import Any, NoReturn

import checkpoints
from checkpoints import Answer, Command, Damaged
from simulator.base.errors import SessionError
from simulator.results.analysis.run import SILENT_SECONDS, STILL_SECONDS

POLL_SECONDS = 0.05
"""Seconds between two looks for the answer."""
LOOK_SECONDS = 0.25
"""Seconds between two looks at the owner's heartbeat and progress."""

Note = dict[str, Any]
Owned = checkpoints.SessionReader | checkpoints.GroupReader
"""A folder whose owner accepts commands: a session, or a study's sweep."""


def owner(session: Owned) -> Note:
    """The owner's notes about itself; empty while they cannot be read."""
    try:
        return session.owner() or {}
    except Damaged:
        return {}


def holder(note: Note) -> str:
    """The owner of a session: 'process 12 on host, since …'."""
    return f"process {note.get('pid')} on {note.get('host')}, since {note.get('since')}"


def progress(note: Note) -> str:
    """The owner's progress: 'round 5, 3 of 10 clients done'."""
    match note.get("progress"):
        case {"points": points, "done": done}:
            return f"{done} of {points} points finished"
        case {"round": round, "phase": "evaluate"}:
            return f"round {round}, evaluating"
        case {"round": round, "done": done, "clients": clients}:
            return f"round {round}, {done} of {clients} clients done"
    return "before its first round"


def await_answer(
    session: Owned, command: Command, timeout: float | None, look: Callable[[Note], bool]
) -> Answer | None:
    """The owner's answer. None if the owner has ended without one, or `look` returns true.

    Raises SessionError if the owner's heartbeat has stopped, or `timeout` seconds have passed.
    """
    began = moved = time.monotonic()
    looked, beat = 0.0, None
    while True:
        if (answer := checkpoints.answer(session.folder, command.id)) is not None:
            return answer
        now = time.monotonic()
        if now - looked >= LOOK_SECONDS:
            looked = now
            note = owner(session)
            if not session.alive():
                return checkpoints.answer(session.folder, command.id)  # it may have come just before the end
            if look(note):
                return None
            if note.get("heartbeat") != beat:
                beat, moved = note.get("heartbeat"), now
            if now - moved > SILENT_SECONDS or (timeout is not None and now - began > timeout):
                _give_up(session, command, note, now - began, now - moved)
        time.sleep(POLL_SECONDS)


def refuse_idle(session: Owned, what: str) -> NoReturn:
    """Raise SessionError for a session without a running process, with its state and the ways out."""
    if isinstance(session, checkpoints.GroupReader):
        name = session.folder.name
        raise SessionError(
            f"No process runs the study {name}, so there is nothing to {what}. Continue it: "
            f"`htfl-sim {checkpoints.continues(session.folder)} {name}`."
        )
    name, done = checkpoints.typed(session.folder), max([0, *session.rounds()])
    how, remedy = {
        "finished": (
            f"it finished with round {done}",
            f"`htfl-sim resume {name} --rounds {done + 10}` extends it",
        ),
        "stopped": (f"it was stopped after round {done}", f"`htfl-sim resume {name}` continues it"),
    }.get(
        session.state(),
        (f"its run was interrupted after round {done}", f"`htfl-sim resume {name}` continues from there"),
    )
    raise SessionError(
        f"no process runs {session.folder}, so there is nothing to {what}: {how}. {remedy[0].upper()}{remedy[1:]}."
    )


def _give_up(session: Owned, command: Command, note: Note, waited: float, silent: float) -> NoReturn:
    heartbeat = note.get("heartbeat")
    if silent > min(STILL_SECONDS, SILENT_SECONDS):
        pulse = f"its heartbeat stands still at {heartbeat} for {silent:.0f} s"
        remedy = (
            f"If that machine is dead, take the session over: `htfl-sim resume {checkpoints.typed(session.folder)} "
            "--steal`. If the process hangs, end it and resume."
        )
    else:
        pulse = f"its heartbeat still moves, at {heartbeat} now ({progress(note)})"
        remedy = "It will be answered between two clients; wait longer with `timeout=60`."
    raise SessionError(
        f"no process answered within {waited:.0f} s: {session.folder} belongs to {holder(note)}; {pulse}. "
        f"The {command.kind} stays in the mailbox. {remedy}"
    )
