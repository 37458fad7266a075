"""What to type for a session's very results."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import checkpoints
import presets
from simulator.base.documents import Entry, Parent
from simulator.base.nested import ALTERNATIVES, Raw, flattened, toml_value, with_method
from simulator.config.user_files import GROUP, METRICS, SELECTION, Files
from simulator.sessions.reader import CheckedReader, parent_folder

_BARE = "quickstart"  # what `run` runs where neither a preset nor a file is named
_NOT_SET = ("preset", "profile", "seed", "method.name", "runtime.device", "runtime.workers")
_PARTITION = ("data.partition", "data.indices")


def command_lines(folder: Path) -> list[str]:
    """The commands that give a session again: the run, and for every fork and switch since, a fork at its round.

    Forks, because a switch takes hold whenever it arrives, and a fork at the round that is named. Files of the user's
    own are called as they were, without their folders: the commands are for the folder in which they lie. Loads the
    methods, and with them torch. Raises SessionUnreadable, DiskError or ConfigError.
    """
    session = CheckedReader(folder)
    document, parent = session.document, session.parent
    config, files = document["config"], _files(document)
    newest = session.newest()
    history = newest.history if newest else []
    name = f"{folder.name}-again"
    if parent is None:
        lines = [_run(config, name, files)]
        later: Sequence[Entry] = history[1:]
    else:
        common, later = _split(history, parent["round"], config)
        before, needed, named = config, files, parent["name"]
        if origin := parent_folder(cast(Parent, parent), checkpoints.sessions_folder(folder)):
            there, named = CheckedReader(origin), checkpoints.name_of(origin)
            before = there.document["config"]
            # A fork opens its parent as the parent's last round left it.
            last = there.newest()
            needed = _files(there.document, *(last.history[-1:] if last else [])) | files
        start = before | ({"method": common["method"], **common["settings"]} if common else {})
        lines = [_fork(named, parent["round"], name, start, config, needed)]
    present = config
    for number, entry in enumerate(later, 2):
        after = present | {"method": entry["method"], **entry["settings"]}
        needed, files = files | _files(entry), _files({**document, **entry})
        new = f"{folder.name}-again-{number}"
        lines.append(_fork(name, entry["from_round"] - 1, new, present, after, needed))
        name, present = new, after
    return lines


def _files(*said: Mapping[str, Any]) -> Files:
    """The files that a session's document, or entries of its history, name."""
    from simulator.methods.registry import installed_files

    found: dict[str, list[str]] = {"plugin": [], "model": [], "metric": [], "selection": []}
    for each in said:
        for plugin in (each.get("plugin"), *each.get("model_plugins", {}).values()):
            if plugin and plugin["name"] not in installed_files():  # nobody names the file of a package
                found["plugin"].append(plugin["name"])
        for file in each.get("files", []):
            if file["kind"] in found:
                found[file["kind"]].append(file["name"])
    return Files() | Files(*map(tuple, found.values()))


def _split(history: Sequence[Entry], round: int, config: Raw) -> tuple[Entry | None, Sequence[Entry]]:
    """What was in force where a session branched off, and what changed after it had begun with `config`."""
    common = [entry for entry in history if entry["from_round"] <= max(round, 1)]
    own = history[len(common) :]
    if own and own[0]["method"] == config["method"]:
        own = own[1:]
    return (common[-1] if common else None), own


def _run(config: Raw, name: str, files: Files) -> str:
    profile, preset = config.get("profile"), str(config.get("preset") or _BARE)
    chosen, base = list[str](), presets.load(_BARE, presets.PAPER).config
    if preset in presets.names() and preset != _BARE:
        chosen = ["--preset", preset, *(["--profile", str(profile)] if profile else [])]
        base = presets.load(preset, profile or presets.PAPER).config
    own, said = _own_words(config, files)
    plugins = Files(files.plugins).options()
    changes = _changes(base, config, said)
    return shlex.join(["htfl-sim", "run", "--session", name, *plugins, *chosen, *own, *changes])


def _own_words(config: Raw, files: Files) -> tuple[list[str], list[str]]:
    """The options that name the files of a run and what is in them, and the settings that these say."""
    words, said, flat = [], [], flattened(config)
    if files.models:
        group = flat[GROUP]
        for model in group if isinstance(group, list) else [group]:
            prefix, colon, called = model.partition(":")  # mynets:MyNet was named as mynets.py:MyNet
            is_own = colon and f"{prefix}.py" in files.models
            words += ["--model", f"{prefix}.py:{called}" if is_own else model]
        said.append(GROUP)
    words += Files(metrics=files.metrics, selections=files.selections).options()
    said += [METRICS] * bool(files.metrics) + [SELECTION] * bool(files.selections)
    if flat.get("data.indices") is not None:
        words += ["--partition", flat["data.indices"]]
        said += _PARTITION
    return words, said


def _fork(parent: str, round: int, name: str, before: Raw, after: Raw, files: Files) -> str:
    where = ["--at-round", str(round), "--session", name, "--run"]
    # The data stay the parent's: a fork with another seed writes the partition's into its settings by itself.
    changes = _changes(before, {**after, "data": before["data"]}, ("seed.data",))
    return shlex.join(["htfl-sim", "fork", parent, *where, *files.options(), *changes])


def _changes(before: Raw, after: Raw, said: Sequence[str] = ()) -> list[str]:
    """The options that make one configuration of another; where it runs is left out, what is not set, and `said`."""
    method = str(after["method"]["name"])
    usual = _usual(with_method(before, method))
    words = ["--method", method] if before.get("method", {}).get("name") != method else []
    wanted = _flat(after)
    if wanted["seed"] != usual["seed"]:
        words += ["--seed", str(wanted["seed"])]
    for key, each in wanted.items():
        if key in (*_NOT_SET, *said) or (each is None and key in ALTERNATIVES):
            continue  # the key in place of an unset one says so
        if each != usual.get(key):
            words += ["--set", f"{key}={toml_value(each)}"]
    return words


def _flat(raw: Raw) -> Raw:
    """The settings by dotted key, with tables of the clock as values: their names may have dots."""
    clock = raw.get("system") or {}
    rest = {section: each for section, each in raw.items() if section != "system"}
    return flattened(rest) | {f"system.{key}": each for key, each in clock.items()}


def _usual(raw: Raw) -> Raw:
    """Every setting that a configuration comes to, by dotted key; the method's only where it is known here."""
    from simulator.base.sections import SelectionConfig
    from simulator.base.system_section import SystemConfig
    from simulator.config import Config
    from simulator.methods import registry

    if raw["method"]["name"] in registry.names():
        usual = Config.read(raw).to_json()
    else:
        usual = Config.read({**raw, "method": {"name": "standalone"}}).to_json() | {"method": raw["method"]}
    clock = SystemConfig.model_construct().model_dump(mode="json")
    selection = SelectionConfig().model_dump(mode="json")
    return _flat({"system": clock, "selection": selection, **usual})
