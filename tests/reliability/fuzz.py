"""Sessions that a disk or a stranger changed, commands on them in this process, and how none may end.

`python -m tests.reliability.fuzz FOLDER KIND FIRST COUNT` tries so many keyed cases, each on a copy of
`FOLDER/sessions`. KIND 'mangled': one file of `s` is flipped, cut, gone, exchanged, or something else; `verify` looks
at it, and it is resumed. 'reading' and 'running': JSON says anything, with every hash in order, and one command runs
that reads (and needs no torch) or that trains. It prints a JSON line for every case that went wrong. The last line
says how the others went, and the most memory the process ever had: with COUNT 0 that of the commands on sound sessions.
"""

import io
import json
import os
import random
import re
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import checkpoints
from checkpoints.ledger import LineWriter
from checkpoints.schema import canonical, seal, unseal
from tests.reliability.sessions import contents

CODES = {0, 2, 3, 4, 5, 6, 130, 141, 143}
SECONDS = 600
"""More of the processor's time no command takes; what others do on the machine must not count."""
STOP_AFTER = 2.0
"""A run is asked to stop then: that it was told to run a million rounds is no fault."""
COMMANDS = {
    "reading": [
        "show s", "show s --json", "show s --round=2", "show child", "sessions", "sessions --json --size",
        "verify s", "verify s --json", "prune s --dry-run", "prune s --keep-last=1", "pause s --timeout=0",
        "stop s --no-wait", "checkpoint s --timeout=0",
    ],
    "running": [
        "resume s", "resume s --rounds=5 --json", "resume child", "fork s --at-round=1 --session=new",
        "fork s --at-round=3 --session=new --run", "fork child --at-round=2 --session=new --method=fedavg",
        "switch s fedprox", "switch s fedssa --set=training.lr=0.5", "checkpoint s --cka",
        "checkpoint s --cka --round=3 --json",
    ],
}  # fmt: skip


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
    checks = {
        f"exit code {ended.code}": ended.code not in CODES,
        "a bug": "Traceback" in said or "a bug in" in said,
        "not a word": ended.code and not said.strip(),
        "control characters": any(not char.isprintable() and char != "\n" for char in said),
        f"{ended.seconds:.0f} s": ended.seconds > SECONDS,
    }
    return [fault for fault, found in checks.items() if found]


# Mangled files


def bits(session: Path) -> Any:
    from tests.federations import committed

    return committed(session)


OF_FILES = ("flip", "cut", "lengthen", "delete", "swap", "duplicate", "link", "fifo", "folder")
OF_FOLDERS = ("delete", "link", "fifo", "file")


