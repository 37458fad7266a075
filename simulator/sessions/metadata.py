"""What a session's files say of it besides tensors, and what the switches in its mailbox would make of that."""

import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import checkpoints
from checkpoints import Command, Damaged, Retention, canonical, limits
from simulator.base import own_files
from simulator.base.documents import Change, Document, Entry, OwnFile, Parent, check_history
from simulator.base.environment import (
    CODE,
    COMPARED,
    METHOD_FILES,
    changed_code,
    environment,
    inexact,
    recorded_facts,
)
from simulator.base.errors import ConfigError, SessionError
from simulator.base.nested import Raw, merged
from simulator.base.reading import sha256_of
from simulator.clock.devices import rank_correlations
from simulator.config import Config
from simulator.config.user_files import PATHS
from simulator.data.federated import FederatedData
from simulator.data.samples import check_report, recorded_report
from simulator.engine.builder import Built, build, rebuild
from simulator.methods import registry
from simulator.metrics import user_metrics as metrics
from simulator.models import libraries as models
from simulator.models import members
from simulator.selection import user_selection
from simulator.sessions.fingerprint import fingerprint
from simulator.sessions.history import asked_for, boundary, differences, history_entry, settings_in_force
from simulator.sessions.reader import CheckedReader
from simulator.sessions.states import digest


def recorded_files(config: Config) -> list[OwnFile]:
    """What a session keeps about the files that its configuration needs, as plain JSON values."""
    files = [*models.origins(members(config.federation.group)), *metrics.origins(config.evaluation.metrics)]
    files += user_selection.origins(config.selection.strategy)
    return [*map(_noted, files), *_at_paths(_paths(config.to_json()))]


def needed_files(config: Config) -> list[OwnFile]:
    """The same, with the plugins that its method and models come from, each file once."""
    own = registry.recorded(config.method.name)
    found = [
        each for each in (own, *registry.recorded_models(members(config.federation.group)).values()) if each
    ]
    files: list[OwnFile] = [{"kind": "plugin", **each} for each in found]
    files += recorded_files(config)
    return [file for number, file in enumerate(files) if file not in files[:number]]


def files_of_method(method: str) -> dict[str, str]:
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


def check_files(folder: Path, config: Mapping[str, Any], made_with: Sequence[OwnFile]) -> None:
    """Raise SessionError unless every file a session was made with is there, or loaded, and the same bytes."""
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


BESIDE = 200
"""Bytes of session.json that the store adds: id, time, and seal."""
MOST_COUNTS = 50_000
"""More numbers than this, clients × classes, are not noted: every listing reads them."""

MOST_UNKNOWN = 100
"""Values of `unknown` that are noted."""


def current(session: CheckedReader, overrides: Raw, upto: int | None = None) -> tuple[Config, list[Entry]]:
    """A session's configuration as its last checkpoint left it, with `overrides` laid over, and its history.

    Who needs the rounds `upto` one only may have an earlier checkpoint where the last one is damaged. Raises
    SessionError when a plugin or another file of the user's is not loaded or not the same, Damaged for invalid
    settings.
    """
    rounds = session.rounds()
    try:
        newest = session.manifest() if rounds else None
    except Damaged:
        newest = None
        for round in reversed(rounds[:-1]):
            if newest is None and upto is not None and round >= upto:
                with suppress(Damaged):
                    newest = session.manifest(round)
        if newest is None:
            raise
    history = newest.history if newest else []
    plugin = session.document["plugin"]
    if history:
        plugin = history[-1].get("plugin", plugin)
    raw = settings_in_force(session.document, history)
    registry.check(session.folder, str(raw["method"]["name"]), plugin)
    said_last = history[-1] if history and "files" in history[-1] else session.document
    files = said_last.get("files", [])  # early sessions have none
    check_files(session.folder, raw, files)
    check_models(session)
    config = read_config(session, merged(raw, overrides))
    return config, history or [history_entry(config, 1)]


def refuse_taken(folder: Path) -> None:
    """Raise ConfigError, or SessionUnreadable for the remains of a session, where a new session's folder exists."""
    if checkpoints.is_free(folder):
        return
    checkpoints.refuse_remains(folder)
    if not checkpoints.is_session(folder):
        raise ConfigError(f"{folder} exists already and is not a session. Choose another name.")
    raise ConfigError(
        f"{folder} exists already. Choose another name, or resume that session: "
        f"`htfl-sim resume {checkpoints.typed(folder)}`."
    )


def read_config(session: CheckedReader, raw: Raw) -> Config:
    """Settings that the session's files say, which must be valid; raises Damaged."""
    try:
        config = Config.read(raw)
        members(config.federation.group)
    except ConfigError as error:
        raise Damaged(f"{session.folder}: its settings are not valid here: {error}") from error
    return config


