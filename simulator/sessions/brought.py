"""The files of a user's own that a session was made with: their names and SHA-256, held to when it goes on.

Of model and metric files only the names are kept: whoever goes on names the files again, as with plugins. The paths of
a partition, of the clock's files, and of a generator are settings.
"""

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from simulator.base import own_files
from simulator.base.documents import OwnFile
from simulator.base.environment import METHOD_FILES
from simulator.base.errors import SessionError
from simulator.base.reading import sha256_of
from simulator.config import Config
from simulator.config.user_files import PATHS
from simulator.methods import plugins, registry
from simulator.metrics import user_metrics as metrics
from simulator.models import members
from simulator.models import user_models as models
from simulator.selection import user_selection


def recorded(config: Config) -> list[OwnFile]:
    """What a session keeps about the files that its configuration needs, as plain JSON values."""
    files = [*models.origins(members(config.federation.group)), *metrics.origins(config.evaluation.metrics)]
    files += user_selection.origins(config.selection.strategy)
    return [*map(_noted, files), *_at_paths(_paths(config.to_json()))]


def needed(config: Config) -> list[OwnFile]:
    """The same, with the plugins that its method and models come from, each file once."""
    own = plugins.recorded(config.method.name)
    found = [
        each for each in (own, *plugins.recorded_models(members(config.federation.group)).values()) if each
    ]
    files: list[OwnFile] = [{"kind": "plugin", **each} for each in found]
    files += recorded(config)
    return [file for number, file in enumerate(files) if file not in files[:number]]


def method_files(method: str) -> dict[str, str]:
    """The SHA-256 of each of htfl-sim's own files that this method's code is in, by name, also of a plugin's method."""
    room = "simulator.methods."
    waiting = [kind.__module__ for kind in registry.get(method).__mro__]
    seen = set[str]()
    found: dict[str, str] = {}
    while waiting:
        module = waiting.pop()
        file = f"{module.removeprefix(room)}.py"
        if module in seen or (module.startswith("simulator.") and file not in METHOD_FILES):
            continue  # what all methods share is of the program
        seen.add(module)
        if module.startswith(room):
            found[file] = METHOD_FILES[file]
        with suppress(KeyError, OSError, TypeError):  # a class from a notebook's cell has no file
            names = own_files.imported(inspect.getsource(sys.modules[module]).encode(), room[:-1])
            waiting += [name for name in names if name.startswith(room)]
    return dict(sorted(found.items()))


def check(folder: Path, config: Mapping[str, Any], made_with: Sequence[OwnFile]) -> None:
    """Raise SessionError unless every file a session was made with is there, or loaded, and the same bytes.

    `config` has the paths of the files that settings name.
    """
    paths = _paths(config)
    for file in made_with:
        kind, name, sha256 = file["kind"], file["name"], file["sha256"]
        if kind in PATHS:
            present = next(_at_paths({kind: paths[kind]} if kind in paths else {}), None)
            remedy = f"put it back to {paths.get(kind)}"
        else:
            loaded = own_files.loaded(kind, name)  # type: ignore[arg-type]
            present = _noted(loaded) if loaded else None
            remedy = f"add `{kind}={name}`"
        if present is None:
            raise SessionError(f"{folder} was made with the {kind} file {name}, which is not here; {remedy}.")
        if not own_files.is_same(sha256, present["sha256"]):
            raise SessionError(
                f"{folder}: the {kind} file {name} is not the one this session was made with (sha256 "
                f"{sha256[:12]}…, not {present['sha256'][:12]}…), or a local file that it imports changed. Give the "
                "original, or start a new session."
            )


def _noted(file: own_files.OwnFile) -> OwnFile:
    return {"kind": file.kind, "name": file.name, "sha256": file.sha256}


def _paths(config: Mapping[str, Any]) -> dict[str, str]:
    found = {kind: (config.get(section) or {}).get(key) for kind, (section, key) in PATHS.items()}
    return {kind: str(path) for kind, path in found.items() if path is not None}


def _at_paths(paths: Mapping[str, str]) -> Iterator[OwnFile]:
    for kind, path in paths.items():
        if os.path.exists(path):  # noqa: PTH110 - Path raises for a long name
            sha256 = sha256_of(Path(path), f"the {kind} file {path}", SessionError)
            yield {"kind": kind, "name": Path(path).name, "sha256": sha256}
