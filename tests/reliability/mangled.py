"""A disk, or whoever else writes there: files of a session flipped, cut, gone, exchanged, or something else.

`python -m tests.reliability.mangled FOLDER FIRST COUNT` tries so many keyed cases on a copy of `FOLDER/sessions` each,
in this one process: one file of `s` is mangled, `verify` looks at it, and it is resumed. It prints a JSON line for
every case that went wrong, and at the end how the others went.
"""

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.federations import committed
from tests.reliability.sessions import contents
from tests.reliability.strangers import Ended, call, faults, make_sessions

Mangle = Callable[[Path, random.Random], object]


def another(path: Path, dice: random.Random) -> Path:
    """Another file of the same session."""
    session = next(parent for parent in path.parents if parent.name == "s")
    return dice.choice([each for each in files(session) if each != path])


def files(session: Path) -> list[Path]:
    return sorted(path for path in session.rglob("*") if path.is_file())


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        bit = dice.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data or b"\x01")


def cut(path: Path, dice: random.Random) -> None:
    size = path.stat().st_size
    os.truncate(path, dice.randrange(size) if size else 0)


def lengthen(path: Path, dice: random.Random) -> None:
    """By a hole, as after a power cut on some file systems."""
    os.truncate(path, path.stat().st_size + dice.choice([1, 4096, 1 << 33]))


def delete(path: Path, dice: random.Random) -> None:
    remove(path)


def swap(path: Path, dice: random.Random) -> None:
    other = another(path, dice)
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


def duplicate(path: Path, dice: random.Random) -> None:
    """Under a new name beside it, or in the place of another file."""
    beside = path.with_name(
        dice.choice([f"{path.name}.bak", f"0{path.name}", f"{path.stem} (1){path.suffix}"])
    )
    shutil.copyfile(path, dice.choice([beside, another(path, dice)]))


def link(path: Path, dice: random.Random) -> None:
    """To a neighbour's file, to something outside, to itself, to nothing, or to its own bytes elsewhere."""
    sessions = next(parent for parent in path.parents if parent.name == "case")
    moved = sessions / "moved"
    inside = path.relative_to(sessions / "s")
    target = dice.choice(
        [sessions / "child" / inside, sessions / "outside", path, sessions / "nothing", moved]
    )
    path.rename(moved) if target == moved else remove(path)
    path.symlink_to(target)


def fifo(path: Path, dice: random.Random) -> None:
    remove(path)
    os.mkfifo(path)


def folder_for_file(path: Path, dice: random.Random) -> None:
    remove(path)
    path.mkdir()
    if dice.random() < 0.5:
        (path / "inside").write_bytes(b"x")


def file_for_folder(path: Path, dice: random.Random) -> None:
    remove(path)
    path.write_bytes(b"x")


OF_FILES: tuple[Mangle, ...] = (flip, cut, lengthen, delete, swap, duplicate, link, fifo, folder_for_file)
OF_FOLDERS: tuple[Mangle, ...] = (delete, link, fifo, file_for_folder)


def mangle(session: Path, dice: random.Random) -> str:
    """What was done to what. Every kind of file is as likely, however many there are of it."""
    found = sorted(path for path in session.rglob("*") if path.is_file() or path.is_dir())
    kinds = sorted({_kind(session, path) for path in found})
    kind = dice.choice(kinds)
    path = dice.choice([each for each in found if _kind(session, each) == kind])
    deed = dice.choice(OF_FOLDERS if path.is_dir() else OF_FILES)
    deed(path, dice)
    return f"{getattr(deed, '__name__', deed)} {path.relative_to(session)}"


def _kind(session: Path, path: Path) -> str:
    inside = path.relative_to(session)
    return inside.parts[0] if len(inside.parts) == 1 else f"{inside.parent.parts[0]}/*{path.suffix}"


def judged(found: Ended, resumed: Ended, same: bool) -> tuple[str, list[str]]:
    """How a case went, and what is wrong with that."""
    wrong = [f"verify: {fault}" for fault in faults(found)] + [
        f"resume: {fault}" for fault in faults(resumed)
    ]
    noticed = found.code != 0 or json.loads(found.out or "{}").get("findings")
    if resumed.code != 0:
        if not noticed:
            wrong.append("refused, and verify found nothing")
        return "refused", wrong
    if not same:
        wrong.append("other bits" + " after verify had found it" * bool(noticed))
    return "noticed, same bits" if noticed else "harmless", wrong


def case(base: Path, number: int, expected: Any) -> tuple[str, dict[str, Any] | None]:
    """One keyed case: how it went, and what was wrong, None when all went as it should."""
    dice = random.Random(f"mangled/{number}")
    sessions = base / "case"
    shutil.rmtree(sessions, ignore_errors=True)
    shutil.copytree(base / "sessions", sessions)
    (sessions / "outside").write_bytes(b"of somebody else")
    deed = mangle(sessions / "s", dice)
    before = contents(sessions / "child"), (sessions / "outside").read_bytes()
    found = call(sessions, ["verify", "s", "--json"])
    resumed = call(sessions, ["resume", "s"])
    same = resumed.code == 0 and committed(sessions / "s") == expected
    how, wrong = judged(found, resumed, same)
    if (contents(sessions / "child"), (sessions / "outside").read_bytes()) != before:
        wrong.append("a neighbour was changed")
    about = {
        "case": number,
        "deed": deed,
        "wrong": wrong,
        "verify": found.out[-400:],
        "said": resumed.err[-400:],
    }
    return how, about if wrong else None


def main(folder: str, first: str, count: str) -> None:
    base = Path(folder)
    if not (base / "sessions").exists():
        make_sessions(base, ("checkpoint", {}))
    shutil.rmtree(base / "alone", ignore_errors=True)
    shutil.copytree(base / "sessions", base / "alone")
    assert call(base / "alone", ["resume", "s"]).code == 0
    expected = committed(base / "alone" / "s")
    tally: Counter[str] = Counter()
    for number in range(int(first), int(first) + int(count)):
        how, wrong = case(base, number, expected)
        tally[how] += 1
        if wrong is not None:
            print(json.dumps(wrong), flush=True)
    print(json.dumps(tally), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HTFL_DATA", "/nonexistent")
    main(*sys.argv[1:])