def check_models(session: CheckedReader) -> None:
    """Raise SessionError unless the plugins that its models come from are loaded, and the same bytes."""
    registry.check_models(session.folder, session.document.get("model_plugins", {}))


def check_data(session: CheckedReader, config: Config, data: FederatedData) -> None:
    """Raise SessionError unless the data and their partition are those the session was made with."""
    if data.fingerprint != session.document["data_fingerprint"]:
        raise SessionError(
            f"{session.folder}: the data set '{config.data.dataset}' or its partition is not the one this session was "
            f"made with (sha256 {session.document['data_fingerprint'][:12]}…, not {data.fingerprint[:12]}…); name the "
            "folder of the original data: `data_dir=DIR`."
        )


def check_read(config: Config, data: FederatedData) -> None:
    """Raise DataError if a new run on what was read of the data set would say nothing. Older sessions may go on."""
    if data.report is not None:
        check_report(data.report, config.data.dataset)


def changes(session: CheckedReader, config: Config, built: Built, history: Sequence[Entry]) -> list[str]:
    """What differs here from what the session's bits depend on, such as 'torch 2.6 → 2.7'."""
    document, methods = session.document, method_files(session, history)
    present = environment(built.federation.device, config.runtime.threads_per_client)
    machine = [fact for fact in COMPARED if fact not in CODE]
    return changed_code(document["environment"], methods, present) + inexact(
        document["environment"], present, machine
    )


def method_files(session: CheckedReader, history: Sequence[Entry]) -> dict[str, str]:
    """The recorded files of the method in force at the end of this history; none in older sessions."""
    last: Change = history[-1] if history else {}
    return last.get("method_files", session.document.get("method_files", {}))


def go_back(session: CheckedReader, differs: Sequence[str]) -> str:
    """What to do about differences other than to allow them."""
    made = session.document["environment"]["htfl-sim"]
    return (
        f"Use htfl-sim {made}"
        if any(each.startswith("htfl-sim ") for each in differs)
        else "Go back to what it was made with"
    )


def check_size(config: Config) -> None:
    """Raise ConfigError where a round or a checkpoint would have more clients than can be read back."""
    participants = config.federation.participants
    if participants > limits.PARTICIPANTS:
        raise ConfigError(
            f"A round would have {participants:,} participants, and its record has room for "
            f"{limits.PARTICIPANTS:,}. Use a smaller federation.participation."
        )
    begun = min(config.federation.clients, participants * config.rounds) + 1
    if begun > limits.STATES:
        raise ConfigError(
            f"{begun:,} states would have to be kept, and a checkpoint has room for {limits.STATES:,}. Use fewer "
            "federation.clients, a smaller federation.participation, or fewer rounds."
        )


def check_recordable(config: Config, built: Built) -> None:
    """Raise ConfigError where settings, or rounds under them, could not be read back from a session."""
    check_size(config)
    built.engine.check_size()
    try:
        check_history(json.loads(canonical([history_entry(config, 1)])))
    except ValueError as fault:
        # A plugin's own section may hold anything.
        raise ConfigError(
            f"These settings cannot be recorded: {fault}. Use numbers, texts, and lists of them in a Config."
        ) from fault


def of_new(config: Config, built: Built, parent: Parent | None, *, in_flight: bool = False) -> Raw:
    """What session.json says of a new session; `in_flight`: it can have uplinks in flight. Raises ConfigError."""
    check_recordable(config, built)
    if parent is None:
        check_read(config, built.data)
    everybody = config.federation.participants == config.federation.clients
    document: dict[str, Any] = {
        # What an earlier program can read is of its format: where all take part, no manifest leaves any out.
        "format": 3
        if in_flight or config.system is not None
        else 1
        if everybody and not config.records_changed
        else 2,
        "config": config.to_json(),
        "parent": parent,
        "environment": recorded_facts(
            built.federation.device, config.runtime.threads_per_client, _packages(built)
        ),
        "method_files": files_of_method(config.method.name),
        "data_fingerprint": built.data.fingerprint,
        "inputs": built.data.spec.to_json(),
        "parameters": dict(built.federation.parameters),
        "plugin": registry.recorded(config.method.name),
        "files": recorded_files(config),
        "model_plugins": registry.recorded_models(members(config.federation.group)),
    }
    if built.data.unknown:
        document["unknown"] = dict(built.data.unknown[:MOST_UNKNOWN])
    weights = digest(built.federation, config.init_seed) if config.federation.pretrained else None
    document["fingerprint"] = None if parent else fingerprint(config, cast(Document, document), weights)
    if (clock := built.engine.clock) is not None:
        names = [device.name for device in clock.devices]
        document["devices"] = {"names": names, "correlations": rank_correlations(clock.devices, clock.facts)}
    read = {} if built.data.report is None else {"read": recorded_report(built.data.report)}
    for more in ({**read, **_samples(built.data)}, read):
        if _size(whole := {**document, **more}) <= limits.SESSION:
            return whole
    if (size := _size(document)) > limits.SESSION:
        largest = max(document["config"], key=lambda section: _size(document["config"][section]))
        raise ConfigError(
            f"session.json would have {size:,} bytes, and at most {limits.SESSION:,} can be read back. "
            f"Use fewer or shorter values in the section {largest}."
        )
    return document


