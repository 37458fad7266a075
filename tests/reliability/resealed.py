"""A stranger who seals what he writes: JSON that says anything, with every hash in order.

`python -m tests.reliability.resealed FOLDER KIND FIRST COUNT` tries so many keyed cases on a copy of `FOLDER/sessions`
each, with one command of the kind ('reading', which needs no torch, or 'running'), in this one process. It prints a
JSON line for every case that went wrong, and at the end the most memory it ever had, in MB: with COUNT 0 that of the
commands on sound sessions.
"""

import json
import os
import random
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.ledger import LineWriter
from checkpoints.schema import canonical, seal, unseal
from tests.reliability.strangers import call, faults

STOP_AFTER = 2.0
"""A run is asked to stop then: that it was told to run a million rounds is no fault."""

Commands = dict[str, list[list[str]]]
COMMANDS: Commands = {
    "reading": [
        ["show", "s"],
        ["show", "s", "--json"],
        ["show", "s", "--round=2"],
        ["show", "child"],
        ["sessions"],
        ["sessions", "--json", "--size"],
        ["verify", "s"],
        ["verify", "s", "--json"],
        ["prune", "s", "--dry-run"],
        ["prune", "s", "--keep-last=1"],
        ["pause", "s", "--timeout=0"],
        ["stop", "s", "--no-wait"],
        ["checkpoint", "s", "--timeout=0"],
    ],
    "running": [
        ["resume", "s"],
        ["resume", "s", "--rounds=5", "--json"],
        ["resume", "child"],
        ["fork", "s", "--at-round=1", "--session=new"],
        ["fork", "s", "--at-round=3", "--session=new", "--run"],
        ["fork", "child", "--at-round=2", "--session=new", "--method=fedavg"],
        ["switch", "s", "fedprox"],
        ["switch", "s", "fedssa", "--set=training.lr=0.5"],
        ["checkpoint", "s", "--cka"],
        ["checkpoint", "s", "--cka", "--round=3", "--json"],
    ],
}
TEXTS = [
    "",
    "x",
    "\x1b[2J\x9b31m\x07",
    "../../../etc/passwd",
    "\u202e",
    "\ud800",
    "9" * 400,
    "x" * 70_000,
    "\n",
    "null",
]
NUMBERS = [0, -1, 1, 2, 3, 7, 10**6, 2**31, 2**63, 10**299, 0.5, -0.5, 1e308, -1e308, 5e-324]
ODD: list[Any] = [None, True, False, [], {}, [[]], {"": {}}, [None] * 3, *TEXTS, *NUMBERS]


def hostile(dice: random.Random) -> Any:
    """A value that does not belong anywhere; now and then a large one."""
    match dice.randrange(24):
        case 0:
            return [0] * 400_000
        case 1:
            return {str(number): {} for number in range(50_000)}
        case 2:
            return deep(dice.choice([50, 600]))
        case _:
            return dice.choice(ODD)


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def altered(value: Any, dice: random.Random) -> Any:
    """The same JSON with one or two places that say something else."""
    for _ in range(dice.choice([1, 1, 2])):
        found = list(places(value))
        if not found:
            return hostile(dice)
        *way, last = dice.choice(found)
        holder = value
        for key in way:
            holder = holder[key]
        match dice.randrange(8):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.extend([holder[last]] * dice.choice([1, 2, 1000]))
            case 1:
                holder[dice.choice(TEXTS)] = holder[last]
            case 2:
                *other, key = dice.choice(found)
                source: Any = value
                try:
                    for step in other:
                        source = source[step]
                    holder[last] = json.loads(json.dumps(source[key]))
                except (KeyError, IndexError, TypeError):
                    continue
            case _:
                holder[last] = hostile(dice)
    return value