def mangle(session: Path, dice: random.Random) -> str:
    """What was done to what. Every kind of file is as likely, however many there are of it."""

    def kind(path: Path) -> str:
        inside = path.relative_to(session)
        return inside.parts[0] if len(inside.parts) == 1 else f"{inside.parts[0]}/*{path.suffix}"

    found = sorted(path for path in session.rglob("*") if path.is_file() or path.is_dir())
    wanted = dice.choice(sorted(set(map(kind, found))))
    path = dice.choice([each for each in found if kind(each) == wanted])
    other = dice.choice([each for each in found if each.is_file() and each != path])
    deed = dice.choice(OF_FOLDERS if path.is_dir() else OF_FILES)
    inside, data = path.relative_to(session), bytearray(b"" if path.is_dir() else path.read_bytes())
    if deed in ("delete", "fifo", "folder", "file"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    match deed:
        case "flip":
            bit = dice.randrange(8 * len(data)) if data else 0
            data = data or bytearray(1)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
        case "cut":
            os.truncate(path, dice.randrange(len(data)) if data else 0)
        case "lengthen":  # by a hole, as after a power cut on some file systems
            os.truncate(path, len(data) + dice.choice([1, 4096, 1 << 33]))
        case "swap":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case "duplicate":
            name = dice.choice([f"{path.name}.bak", f"0{path.name}", f"{path.stem} (1){path.suffix}"])
            dice.choice([path.with_name(name), other]).write_bytes(data)
        case "link":
            near = session.parent
            moved = near / "moved"
            places = [near / "child" / inside, near / "outside", path, near / "nothing", moved]
            path.rename(moved)
            path.symlink_to(dice.choice(places))
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
            if dice.random() < 0.5:
                (path / "inside").write_bytes(b"x")
        case "file":
            path.write_bytes(b"x")
    return f"{deed} {inside}"


def mangled(sessions: Path, dice: random.Random, expected: Any) -> tuple[str, dict[str, Any]]:
    """How it went, and what is wrong with that: `verify` notices, and a resume refuses or gives the same bits."""
    (sessions / "outside").write_bytes(b"of somebody else")
    deed = mangle(sessions / "s", dice)
    before = contents(sessions / "child"), (sessions / "outside").read_bytes()
    found, resumed = call(sessions, ["verify", "s", "--json"]), call(sessions, ["resume", "s"])
    wrong = [f"verify: {fault}" for fault in faults(found)]
    wrong += [f"resume: {fault}" for fault in faults(resumed)]
    noticed = found.code != 0 or json.loads(found.out or "{}").get("findings")
    how = "refused" if resumed.code else "noticed, same bits" if noticed else "harmless"
    if resumed.code and not noticed:
        wrong.append("refused, and verify found nothing")
    if not resumed.code and bits(sessions / "s") != expected:
        wrong.append("other bits" + " after verify had found it" * bool(noticed))
    if (contents(sessions / "child"), (sessions / "outside").read_bytes()) != before:
        wrong.append("a neighbour was changed")
    about = {"deed": deed, "verify": found.out[-400:], "said": resumed.err[-400:]}
    return how, {"wrong": wrong, **about}


# JSON that says anything, sealed

TEXTS = [
    "", "x", "\x1b[2J\x9b31m\x07", "../../../etc/passwd", "\u202e", "\ud800", "9" * 400, "x" * 70_000, "\n", "null",
]  # fmt: skip
NUMBERS = [0, -1, 1, 2, 3, 7, 10**6, 2**31, 2**63, 10**299, 0.5, -0.5, 1e308, -1e308, 5e-324]
ODD: list[Any] = [None, True, False, [], {}, [[]], {"": {}}, [None] * 3, *TEXTS, *NUMBERS]


def hostile(dice: random.Random) -> Any:
    """A value that does not belong anywhere; now and then a large or a deep one."""
    match dice.randrange(24):
        case 0:
            return [0] * 400_000
        case 1:
            return {str(number): {} for number in range(50_000)}
        case 2:
            value: Any = []
            for _ in range(dice.choice([50, 600])):
                value = [value]
            return value
        case _:
            return dice.choice(ODD)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def altered(value: Any, dice: random.Random) -> Any:
    """The same JSON with one or two places that say something else."""
    for _ in range(dice.choice([1, 1, 2])):
        found = list(places(value))
        if not found:
            return hostile(dice)
        *way, last = dice.choice(found)
        holder = at(value, tuple(way))
        match dice.randrange(8):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.extend([holder[last]] * dice.choice([1, 2, 1000]))
            case 1:
                holder[dice.choice(TEXTS)] = holder[last]
            case 2:
                holder[last] = json.loads(json.dumps(at(value, dice.choice(found))))
            case _:
                holder[last] = hostile(dice)
    return value


def tamper(session: Path, dice: random.Random) -> str:
    """Let one file of a session say something else, and everything that vouches for it agree; which file it was."""
    lines = [json.loads(line) for line in (session / "ledger.jsonl").read_bytes().splitlines()]
    folders = (session.name, "manifests", "partial", "inbox", "done", "control")
    sealed = [path for path in sorted(session.rglob("*.json")) if path.parent.name in folders]
    # The files that say most come most often.
    likely = [path for path in sealed if path.name == "session.json" or path.parent.name == "manifests"]
    target = dice.choice(
        [*sealed, *likely, *likely, *[session / "ledger.jsonl"] * 3, session / "events.jsonl"]
    )
    if target.name == "ledger.jsonl":
        number = dice.randrange(len(lines))
        lines[number] = altered(lines[number], dice)
        write_ledger(session, lines)
    elif target.name == "events.jsonl":
        events = [unseal(line, "") for line in target.read_bytes().splitlines(keepends=True)]
        number = dice.randrange(len(events))
        events[number] = altered(events[number], dice)
        target.write_bytes(b"".join(map(reseal, events)))
    else:
        target.write_bytes(reseal(altered(unseal(target.read_bytes(), ""), dice)))
    if target.name != "owner.json":
        close(session)
    return target.relative_to(session.parent).as_posix()


def write_ledger(session: Path, lines: list[Any]) -> None:
    """The ledger, and in every checkpoint its hash and its own record."""
    whole = [canonical(line) + b"\n" if isinstance(line, dict) else b"0\n" for line in lines]
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


def resealed(sessions: Path, dice: random.Random, kind: str) -> tuple[str, dict[str, Any]]:
    target = dice.choice(["s", "s", "s", "child"])
    file = tamper(sessions / target, dice)
    command = dice.choice(COMMANDS[kind])
    with stopped_in_time(sessions):
        ended = call(sessions, command.split())
    return "ended", {"wrong": faults(ended), "file": file, "command": command, "said": ended.err[-400:]}


def fresh(base: Path) -> Path:
    """A copy of the sessions, to be spoiled."""
    shutil.rmtree(base / "case", ignore_errors=True)
    return Path(shutil.copytree(base / "sessions", base / "case"))


def main(folder: str, kind: str, first: str, count: str) -> None:
    base, tally, expected = Path(folder), Counter[str](), None
    sys.setrecursionlimit(1000)
    if kind == "mangled":
        sound = fresh(base)
        assert call(sound, ["resume", "s"]).code == 0
        expected = bits(sound / "s")
    for number in range(int(first), int(first) + int(count)):
        dice, sessions = random.Random(f"{kind}/{number}"), fresh(base)
        how, about = (
            mangled(sessions, dice, expected) if kind == "mangled" else resealed(sessions, dice, kind)
        )
        tally[how] += 1
        if about["wrong"]:
            print(json.dumps({"case": number, **about}), flush=True)
    for command in COMMANDS[kind] if int(count) == 0 else ():
        ended = call(fresh(base), command.split())
        assert ended.code in (0, 2, 4), (command, ended.err)
    # Not `ru_maxrss`: that begins with what the process had that started this one.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert peak is not None
    megabytes = int(peak[1]) // 1000
    print(json.dumps({"tally": tally, "megabytes": megabytes, "torch": "torch" in sys.modules}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HTFL_DATA", "/nonexistent")
    main(*sys.argv[1:])
