"""A session's fingerprint: equal for runs that give the same bits. Covers settings, data, code, files, and environment.

Settings that only say where a run computes, or what it keeps, do not count.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import checkpoints
from checkpoints import DiskError, SessionUnreadable, canonical
from simulator.base.documents import Document
from simulator.base.environment import COMPARED, changed_code
from simulator.base.nested import Raw
from simulator.config import Config
from simulator.config.user_files import PATHS
from simulator.sessions.reader import CheckedReader

_NO_BITS = ("preset", "profile", "checkpoint", "runtime", "seed", "watch")
_NAMES = (("data", "dataset"), ("data", "public"), *PATHS.values())
"""Settings that name data and files. Their contents count, and their paths do not."""


def fingerprint(config: Config, document: Document, weights: str | None) -> str:
    """The fingerprint (hex) of a new session with this session.json. weights: a digest of pretrained weights."""
    from simulator import runners

    facts = document["environment"]
    on_cpu = str(facts["device"]).startswith("cpu")
    covered = {
        "settings": settings_of(config.to_json()),
        "seeds": [config.init_seed, config.training_seed],
        "sums": runners.get(config.runtime.runner).sums(config.runtime),
        "data": [document["data_fingerprint"], document["inputs"]],
        "files": [document["plugin"], document["model_plugins"], document["files"]],
        "weights": weights,
        "environment": {
            fact: facts[fact] for fact in COMPARED if fact in facts and (fact != "cpu" or on_cpu)
        },
        "method files": document["method_files"],
    }
    return hashlib.sha256(canonical(covered)).hexdigest()


def settings_of(config: Raw) -> Raw:
    """The settings of a complete configuration that change bits, without seeds and paths."""
    settings: Raw = {key: each for key, each in config.items() if key not in _NO_BITS}
    for section, name in _NAMES:
        if section in settings:
            settings[section] = {key: each for key, each in settings[section].items() if key != name}
    return settings


def fingerprint_of(folder: Path) -> str | None:
    """The fingerprint of a session. None for a fork, after a switch, with inexact rounds, and of an older session."""
    session = CheckedReader(folder)
    found = session.document.get("fingerprint")
    if found is None or session.parent is not None:
        return None
    for event in session.events():
        if event.get("inexact") or any(node["inexact"] for node in event.get("nodes", [])):
            return None
    newest = session.newest()
    return None if newest and len(newest.history) > 1 else found


def finished_twin(wanted: Document, folders: Iterable[Path]) -> tuple[Path | None, list[str]]:
    """The first finished, sound session with the fingerprint of this session.json, and why others are not used."""
    said = []
    for folder in dict.fromkeys(folders):
        with suppress(SessionUnreadable, DiskError):
            session = CheckedReader(folder)
            is_twin = session.document.get("fingerprint") == wanted["fingerprint"]
            differs = [] if is_twin else _other_code(session.document, wanted)
            if not (is_twin or differs) or session.state() != "finished" or not fingerprint_of(folder):
                continue
            name = checkpoints.name_of(folder)
            if differs:
                said.append(
                    f"{name} has the same settings and data, but was made with other code ({'; '.join(differs)}). "
                    "So this run is computed."
                )
            elif damage := next(
                (each for each in checkpoints.verify(folder) if each.severity == "damage"), None
            ):
                said.append(
                    f"{name} is an identical run, but it is damaged, so this run is computed: {damage.message}"
                )
            else:
                return folder, said
    return None, said


def _other_code(made: Document, wanted: Document) -> list[str]:
    """What differs in the code and files of a session with the same settings and data; empty for all other sessions."""
    if settings_of(made["config"]) != settings_of(wanted["config"]):
        return []
    if any(made.get(key) != wanted.get(key) for key in ("parent", "data_fingerprint", "inputs")):
        return []
    if made["config"]["seed"] != wanted["config"]["seed"]:
        return []
    then, now = (
        {(file["kind"], file["name"]): file["sha256"] for file in each.get("files", [])}
        for each in (made, wanted)
    )
    return [
        *changed_code(made["environment"], made.get("method_files", {}), wanted["environment"]),
        *(
            f"{kind} file {name} {sha256[:12]} → {now.get((kind, name), 'none')[:12]}"
            for (kind, name), sha256 in then.items()
            if now.get((kind, name)) != sha256
        ),
    ]