def tamper(session: Path, dice: random.Random) -> str:
    """Let one file of a session say something else, and everything that vouches for it agree; which file it was."""
    lines = [json.loads(line) for line in (session / "ledger.jsonl").read_bytes().splitlines()]
    sealed = [
        path
        for path in sorted(session.rglob("*.json"))
        if path.parent.name in (session.name, "manifests", "partial", "inbox", "done", "control")
    ]
    # The files that say most come most often.
    likely = [path for path in sealed if path.name == "session.json" or path.parent.name == "manifests"]
    target = dice.choice([*sealed, *likely, *likely, "ledger", "ledger", "ledger", "events"])
    if target == "ledger":
        number = dice.randrange(len(lines))
        lines[number] = altered(lines[number], dice)
        write_ledger(session, lines)
    elif target == "events":
        path = session / "events.jsonl"
        events = [unseal(line, "") for line in path.read_bytes().splitlines(keepends=True)]
        number = dice.randrange(len(events))
        events[number] = altered(events[number], dice)
        path.write_bytes(b"".join(map(reseal, events)))
    else:
        assert isinstance(target, Path)
        document = altered(unseal(target.read_bytes(), ""), dice)
        target.write_bytes(reseal(document))
    if target != session / "owner.json":
        close(session)
    return target if isinstance(target, str) else target.relative_to(session).as_posix()


def write_ledger(session: Path, lines: list[Any]) -> None:
    """The ledger, and in every checkpoint its hash and its own record."""
    whole = [canonical(line) + b"\n" if isinstance(line, dict) else b"0\n" for line in lines]
    (session / "ledger.jsonl").write_bytes(b"".join(whole))
    for path in (session / "manifests").iterdir():
        manifest = unseal(path.read_bytes(), "")
        (session / "ledger.jsonl").write_bytes(b"".join(whole[: manifest["round"] - 1]))
        prefix = LineWriter(session, "ledger.jsonl").prefix
        manifest["ledger"] = {"bytes": prefix.bytes, "sha256": prefix.sha256}
        manifest["record"] = lines[manifest["round"] - 1]
        path.write_bytes(reseal(manifest))
    (session / "ledger.jsonl").write_bytes(b"".join(whole))


def close(session: Path) -> None:
    """Have the owner's last note vouch for the ledger and the events as they are."""
    note = unseal((session / "owner.json").read_bytes(), "")
    for key, name in (("ledger", "ledger.jsonl"), ("events", "events.jsonl")):
        prefix = LineWriter(session, name).prefix
        note[key] = {"bytes": prefix.bytes, "sha256": prefix.sha256}
    (session / "owner.json").write_bytes(reseal(note))


def reseal(document: Any) -> bytes:
    if not isinstance(document, dict):
        return canonical(document) + b"\n"
    document.pop("sha256", None)
    return seal(document)


@contextmanager
def stopped_in_time(sessions: Path) -> Iterator[None]:
    """Runs begun within it are asked to stop after a while."""
    done = threading.Event()

    def ask() -> None:
        while not done.wait(STOP_AFTER):
            for session in ("s", "child", "new"):
                try:
                    checkpoints.post(sessions / session, "stop")
                except Exception:  # there is none, or none that can be written to
                    continue

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        done.set()
        asking.join()


def case(base: Path, kind: str, number: int) -> dict[str, Any] | None:
    """One keyed case; None when all went as it should."""
    dice = random.Random(f"{kind}/{number}")
    sessions = base / "case"
    shutil.rmtree(sessions, ignore_errors=True)
    shutil.copytree(base / "sessions", sessions)
    target = dice.choice(["s", "s", "s", "child"])
    file = tamper(sessions / target, dice)
    command = dice.choice(COMMANDS[kind])
    with stopped_in_time(sessions):
        ended = call(sessions, command)
    wrong = faults(ended)
    if not wrong:
        return None
    return {
        "case": number,
        "file": f"{target}/{file}",
        "command": command,
        "wrong": wrong,
        "said": ended.err[-400:],
    }


def main(folder: str, kind: str, first: str, count: str) -> None:
    base = Path(folder)
    sys.setrecursionlimit(1000)
    for number in range(int(first), int(first) + int(count)):
        if (wrong := case(base, kind, number)) is not None:
            print(json.dumps(wrong), flush=True)
    if int(count) == 0:
        for command in COMMANDS[kind]:
            shutil.rmtree(base / "case", ignore_errors=True)
            shutil.copytree(base / "sessions", base / "case")
            ended = call(base / "case", command)
            assert ended.code in (0, 2, 4), (command, ended.err)
    print(json.dumps({"megabytes": peak(), "torch": "torch" in sys.modules}), flush=True)


def peak() -> int:
    """The most memory this process has had, in MB.

    Not `ru_maxrss`: that begins with what the process had that started this one.
    """
    status = Path("/proc/self/status").read_text("ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1000  # type: ignore[index]


if __name__ == "__main__":
    os.environ.setdefault("HTFL_DATA", "/nonexistent")
    main(*sys.argv[1:])
