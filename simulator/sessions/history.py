"""Changing a run at a round boundary, its history of changes, and what sessions did before a setting existed."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import checkpoints
from simulator.base.data_section import has_columns, is_own
from simulator.base.documents import Change, Configured, Entry, Event
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, flattened, merged, renamed, with_method, with_overrides
from simulator.base.record import Record
from simulator.base.sections import SAMPLED
from simulator.base.units import span
from simulator.config import Config

# Before there was a setting

SECTIONS: dict[str, Raw] = {
    "data": {"statistics": "all"},
    "cka": {"every": 0, "model": "local", "untrained": True},
    "evaluation": {"parts": [], "initial": "all", "metrics_for": "all", "classes": False},
}
"""What sessions did before a setting existed. A session records its configuration whole, so a key that is missing there
is younger than the session, which goes on as before, whatever new sessions do by default."""
METHODS: dict[str, Raw] = {
    "fedssa": {"t_from": 1, "holders": "participants"},
    "fedgh": {"server_step": "client"},
    "fedgen": {"weighting": "samples", "hidden_bias": True},
    "fedtgp": {"distance": "samples"},
    **{name: {"scale_layers": False} for name in ("heterofl", "fedrolex")},
    "fedproto": {"collect": "after"},
    "fd": {"distance": "mse", "collect": "after"},
    "moon": {"first": "own"},
    "inco_moon": {"first": "own", "epsilon": 0.0},
    **{name: {"epsilon": 0.0} for name in ("inco_avg", "inco_prox", "inco_nova", "inco_scaffold")},
}
"""By the method's name, of its own section."""


def completed(raw: Mapping[str, Any]) -> Raw:
    """A recorded configuration with what was so before its missing keys existed."""
    today = renamed(raw)
    return merged(_before(today), today)


def younger(raw: Mapping[str, Any]) -> Raw:
    """The settings that a recorded configuration lacks, by dotted key, as `completed` fills them."""
    today = renamed(raw)
    known = flattened(today)
    return {key: value for key, value in flattened(_before(today)).items() if key not in known}


COMPARED = 1000
"""Up to so many clients, CKA compared all of them."""


def _before(raw: Mapping[str, Any]) -> Raw:
    method, federation, system = (raw.get(section) for section in ("method", "federation", "system"))
    name = method.get("name") if isinstance(method, Mapping) else None
    own = METHODS.get(str(name), {})
    clients = federation.get("clients") if isinstance(federation, Mapping) else None
    everybody: Raw = {}
    if isinstance(clients, int) and SAMPLED < clients <= COMPARED:
        everybody = {"cka": {"clients": clients}}
    data = raw.get("data")
    columns: Raw = {}
    if isinstance(data, Mapping) and is_own(data):
        columns["domains"] = "found"
    if isinstance(data, Mapping) and has_columns(str(data.get("dataset"))):
        columns["numbers"] = "inferred"
    timed: Raw = {}
    if isinstance(system, Mapping):
        stale = system.get("schedule") == "buffered" or system.get("late") == "next"
        timed = {"system": {"costs": "planned", **({"stale_as": "model"} if stale else {})}}
    return merged(
        merged({**SECTIONS, **({"method": own} if own else {}), **timed}, everybody), {"data": columns}
    )


# When a run is finished


def finished(config: Config, round: int, record: Record | None) -> bool:
    """Whether no round is left under these settings; `record` is that of the last one."""
    return round >= config.rounds or config.reached(mean_accuracy(record), simulated(record))


def mean_accuracy(record: Record | None) -> float | None:
    return None if record is None else record["accuracy"]["mean"]


def simulated(record: Record | None) -> float | None:
    """The simulated time at the end of a record's round, in seconds. None: it has no clock, or there is no record."""
    return record["time"]["ends"] if record is not None and "time" in record else None


def reached(config: Config, record: Record | None) -> tuple[str, str] | None:
    """Which goal a round has reached, in words, and the setting that removes it. None: no goal."""
    accuracy, seconds = mean_accuracy(record), simulated(record)
    if config.reached_accuracy(accuracy):
        return f"mean accuracy {accuracy:.1%} has reached until = {config.until:g}", "until=0"
    if config.reached_time(seconds):
        return (
            f"simulated time {span(seconds or 0.0)} has reached until_time = {span(config.until_time)}",
            "until_time=0",
        )
    return None


def reason_to_end(config: Config, round: int, record: Record | None) -> str | None:
    """Why a run is finished before its last round, in words; None where it is not."""
    found = reached(config, record)
    return None if round >= config.rounds or found is None else found[0]


# Changes

SETTINGS = ("rounds", "until", "until_time", "training", "evaluation", "wire", "cka", "checkpoint", "watch")
"""What may change besides the method. Data, models and seed are what a session is; a fork may have another seed."""


def changed_settings(
    config: Config, method: str | None, assignments: Sequence[str], may_change: Sequence[str] = SETTINGS
) -> Config:
    """`config` with another method, without the old one's hyper-parameters, or other settings. Raises ConfigError."""
    raw = config.to_json()
    new = Config.read(with_overrides(with_method(raw, method) if method else raw, assignments))
    after = new.to_json()
    fixed = [key for key in raw if key not in ("method", *may_change) and raw[key] != after[key]]
    if raw["method"] != after["method"]:
        new = new.begun()
    if fixed:
        raise ConfigError(
            f"'{fixed[0]}' cannot change within a run: it is what the session was made with. "
            "What can: method, " + ", ".join(may_change) + "."
        )
    return new


