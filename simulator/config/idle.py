"""Settings that cannot act, because another setting decides that they are never read."""

from collections.abc import Iterable

import presets
from simulator.base.data_section import READ_BY, DataConfig
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, flattened, toml_value
from simulator.base.sections import RANDOM, RuntimeConfig
from simulator.config import Config

_READ_UNDER: dict[str, dict[str, tuple[str, ...]]] = {
    **{
        f"data.{key}": {f"data.{other}": values for other, values in readers.items()}
        for key, readers in READ_BY.items()
    },
    "runtime.address": {"runtime.runner": ("ray",)},
    "runtime.inner": {"runtime.runner": ("ray",)},
    "runtime.workers_per_actor": {"runtime.inner": ("parallel",)},
}
"""Each key is read if one of these other keys has one of these values."""
_OF_SWEEPS = {"runtime.gpus_per_point": "studies on Ray"}
"""Settings that a single run never reads."""
_DEFAULTS = flattened(
    {"data": DataConfig().model_dump(mode="json"), "runtime": RuntimeConfig().model_dump(mode="json")}
)


def idle(config: Config) -> list[str]:
    """The settings that somebody gave another value than their preset, or the default, and that change nothing."""
    flat, usual = _flat(config), dict(_DEFAULTS)
    if config.preset in presets.names():
        usual |= flattened(presets.load(str(config.preset), config.profile or presets.PAPER).config)
    return [
        sentence
        for key in _READ_UNDER
        if flat[key] != usual[key] and (sentence := _sentence(key, config)) is not None
    ]


def cautions(config: Config) -> list[str]:
    """What to know before a run: settings and events that change nothing, and a mask that excludes right answers."""
    found, system, seen = idle(config), config.system, config.federation.seen_clients
    wanted = config.federation.participants
    if system is not None:
        wanted = system.in_flight or system.select or wanted
    if config.selection.strategy != RANDOM and wanted >= seen:
        found.append(
            f"selection.strategy = {config.selection.strategy!r} changes nothing: all {seen} clients take part. Set "
            "a smaller federation.participation."
        )
    found += [
        f"federation.timeline, entry {number} (round {event.round}): the run ends after round {config.rounds}. "
        "Use more rounds, or remove the event."
        for number, event in enumerate(config.federation.timeline, 1)
        if event.round > config.rounds
    ]
    if "collapse" in config.watch.watchers and config.evaluation.classes is False:
        found.append("Watcher 'collapse' needs counts by class. Set evaluation.classes=true.")
    elif "collapse" in config.watch.watchers and "test" not in (config.evaluation.parts or ("test",)):
        found.append(
            "Watcher 'collapse' needs counts by class of the test part. Add test to evaluation.parts."
        )
    masked = getattr(config.method, "mask_answers", False) and config.data.split == "global"
    if masked and config.data.partition != "iid":
        found.append(
            "method.mask_answers = true keeps a client from answering classes that it lacks, but with data.split = "
            "'global' the test images have all classes. Set method.mask_answers=false to let it answer all."
        )
    return found


def refuse_idle(config: Config, keys: Iterable[str]) -> None:
    """Raise ConfigError for the first of the keys, all of which somebody asked for, that changes nothing here."""
    for key in keys:
        if key in _OF_SWEEPS:
            raise ConfigError(f"{key} changes nothing here: it is for {_OF_SWEEPS[key]}. Leave it out.")
        if key in _READ_UNDER and (sentence := _sentence(key, config)) is not None:
            raise ConfigError(f"{sentence} Leave it out, or change that.")


def _flat(config: Config) -> Raw:
    """The settings, also those that a session leaves out."""
    return _DEFAULTS | flattened(config.to_json())


def _sentence(key: str, config: Config) -> str | None:
    """That a key is never read; None if it is."""
    flat = _flat(config)
    readers = _READ_UNDER[key]
    if any(flat[other] in values for other, values in readers.items()):
        return None
    name = key.removeprefix("data.")
    divided = [each.divided(config.data) for each in config.federation.timeline if each.divides]
    if name in READ_BY and any(each.reads(name) for each in divided):
        return None
    first, values = next(iter(readers.items()))
    return (
        f"{key} = {toml_value(flat[key])} changes nothing: it is for {first} = "
        f"{' or '.join(map(repr, values))}, and this is {flat[first]!r}."
    )
