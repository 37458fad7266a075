"""A session in a few facts, read without torch; damage becomes an error that names the session.

A listing of hundreds of sessions reads session.json, the newest checkpoint and the ledger's last line of each, no more.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, files
from checkpoints.layout import LEDGER
from checkpoints.seal import parse

TAIL = 1 << 16
"""Bytes first read from the end of a ledger; a line longer than that is read with four times as many."""


@dataclass(frozen=True)
class Summary:
    """One line of `htfl-sim sessions`. Accuracies are means over clients; `bytes` is the size on disk, if asked for.

    `parent` is {'id', 'name', 'round'} of the session it was forked from; `history` has the method and from which
    round on, once for every switch to another; `rounds` and `method` are those in force.
    """

    name: str
    path: str
    state: str
    id: str | None = None
    parent: dict[str, Any] | None = None
    method: str | None = None
    history: tuple[dict[str, Any], ...] = ()
    dataset: str | None = None
    round: int | None = None
    rounds: int | None = None
    accuracy: float | None = None
    best: float | None = None
    created: str | None = None
    bytes: int | None = None
    error: str | None = None

    @classmethod
    def read(cls, folder: Path, sized: bool = False) -> "Summary":
        """What a session came to; one that cannot be read is 'damaged' and says why."""
        here = cls(folder.name, str(folder), "damaged", bytes=size_on_disk(folder) if sized else None)
        try:
            return _summary(here, folder)
        except (SessionUnreadable, DiskError) as error:
            return cls(**asdict(here) | {"error": str(error)})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _summary(here: Summary, folder: Path) -> Summary:
    session = checkpoints.SessionReader(folder)
    manifest = session.manifest() if session.rounds() else None
    last = _last(folder, manifest)
    with well_formed(folder):
        document = session.document
        config = document["config"]
        history = manifest.history if manifest else []
        methods = _methods(history) or ({"from_round": 1, "method": config["method"]["name"]},)
        facts = {
            "state": session.state(),
            "id": document["id"],
            "parent": document["parent"],
            "method": methods[-1]["method"],
            "history": methods,
            "dataset": Path(config["data"]["dataset"]).name,
            "round": last["round"] if last else 0,
            "rounds": (history[-1] if history else {}).get("settings", config)["rounds"],
            "accuracy": last["accuracy"]["mean"] if last else None,
            "best": last["accuracy"]["best_mean"] if last else None,
            "created": document["created"],
        }
    return Summary(**asdict(here) | facts)


def _methods(history: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The history without the entries that changed settings of the same method."""
    found: list[dict[str, Any]] = []
    for entry in history:
        name = entry["method"]["name"]
        if not found or found[-1]["method"] != name:
            found.append({"from_round": entry["from_round"], "method": name})
    return tuple(found)


def _last(folder: Path, manifest: checkpoints.Manifest | None) -> dict[str, Any] | None:
    """The last round's record: the ledger's last line, unless that is torn or behind the newest checkpoint."""
    kept = manifest.record if manifest else None
    line = None
    with suppress(Damaged, FileNotFoundError):
        line = parse(_last_line(folder), LEDGER)
    if line is None or (kept and line.get("round", 0) < kept["round"]):
        return kept
    return line


def _last_line(folder: Path) -> bytes:
    """The last whole line of the ledger, without its end; empty when there is none."""
    with files.open_regular(folder, LEDGER) as fd:
        size, wanted = os.fstat(fd).st_size, TAIL
        while True:
            text = os.pread(fd, wanted, max(0, size - wanted))
            before, _, _ = text.rpartition(b"\n")
            if b"\n" in before or wanted >= size:
                return before.rpartition(b"\n")[2]
            wanted *= 4


@contextmanager
def well_formed(folder: Path) -> Iterator[None]:
    """Within it, JSON that is sound but not a session's raises Damaged instead of a KeyError."""
    try:
        yield
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise Damaged(
            f"{folder} is no session that htfl-sim wrote: its JSON lacks what belongs there ({error})."
        ) from error


def folders(folder: Path) -> list[Path]:
    """The sessions in a folder, also those that lost their session.json."""
    if not folder.is_dir():
        return []
    orphans = {path for path in folder.iterdir() if (path / "manifests").is_dir()}
    return sorted(orphans | set(checkpoints.sessions(folder)))


def size_on_disk(folder: Path) -> int:
    """Bytes in the files of a folder, links not followed. A file that vanishes meanwhile does not count."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += size_on_disk(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total
