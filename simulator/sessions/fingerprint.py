"""A session's fingerprint: equal for runs that give the same bits.

It covers the settings that change bits, the data, the code, the users' files, and the environment. It leaves out
settings that only say where a run computes, or what it keeps. A session that no longer
follows its settings has no fingerprint.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from checkpoints import DiskError, SessionUnreadable, canonical
from simulator.base.documents import Document, Event
from simulator.base.nested import Raw
from simulator.config import Config
from simulator.sessions.reader import CheckedReader

_NO_BITS = ("preset", "profile", "checkpoint", "runtime", "seed", "watch")
_PATHS = {
    "data": ("dataset", "indices", "public"),
    "system": ("device_file", "trace", "availability_file"),
    "method": ("generator_file",),
}
"""Settings that name data and files. Their contents count, and their paths do not."""


def fingerprint(config: Config, document: Document, weights: str | None) -> str:
    """The fingerprint (hex) of a new session with this session.json. weights: a digest of pretrained weights."""
    from simulator import runners
    from simulator.base.environment import COMPARED

    facts = document["environment"]
    on_cpu = str(facts["device"]).startswith("cpu")
    return _sha256(
        {
            "settings": settings_of(config.to_json()),
            "seeds": [config.init_seed, config.training_seed],
            "sums": runners.get(config.runtime.runner).sums(config.runtime),
            "data": [document["data_fingerprint"], document["inputs"]],
            "files": [document["plugin"], document["model_plugins"], document["files"]],
            "weights": weights,
            "environment": {fact: facts[fact] for fact in COMPARED if fact != "cpu" or on_cpu},
            "code": _code(),
        }
    )


def settings_of(config: Raw) -> Raw:
    """The settings of a complete configuration that change bits, without seeds and paths."""
    settings: Raw = {key: each for key, each in config.items() if key not in _NO_BITS}
    for section, paths in _PATHS.items():
        if section in settings:
            settings[section] = {key: each for key, each in settings[section].items() if key not in paths}
    return settings


def fingerprint_of(folder: Path) -> str | None:
    """The fingerprint of a session. None for a fork, after a switch, with inexact rounds, and of an older session.

    Raises SessionUnreadable or DiskError.
    """
    session = CheckedReader(folder)
    found = session.document.get("fingerprint")
    if found is None or session.parent is not None or any(map(_is_inexact, session.events())):
        return None
    if session.rounds() and len(session.manifest().history) > 1:
        return None
    return found


def finished_twin(wanted: str, folders: Iterable[Path]) -> Path | None:
    """The first finished session with this fingerprint. Unreadable sessions are skipped."""
    for folder in folders:
        try:
            session = CheckedReader(folder)
            is_twin = session.document.get("fingerprint") == wanted and session.state() == "finished"
            if is_twin and fingerprint_of(folder):
                return folder
        except (SessionUnreadable, DiskError):
            continue
    return None


def _is_inexact(event: Event) -> bool:
    return bool(event.get("inexact")) or any(node["inexact"] for node in event.get("nodes", []))


@cache
def _code() -> str:
    """A digest of the package that computes rounds, and of its devices."""
    package = Path(__file__).parents[1]
    found = hashlib.sha256()
    for file in sorted([*package.rglob("*.py"), package / "clock" / "devices.toml"]):
        found.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()


def _sha256(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
