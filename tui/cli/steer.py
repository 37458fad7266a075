"""`htfl-sim pause`, `stop`, `checkpoint`, and `switch`: commands to a session that another process runs."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import htfl_sim as hs
from simulator.sessions.reader import CheckedReader
from tui.cli import completion, options, output
from tui.cli.options import Option, argument, flag
from tui.common.formatting import number

DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped", "checkpoint": "checkpoint written"}


def pause(
    session: options.SteerableArgument,
    waiting: options.Waiting,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Hold a running session: the clients at work finish, no other begins.

    It keeps its memory and its place in the round. `resume` continues it.
    A study's name pauses every session of it that runs.

    \b
    Examples
      htfl-sim pause mu07
      htfl-sim pause mu07 --no-wait
    """
    ask(hs.steering.pause, session, as_json, **asdict(waiting), sessions_dir=sessions_dir)


def stop(
    session: options.SteerableArgument,
    waiting: options.Waiting,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """End a running or paused session between two clients, with a checkpoint.

    Finished clients of the round are kept: `resume` does not train them again.
    A study's name stops its sweep and every session of it that runs.

    \b
    Examples
      htfl-sim stop mu07
      htfl-sim stop mu07 --timeout 60
    """
    ask(hs.steering.stop, session, as_json, **asdict(waiting), sessions_dir=sessions_dir)


CKA = "Also measure the CKA of the clients' models, layer by layer."
METHOD = "Method to continue with. Leave it out to change only settings, with --set."
AT_ROUND = "Switch after this round. Default: after the present round."


def checkpoint(
    session: options.SessionArgument,
    cka: Annotated[bool, flag(CKA, "--cka")] = False,
    round: Annotated[int | None, Option("Kept round to measure, with --cka.", metavar="R")] = None,
    *,
    waiting: options.Waiting,
    model: options.ModelFiles = (),
    places: options.Folders,
    as_json: options.AsJson = False,
) -> None:
    """Write a checkpoint of a running session now, with the finished clients of its round.

    With --cka it is written at the end of the round, whose record gets the
    CKA. If the session does not run, --cka measures the newest kept round.

    \b
    Examples
      htfl-sim checkpoint mu07
      kill -USR1 PID    asks for the same
      htfl-sim checkpoint mu07 --cka
      htfl-sim checkpoint mu07 --cka --round 40 --json > similarity.json
    """
    if round is not None and not cka:
        raise hs.ConfigError("--round belongs to --cka: a checkpoint is written of the last finished round.")
    if cka and (round is not None or not hs.steering.is_live(session, places.sessions_dir)):
        if model:
            hs.load_files(models=model)
        measured = hs.sessions.similarity(session, round, **asdict(places))
        folder = hs.sessions.folder_of(session, places.sessions_dir)
        _show_cka(hs.folders.name_of(folder), measured, as_json)
        return
    how = {**asdict(waiting), "sessions_dir": places.sessions_dir}
    reply = ask(hs.steering.checkpoint, session, as_json, cka=cka, **how)
    if cka and reply.round is not None and not as_json:
        record = CheckedReader(hs.sessions.folder_of(session, places.sessions_dir)).record(reply.round)
        _show_cka(reply.session, {"round": reply.round, **(record["cka"] or {})}, as_json)


def switch(
    session: options.SessionArgument,
    method: Annotated[str | None, argument("[METHOD]", completion.methods, METHOD)] = None,
    assignments: options.Assignments = (),
    at_round: Annotated[int | None, Option(AT_ROUND, least=0, metavar="R")] = None,
    *,
    waiting: options.Waiting,
    own: options.Own,
    places: options.Folders,
    as_json: options.AsJson = False,
) -> None:
    """Continue with another method, or other settings, from the next round.

    Client models stay. A live session switches at the end of its round.
    A stopped one is checked now and switches at the next resume. A method
    that the models cannot run is rejected and changes nothing. With
    --at-round R the switch waits, and round R + 1 is the first under it.

    \b
    Examples
      htfl-sim switch mu07 fedssa
      htfl-sim switch mu07 fedlora --set method.mu=0.5 --set training.lr=0.005
      htfl-sim switch mu07 --set rounds=200
      htfl-sim switch mu07 fedssa --at-round 50
    """
    own.load()
    change = {"method": method, "at_round": at_round, "assignments": assignments}
    ask(hs.steering.switch, session, as_json, **change, **asdict(waiting), **asdict(places))


def ask(
    command: "Callable[..., hs.steering.Reply]", session: str | Path, as_json: bool, **how: Any
) -> "hs.steering.Reply":
    """Send a command, wait as long as `how` says, and print the result."""
    with output.Ticker() as watch:
        reply = command(session, watch=watch, **how)
    if as_json:
        output.emit(asdict(reply))
        return reply
    applied = reply.outcome != "waiting"
    after = f" (after round {reply.round})" if applied and reply.kind in ("pause", "stop") else ""
    done = DONE.get(reply.kind, "switched") if applied else f"{reply.kind} requested"
    output.say(f"{reply.session}: {done}; {reply.message}{after}")
    return reply


def _show_cka(session: str, measured: dict[str, Any], as_json: bool) -> None:
    """The mean CKA over all pairs of clients per layer, shallow to deep; as JSON also the matrices."""
    heading = output.heading(f"CKA between clients of {session} after round {measured['round']}")
    rows = ([name, number(measured["layers"][name])] for name in measured["order"])
    table = output.table(["layer", ">mean over pairs"], rows)
    output.answer(as_json, {"session": session, **measured}, heading, table)
