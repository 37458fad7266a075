"""What to type for a session's very results."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import presets
from simulator.nested import Raw, flattened, toml_value, with_method
from simulator.sessions.reader import SessionReader


def command_lines(folder: Path) -> list[str]:
    """The commands that give a session again: the run, and for every fork and switch since, a fork at its round.

    Forks, because a switch takes hold whenever it arrives, and a fork at the round that is named. Loads
    the methods, and with them torch. Raises SessionUnreadable, DiskError or ConfigError.
    """
    session = SessionReader(folder)
    config, parent = session.document["config"], session.parent
    history = session.manifest().history if session.rounds() else []
    name = f"{folder.name}-again"
    if parent is None:
        lines = [_run(config, name)]
        later: Sequence[Raw] = history[1:]
    else:
        common, later = _split(history, parent["round"], config)
        origin = folder.parent / parent["name"]
        before = SessionReader(origin).document["config"] if origin.is_dir() else config
        start = before | ({"method": common["method"], **common["settings"]} if common else {})
        lines = [_fork(parent["name"], parent["round"], name, start, config)]
    present = config
    for number, entry in enumerate(later, 2):
        after = present | {"method": entry["method"], **entry["settings"]}
        lines.append(_fork(name, entry["from_round"] - 1, f"{folder.name}-again-{number}", present, after))
        name, present = f"{folder.name}-again-{number}", after
    return lines


def _split(history: Sequence[Raw], round: int, config: Raw) -> tuple[Raw | None, Sequence[Raw]]:
    """What was in force where a session branched off, and what changed after it had begun with `config`."""
    common = [entry for entry in history if entry["from_round"] <= max(round, 1)]
    own = history[len(common) :]
    if own and own[0]["method"] == config["method"]:
        own = own[1:]
    return (common[-1] if common else None), own


def _run(config: Raw, name: str) -> str:
    preset = config.get("preset")
    profile = config.get("profile")
    base: Raw = {}
    if preset in presets.names():
        base = presets.load(str(preset), profile or presets.PAPER).config
    chosen = ["--preset", str(preset)] if base else []
    chosen += ["--profile", str(profile)] if base and profile else []
    return shlex.join(["htfl-sim", "run", "--session", name, *chosen, *_changes(base, config)])


def _fork(parent: str, round: int, name: str, before: Raw, after: Raw) -> str:
    where = ["--at-round", str(round), "--session", name, "--run"]
    # The data stay the parent's: a fork with another seed writes the partition's into its settings by itself.
    return shlex.join(
        ["htfl-sim", "fork", parent, *where, *_changes(before, {**after, "data": before["data"]})]
    )


def _changes(before: Raw, after: Raw) -> list[str]:
    """The options that make one configuration of another; where it runs is left out, and what is not set."""
    from simulator.config import Config

    method = str(after["method"]["name"])
    usual = flattened(Config.read(with_method(before, method)).to_json())
    words = ["--method", method] if before.get("method", {}).get("name") != method else []
    wanted = flattened(after)
    if wanted["seed"] != usual["seed"]:
        words += ["--seed", str(wanted["seed"])]
    for key, each in wanted.items():
        fixed = key in ("preset", "profile", "seed", "method.name", "runtime.device", "runtime.workers")
        if not fixed and each is not None and each != usual.get(key):
            words += ["--set", f"{key}={toml_value(each)}"]
    return words