def _packages(built: Built) -> set[str]:
    """The packages that the classes of the models come from, and of those that the method trains beside them."""
    federation = built.federation
    networks = [
        *federation.architectures.values(),
        *map(federation.architecture, built.method.trained_beside()),
    ]
    return {type(part).__module__.partition(".")[0] for network in networks for part in network.modules()}


def _size(value: Any) -> int:
    return len(canonical(value)) + BESIDE


def _samples(data: FederatedData) -> Raw:
    """How many samples each client trains on, class by class, and how many it is tested on."""
    if len(data.clients) * data.num_classes > MOST_COUNTS:
        return {}
    held = [dict(zip(client.classes, client.class_counts, strict=True)) for client in data.clients]
    return {
        "samples": {
            "classes": list(data.classes),
            "train": [[each.get(label, 0) for label in range(data.num_classes)] for each in held],
            "test": [len(client.test) for client in data.clients],
        }
    }


def on_device(config: Config, built: Built) -> Config:
    """The configuration with the device that 'auto' came to."""
    return config.with_(runtime__device=built.federation.device.type)


def retention(config: Config, parent: Parent | None = None) -> Retention:
    """Which checkpoints the configuration keeps; of a fork also its first, from which its rounds can be run again."""
    settings = config.checkpoint
    return Retention(
        last=settings.keep_last,
        every=settings.keep_every,
        best="accuracy.mean" if settings.keep_best else None,
        pinned=frozenset({parent["round"]} if parent else ()),
    )


def planned(session: CheckedReader, upto: int = 0) -> Config:
    """The configuration of the next resume: the last checkpoint's, and what the switches in the mailbox make of it.

    Of those that wait for a certain round, only up to `upto`. Raises SessionError when the method's plugin is not
    loaded.
    """
    # Whether the recorded device is here as well is the resume's concern.
    config, _ = current(session, {"runtime": {"device": "cpu"}})
    waiting: list[tuple[int, Command]] = []
    for command in checkpoints.pending(session.folder):
        if command.kind == "switch":
            with suppress(ConfigError):  # the resume will refuse it, and say so
                waiting.append((boundary(command.arguments), command))
    for at_round, command in sorted(waiting, key=lambda each: each[0]):
        if at_round <= max(upto, _done(session)):
            with suppress(ConfigError):
                config = asked_for(config, command.arguments)
    return config


def proposed(session: CheckedReader, arguments: Mapping[str, Any]) -> tuple[Config, Config]:
    """The planned configuration without and with what a switch's arguments ask for; raises ConfigError."""
    before = planned(session, boundary(arguments))
    record = session.manifest().record if session.rounds() else None
    return before, asked_for(before, arguments, _done(session), record)


def extend(
    session: CheckedReader,
    rounds: int | None,
    until: float | None = None,
    until_time: float | str | None = None,
) -> None:
    """Leave a switch to so many rounds, or other goals, in the mailbox, unless that is so. Raises ConfigError."""
    before = planned(session)
    if rounds is not None and rounds < (done := _done(session)):
        raise ConfigError(
            f"{session.folder} has {done} rounds already. For more use `rounds={done + 10}`. To go on from round "
            f"{rounds}, fork it: {checkpoints.fork_at(session.folder, rounds)}."
        )
    if isinstance(until_time, str):
        until_time = before.with_(until_time=until_time).until_time  # refused now if it is no time
    wanted = {"rounds": rounds, "until": until, "until_time": until_time}
    new = [
        f"{key}={value}"
        for key, value in wanted.items()
        if value is not None and value != getattr(before, key)
    ]
    if new:
        arguments = {"method": None, "set": new}
        proposed(session, arguments)
        checkpoints.post(session.folder, "switch", arguments)


def rehearse(session: CheckedReader, arguments: Mapping[str, Any], data_dir: Path) -> list[str]:
    """What a switch would change, as 'training.lr 0.01 → 0.005'. Raises ConfigError, DataError, SessionError."""
    before, after = proposed(session, arguments)
    # Looked at on this machine's CPU; a GPU's precisions are for the GPU's owner to refuse.
    on_cpu = str(session.document["environment"].get("device", "cpu")).startswith("cpu")
    built = build(before, data_dir, runs=False)
    check_data(session, before, built.data)
    check_recordable(after, rebuild(built, after, runs=on_cpu))
    return differences(before, after)


def _done(session: CheckedReader) -> int:
    """The round that the next resume begins after."""
    return max([0, *session.rounds()])
