"""What both fuzzers share: sessions that have lived, commands on them in this process, and how none may end."""

import io
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import checkpoints

CODES = {0, 2, 3, 4, 5, 6, 130, 141, 143}
SECONDS = 600
"""More of the processor's time no command takes; what others do on the machine must not count."""
SWITCH: tuple[str, dict[str, Any]] = ("switch", {"method": None, "set": ["training.lr=0.02"]})


class Ended(NamedTuple):
    """How a command ended, what it wrote, and the processor's time that it took."""

    code: int
    out: str
    err: str
    seconds: float


def make_sessions(folder: Path, *waiting: tuple[str, dict[str, Any]]) -> None:
    """`sessions/s`: switched, measured, stopped within its fourth round, with these commands waiting; and its fork."""
    from simulator.engine.progress import ClientTrained, Event, RoundFinished
    from simulator.sessions.session import Session
    from tests.cli.conftest import TINY

    sessions = folder / "sessions"
    made = call(sessions, ["run", *TINY, "--method=fedlora", "--rounds=1", "--session=s"])
    assert made.code == 0, made.err

    def operate(event: Event) -> None:
        match event:
            case RoundFinished(record) if record["round"] == 2:
                checkpoints.post(sessions / "s", "checkpoint", {"cka": True})
            case ClientTrained(4, _, 1):
                checkpoints.post(sessions / "s", "stop")

    checkpoints.post(sessions / "s", "switch", {"method": "fedssa", "set": ["rounds=6"]})
    Session.resume(sessions / "s", folder).run(operate)
    forked = call(sessions, ["fork", "s", "--at-round=2", "--session=child", "--set=training.lr=0.02"])
    assert forked.code == 0, forked.err
    for kind, arguments in waiting:
        checkpoints.post(sessions / "s", kind, arguments)


def call(sessions: Path, command: list[str]) -> Ended:
    """One command line in this process, on the sessions of that folder."""
    from tui.cli import main

    began = time.process_time()
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main([*command, "--sessions-dir", str(sessions)])
    return Ended(code, out.getvalue(), err.getvalue(), time.process_time() - began)


def faults(ended: Ended) -> list[str]:
    """What is wrong with how a command ended, whatever it was given."""
    said = ended.out + ended.err
    found = []
    if ended.code not in CODES:
        found.append(f"exit code {ended.code}")
    if "Traceback" in said or "a bug in" in said:
        found.append("a bug")
    if ended.code and not said.strip():
        found.append("not a word")
    if any(not char.isprintable() and char != "\n" for char in said):
        found.append("control characters")
    if ended.seconds > SECONDS:
        found.append(f"{ended.seconds:.0f} s")
    return found