def boundary(arguments: Mapping[str, Any]) -> int:
    """The round at whose end a switch is to take hold; 0: of the one under way. Raises ConfigError for no round."""
    at_round = arguments.get("at_round", 0)
    if type(at_round) is not int or at_round < 0:
        raise ConfigError("a switch happens at the end of a round, counted from 0: use `at_round=10`.")
    return at_round


def asked_for(
    config: Config, arguments: Mapping[str, Any], done: int = 0, record: Record | None = None
) -> Config:
    """The settings after a switch command: {'method': name or None, 'set': ['key=value', …], 'at_round'?: R}.

    Raises ConfigError for invalid ones, and where nothing would change or no round is left. `done` rounds are
    finished, or will be before it can take hold. record: of the last one.
    """
    method, assignments = arguments.get("method"), arguments.get("set", [])
    are_texts = isinstance(assignments, list) and all(isinstance(each, str) for each in assignments)
    if not isinstance(method, str | None) or not are_texts:
        raise ConfigError("a switch names a method, or settings as key=value, or both.")
    if (at_round := boundary(arguments)) > config.rounds:
        raise ConfigError(f"the run ends with round {config.rounds}, before round {at_round}.")
    if "at_round" in arguments and at_round < done:
        raise ConfigError(f"round {at_round} is over: round {done} is done, or under way.")
    done = max(done, at_round)
    new = changed_settings(config, method, assignments)
    if new == config:
        raise ConfigError(f"nothing would change: '{config.method.name}' runs with these settings already.")
    if new.rounds <= done:
        raise ConfigError(
            f"no round is left for it: round {done} is done, or under way, and would be the last. "
            f"Add rounds: `rounds={done + 10}`."
        )
    if goal := reached(new, record):
        raise ConfigError(f"no round is left for it: {goal[0]}. Add `{goal[1]}` to run all rounds.")
    return new


def history_entry(config: Config, from_round: int, about: Change | None = None) -> Entry:
    """An entry of the history: the method and the settings in force from a round on."""
    settings = config.to_json()
    return {
        "from_round": from_round,
        "method": settings["method"],
        "settings": {key: settings[key] for key in SETTINGS if key in settings},
        **(about or {}),
    }


def settings_in_force(document: Configured, history: Sequence[Entry]) -> Raw:
    """A session's configuration as its history left it, with what was so before missing settings existed."""
    raw = merged(document["config"], {})
    if history:
        raw.pop("watch", None)  # an entry has this section only if a watcher is on
        raw |= {
            "method": history[-1]["method"],
            **history[-1].get("settings", {}),
        }  # early sessions have none
    return completed(raw)


def begun_after(history: Sequence[Entry]) -> int:
    """The round after which the method in force began; a change of settings is no new beginning."""
    begun, before = 0, None
    for entry in history:
        if (name := entry["method"]["name"]) != before:
            begun, before = entry["from_round"] - 1, name
    return begun


def watching_since(history: Sequence[Entry]) -> int:
    """The round from which on the watchers in force look; settings of theirs that change begin anew."""
    found = [entry.get("settings", {}).get("watch") for entry in history]
    same = next((number for number, each in enumerate(reversed(found)) if each != found[-1]), len(found))
    return history[len(found) - same]["from_round"]


def entries_to(history: Sequence[Entry], round: int) -> list[Entry]:
    """The history as it stood when a round was over."""
    return [entry for entry in history if entry["from_round"] <= max(round, 1)]


def next_change(history: Sequence[Entry], events: Iterable[Event], round: int) -> int | None:
    """The round, this one or a later, after which settings first changed; None if they did not."""
    rounds = [entry["from_round"] - 1 for entry in history[1:]]
    rounds += [event["round"] for event in events if event["event"] == "switched"]
    return min((each for each in rounds if each >= round), default=None)


def differences(before: Config, after: Config) -> list[str]:
    """What differs, as 'method fedlora → fedssa' and 'training.lr 0.01 → 0.005', settings of the method first."""
    old, new = (flattened(config.to_json()) for config in (before, after))
    names = [config.method.name for config in (before, after)]
    replaced = names[0] != names[1]
    return [f"method {names[0]} → {names[1]}"] * replaced + [
        f"{key} {_text(old.get(key))} → {_text(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key) and not (replaced and key.startswith("method."))
    ]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


PRECISION = "training.precision"


def overrides(workers: int | None, device: str | None, assignments: Sequence[str], folder: Path) -> Raw:
    """Settings to lay over a session's, nested. Raises ConfigError for those that are not the machine's."""
    given = {"workers": workers, "device": device}
    raw: Raw = {"runtime": {key: value for key, value in given.items() if value is not None}}
    for assignment in assignments:
        for key in flattened(with_overrides({}, [assignment])):
            if not key.startswith("runtime.") and key != PRECISION:
                raise ConfigError(
                    f"'{key}' cannot change on resume, which takes runtime.… and {PRECISION}. "
                    f"{_elsewhere(key, shlex.quote(assignment), checkpoints.typed(folder))}"
                )
    return with_overrides(raw, assignments)


def _elsewhere(key: str, assignment: str, session: str) -> str:
    """Which command changes a setting."""
    match key.split(".")[0]:
        case "seed" if key != "seed.data":
            return (
                f"Fork the session: `htfl-sim fork {session} --at-round R --session NEW --set {assignment}`."
            )
        case section if section == "method" or section in SETTINGS:
            return f"Leave a switch for the resume: `htfl-sim switch {session} --set {assignment}`."
    return "It is fixed for a session. Start a new one with `htfl-sim run`."
