"""The configuration of one run, read from nested mappings: its sections and the method's own, without torch."""

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator
from pydantic_core import PydanticUndefined

import presets
from checkpoints import limits
from simulator import methods
from simulator.base.data_section import OF_COLUMNS, READ_BY, DataConfig, has_columns, is_own
from simulator.base.errors import ConfigError, nearest
from simulator.base.federation_section import FederationConfig, TimelineEvent
from simulator.base.nested import ALL, SEED, Raw, flattened, merged, renamed, toml_value, with_method
from simulator.base.sections import (
    AVAILABLE,
    MANY,
    OF_SPEED,
    RANDOM,
    CheckpointConfig,
    CkaConfig,
    EvaluationConfig,
    MethodConfig,
    ModelsConfig,
    RuntimeConfig,
    Section,
    SeedsConfig,
    SelectionConfig,
    TrainingConfig,
    UnseenConfig,
    WatchConfig,
    WireConfig,
    changed,
)
from simulator.base.system_section import SystemConfig
from simulator.base.units import seconds_of
from simulator.methods import declarations

if TYPE_CHECKING:
    from simulator.base.timeline import Timeline
    from simulator.data.federated import Source


def _read_method(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    name = section.get("name")
    if not isinstance(name, str):
        raise ConfigError("the [method] section has no name; see `htfl-sim methods`.")
    return methods.declared(name).Config.model_validate(section)


class Config(Section):
    """A whole run. Everything that decides its result is in here, with the data's fingerprint beside it."""

    preset: str | None = None
    """Preset that the configuration was made from."""
    profile: str | None = None
    """Profile of that preset. Default: the paper's."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Random seed of the run."""
    seeds: SeedsConfig = SeedsConfig()
    """Plain values have these beside `seed`, as seed.data or {"all": 3, "data": 1}."""
    rounds: int = Field(20, ge=1, le=limits.ROUNDS)
    """Number of communication rounds T."""
    until: float = Field(0.0, ge=0, le=1)
    """End the run after the round in which mean test accuracy (0 to 1) reaches this value. 0: run all rounds."""
    until_time: Annotated[float, BeforeValidator(seconds_of)] = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="End the run after the round that reaches this simulated time, in seconds or as `2h` (`s`, `m`, "
        "`h`, `d`). Needs a clock, section `system`. 0: run all rounds.",
    )
    """Plain values have this key only if there is a clock."""
    method: Annotated[SerializeAsAny[MethodConfig], BeforeValidator(_read_method)]
    data: DataConfig = DataConfig()
    federation: FederationConfig = FederationConfig()
    selection: SelectionConfig = SelectionConfig()
    """Plain values have this section only if it is not the default."""
    models: ModelsConfig = ModelsConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    unseen: UnseenConfig = UnseenConfig()
    """Plain values have this section only if `federation.unseen` is set."""
    wire: WireConfig = WireConfig()
    cka: CkaConfig = CkaConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    watch: WatchConfig = WatchConfig()
    """Plain values have this section only if a watcher is on."""
    system: SystemConfig | None = None
    """None: the run has no clock, and its plain values have no such section."""

    @model_validator(mode="after")
    def _sections_fit_together(self) -> "Config":
        there = self.federation.seen_clients
        if isinstance(self.evaluation.clients, int) and self.evaluation.clients > there:
            raise ValueError(f"evaluation.clients draws {self.evaluation.clients} of {there} clients")
        if self.federation.unseen is None and self.unseen != UnseenConfig():
            [key, *_] = self.unseen.model_dump(exclude_none=True)
            raise ValueError(
                f"unseen.{key} changes nothing without unseen clients; set federation.unseen=0.2, or remove it"
            )
        if self.until_time and self.system is None:
            raise ValueError(
                "until_time is simulated time, and this run has no clock; set the devices of the clients: "
                "system.devices=phone"
            )
        if self.selection.strategy == AVAILABLE and (
            self.system is None or self.system.availability == "always"
        ):
            raise ValueError(
                "selection.strategy 'available' asks how long clients stay available, and here they never leave; set "
                "system.availability and the devices in system.devices, or use another strategy"
            )
        if self.system is None:
            for key in changed(self.selection, OF_SPEED):
                raise ValueError(
                    f"selection.{key} is about seconds, and the run has no clock; set system.devices, or remove it"
                )
        if self.system is not None:
            clients, participants = self.federation.clients, self.federation.participants
            devices, select = self.system.devices, self.system.select
            if isinstance(devices, tuple) and len(devices) != clients:
                raise ValueError(
                    f"system.devices has {len(devices)} names for {clients} clients; name one device per client, "
                    "or give shares"
                )
            if select is not None and select < participants:
                raise ValueError(
                    f"system.select = {select} starts fewer clients than the {participants} whose uplinks end the round"
                )
            for key in ("select", "buffer", "in_flight"):
                if (value := getattr(self.system, key) or 0) > clients:
                    raise ValueError(f"system.{key} = {value} is above the {clients} clients")
        if self.federation.timeline:
            _ = self.timeline
        return self

    @property
    def timeline(self) -> "Timeline":
        """The events of `federation.timeline` with their clients. Raises ConfigError for contradictions."""
        from simulator.base.timeline import Timeline, resolved

        if not self.federation.timeline:
            return Timeline()
        return resolved(
            self.federation.timeline, self.federation.clients, self.unseen_clients, self.data_seed
        )

    @property
    def unseen_clients(self) -> tuple[int, ...]:
        """The clients that never take part, ascending."""
        from simulator.models.federation import drawn_unseen

        return drawn_unseen(self.federation.clients, self.federation.unseen_clients, self.data_seed)

    @property
    def measured_clients(self) -> tuple[int, ...]:
        """The clients whose training parts are measured: those of the first round with somebody present, ascending."""
        timeline, seen = self.timeline, set(range(self.federation.clients)) - set(self.unseen_clients)
        present = (seen - timeline.absent_at(round) for round in (1, *timeline.rounds))
        return tuple(sorted(next(filter(None, present))))

    def source(self, folder: Path) -> "Source":
        """The source of the data, in this folder of data sets."""
        from simulator.data.federated import Source

        timeline = self.timeline.data
        return Source(
            self.data, self.federation.clients, self.data_seed, folder, timeline, self.measured_clients
        )

    @property
    def data_seed(self) -> int:
        """The seed of partition and split."""
        return self.seed if self.seeds.data is None else self.seeds.data

    @property
    def init_seed(self) -> int:
        """The seed of initial weights."""
        return self.seed if self.seeds.init is None else self.seeds.init

    @property
    def training_seed(self) -> int:
        """The seed of all other draws."""
        return self.seed if self.seeds.training is None else self.seeds.training

    @property
    def many(self) -> bool:
        """Whether there are so many clients that evaluation and records cover only some of them by default."""
        return self.federation.clients > MANY

    @property
    def skips_initial(self) -> bool:
        """Whether clients that have never taken part are not evaluated."""
        return (self.evaluation.initial or ("skip" if self.many else "all")) == "skip"

    @property
    def records_changed(self) -> bool:
        """Whether a record has the metrics of only those clients that changed in the round."""
        return (self.evaluation.metrics_for or ("changed" if self.many else "all")) == "changed"

    def reached(self, accuracy: float | None, seconds: float | None) -> bool:
        """Whether a round with this mean accuracy, at this simulated time, ends the run: `until` and `until_time`."""
        return self.reached_accuracy(accuracy) or self.reached_time(seconds)

    def reached_accuracy(self, accuracy: float | None) -> bool:
        """Whether a mean test accuracy is what `until` asks for."""
        return bool(self.until) and accuracy is not None and accuracy >= self.until

    def reached_time(self, seconds: float | None) -> bool:
        """Whether a simulated time is what `until_time` asks for."""
        return bool(self.until_time) and seconds is not None and seconds >= self.until_time

    def with_(self, **changes: Any) -> "Config":
        """The same with other values: `with_(rounds=50, method__mu=0.7)`, two underscores for the dot of a key.

        `method="fedgh"` is another method with its own defaults; a mapping changes several keys of its section.
        Raises ConfigError for what is unknown or not valid.
        """
        raw = self.to_json()
        if isinstance(name := changes.pop("method", None), str):
            raw = with_method(raw, name)
        elif name is not None:
            raw = merged(raw, {"method": name})
        for key, value in changes.items():
            for part in reversed(key.split("__")):
                value = {part: value}
            raw = merged(raw, value)
        return Config.read(raw)

    def begun(self) -> "Config":
        """The configuration of a run whose method begins now: what that fixes is written out."""
        return self.model_copy(update={"method": self.method.begun(self.rounds)})

    def to_json(self) -> Raw:
        """The complete configuration as plain JSON values; `Config.read` takes it back."""
        raw: Raw = self.model_dump(mode="json")
        data, system, events = raw["data"], self.system, self.federation.timeline
        rare = ("shards_per_client", "sigma")
        raw["federation"]["timeline"] = [each.model_dump(mode="json", exclude_none=True) for each in events]
        # Sessions that do not use a newer setting keep their settings, and so their fingerprints. A session on own data
        # without `domains` is an older one, and so is one on a table without `numbers`.
        left_out = {
            "system": system is None,
            "until_time": system is None,
            "system.partial": system is not None and system.partial == "lose",
            "training.steps": self.training.steps is None,
            "training.class_weights": self.training.class_weights is None,
            "data.domains": data["domains"] is None and not is_own(data),
            "data.numbers": data["numbers"] is None and not has_columns(self.data.dataset),
            **{f"data.{key}": data[key] == value for key, value in {**OF_COLUMNS, "labels": None}.items()},
            **{f"data.{key}": not self.data.reads(key) and not changed(self.data, [key]) for key in rare},
            "selection": self.selection == SelectionConfig(),
            "watch": self.watch == WatchConfig(),
            "unseen": self.federation.unseen is None,
            "federation.unseen": self.federation.unseen is None,
            "federation.timeline": not events,
        }
        for key in (key for key, is_left_out in left_out.items() if is_left_out):
            section, _, name = key.rpartition(".")
            del (raw[section] if section else raw)[name]
        own = {part: seed for part, seed in raw.pop("seeds").items() if seed is not None}
        return raw | {SEED: {ALL: self.seed, **own}} if own else raw

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Config":
        """Validate nested plain values. Raises ConfigError with the first fault, where it is and what to do."""
        plain = renamed(raw)
        if "seeds" in plain:
            raise ConfigError("unknown key 'seeds'. Did you mean 'seed'?")
        seeds = plain.get(SEED)
        if isinstance(seeds, Mapping):  # those of the run's parts have a section of their own
            parts = {key: each for key, each in seeds.items() if key != ALL}
            plain |= {SEED: seeds.get(ALL, 0), "seeds": parts}
        try:
            return cls.model_validate(plain)
        except ValidationError as invalid:
            raise ConfigError(_first_fault(invalid, raw)) from invalid


OF_CLIENTS = {
    **dict.fromkeys(
        (
            "seed", "data", "models", "federation.clients", "federation.timeline", "federation.unseen",
            "federation.group", "federation.pretrained", "training.precision", "evaluation.model",
        ),
        True,
    ),
    **dict.fromkeys(
        (
            "rounds", "until", "until_time", "selection", "unseen", "wire", "cka", "runtime", "checkpoint", "watch",
            "system", "federation.participation",
            "training.epochs", "training.steps", "training.batch_size", "training.optimizer", "training.lr",
            "training.schedule", "training.lr_min", "training.lr_step", "training.lr_decay", "training.momentum",
            "training.weight_decay", "training.augment", "training.clip", "training.class_weights",
            "training.on_divergence",
            "evaluation.clients", "evaluation.parts", "evaluation.initial", "evaluation.metrics_for",
            "evaluation.classes", "evaluation.metrics", "evaluation.batch_size",
        ),
        False,
    ),
}  # fmt: skip
"""The answers of `decides_clients`, by key, or by section if all of its keys have the same answer."""


def decides_clients(key: str) -> bool:
    """Whether a setting decides a client's data, first weights, or evaluated model.

    Raises KeyError for a key that is in no list, so that a new one is not forgotten.
    """
    return OF_CLIENTS[key] if key in OF_CLIENTS else OF_CLIENTS[key.partition(".")[0]]


def section_of(annotation: Any) -> type[Section] | None:
    """The section that a field of `Config` holds, also one that may be left out. None for a plain value."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Section):
            return each
    return None


def section_key(field: str) -> str:
    """What a section is called in a dotted key."""
    return SEED if field == "seeds" else field


_PLACES = [(section_key(name), section_of(field.annotation)) for name, field in Config.model_fields.items()]
"""The first part of every dotted key, and the section of the others."""
_OF_ALL = [place for place in _PLACES if place[0] not in ("preset", "profile", "method")]


def keys() -> list[str]:
    """Every dotted key but the methods' own, in order; needs no method, and so no torch."""
    inner = ((name, list(section.model_fields) if section else []) for name, section in _OF_ALL)
    return [key for name, fields in inner for key in ([f"{name}.{each}" for each in fields] or [name])]


def limits_of(key: str, method: str) -> dict[str, float]:
    """The bounds of a setting's numbers: gt, ge, lt, and le. Empty for the methods of users."""
    name, _, inner = key.partition(".")
    field = Config.model_fields.get(name)
    section = section_of(field.annotation) if field and inner else None
    section = declarations.settings(method) if section is MethodConfig else section
    field = section.model_fields.get(inner) if section else field
    marks = ((mark, each) for each in (field.metadata if field else ()) for mark in ("gt", "ge", "lt", "le"))
    return {mark: getattr(each, mark) for mark, each in marks if hasattr(each, mark)}


def _first_fault(invalid: ValidationError, raw: Mapping[str, Any]) -> str:
    errors = invalid.errors(include_url=False)
    fault = errors[0]
    location = [part for part in map(str, fault["loc"]) if "[" not in part]  # without names of types
    location[:1] = map(section_key, location[:1])
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        message = _of_another_method(location, raw) or f"unknown key '{key}'.{_nearest_key(location, raw)}"
    elif fault["type"] == "missing":
        message = f"'{key}' is missing."
    elif fault["type"] == "value_error":
        message = f"{key or 'configuration'}: {fault['ctx']['error']}."
    elif fault["type"] in ("model_type", "dict_type") and (hint := _key_of_section(location, fault["input"])):
        message = f"'{key}' is a section, and {fault['input']!r} is a value. {hint}"
    else:
        message = f"'{key}' = {fault['input']!r}: {fault['msg'][0].lower()}{fault['msg'][1:]}."
        message += _meant(key, fault)
    more = len({error["loc"][:2] for error in errors}) - 1  # one key may fail as each of its types
    return message + (f" ({more} more)" if more else "")


def _key_of_section(location: list[str], value: Any) -> str:
    """The first key of a section that takes a value which the whole section was set to."""
    field = Config.model_fields.get(location[0])
    section = section_of(field.annotation) if field and len(location) == 1 else None
    if section is MethodConfig:
        return f"Name the method with `method={value}`."
    if section is None:
        return ""
    for name in section.model_fields if isinstance(value, str) else ():
        try:
            section.model_validate({name: value})
        except (ValidationError, ConfigError):
            continue
        return f"Set a key of it, such as `{location[0]}.{name}={value}`."
    return f"Set one of its keys: {', '.join(section.model_fields)}."


def _meant(key: str, fault: Any) -> str:
    """How to write a share that was given in percent, or a range that was given to a key of one number."""
    context, given = fault.get("ctx", {}), fault["input"]
    largest = context.get("le", context.get("lt"))
    if largest == 1 and isinstance(given, int | float) and 1 < given <= 100:
        return f" It is a share of 1: `{key}={given / 100:g}` is {given:g} %."
    if isinstance(given, str) and (ends := re.fullmatch(r"(\d+)-(\d+)", given)):
        return f" A sweep takes several: `over={{'{key}': ['{ends[1]}..{ends[2]}']}}`."
    return ""


def _of_another_method(location: list[str], raw: Mapping[str, Any]) -> str:
    """Whose option this is, if it is one, and how to replace a method without its options."""
    section, key = location[0], location[-1]
    if section != "method" or len(location) != 2:
        return ""
    owners = [name for name in methods.names() if key in methods.declared(name).Config.model_fields]
    if not owners:
        return ""
    others = f" and {len(owners) - 2} others" if len(owners) > 3 else ""
    return (
        f"'method.{key}' is an option of {', '.join(owners[: 2 if others else 3])}{others}, not of "
        f"{raw['method']['name']}. Leave it out. If it came with a method that 'method.name' replaced, name the new "
        "method with `method` instead."
    )


def _nearest_key(location: list[str], raw: Mapping[str, Any]) -> str:
    """A hint at the key that was meant: that name in any section, then that description, then a similar name here."""
    *sections, key = location
    known = {place: list(section.model_fields) if section else [] for place, section in _PLACES}
    name = method.get("name") if isinstance(method := raw.get("method"), Mapping) else None
    known["method"] = list(methods.declared(name).Config.model_fields) if isinstance(name, str) else []
    siblings = list(known) if not sections else known.get(sections[0], [])
    if sections[:2] == ["federation", "timeline"]:
        siblings = list(TimelineEvent.model_fields)
    places = {field: f"{section}.{field}" for section, fields in reversed(known.items()) for field in fields}
    here = {field: ".".join([*sections, field]) for field in siblings}
    if (meant := places.get(key) or _described(sections, key)) is not None:
        return f" Did you mean '{meant}'?"
    if near := nearest(key, here if sections else {**places, **here}):
        name = near.split("'")[1]
        return f" Did you mean '{here.get(name) or places[name]}'?"
    return f" Known here: {', '.join(sorted(siblings))}." if siblings else ""


def _described(sections: list[str], key: str) -> str | None:
    """The key whose description begins with the words of a key that does not exist. Without a section: of any."""
    words = key.replace("_", " ").lower()
    for name, section in _PLACES:
        if section is not None and sections in ([], [name]):
            for inner, meaning in section.meanings().items():
                if meaning.lower().startswith(words):
                    return f"{name}.{inner}"
    return None


_NAMES = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Setting:
    """A dotted key. default: None if it is not set. methods: those that have the key."""

    key: str
    takes: str
    default: Any
    description: str
    methods: tuple[str, ...] = ()


def settings() -> list[Setting]:
    """Every key that all runs have, in the order of the configuration."""
    whole = {each.key: each for each in settings_in(Config)}
    of_each = (settings_in(section, f"{name}.") if section else [whole[name]] for name, section in _OF_ALL)
    return [each for found in of_each for each in found]


def settings_of(method: str) -> list[Setting]:
    """A method's own keys. Raises ConfigError for an unknown method."""
    return [
        replace(each, methods=(method,))
        for each in settings_in(methods.declared(method).Config, "method.")
        if each.key.removeprefix("method.") not in MethodConfig.model_fields
    ]


def setting(key: str) -> list[Setting]:
    """The setting of that key; of a method's key, one for each method that has it. Raises ConfigError."""
    every = settings()
    if found := [each for each in every if each.key == key]:
        return found
    own = [each for method in methods.names() for each in settings_of(method)]
    if found := [each for each in own if each.key == key]:
        return list(_joined(found))
    known = list(dict.fromkeys(each.key for each in (*every, *own)))
    ends = [each for each in known if each.rpartition(".")[2] == key]
    hint = f" Did you mean '{ends[0]}'?" if ends else nearest(key, known)
    raise ConfigError(f"there is no key '{key}'.{hint} See `htfl-sim config`.")


def _joined(found: list[Setting]) -> Iterator[Setting]:
    """Methods that have a key alike, in one."""
    alike: dict[str, list[Setting]] = {}
    for each in found:
        alike.setdefault(repr(replace(each, methods=())), []).append(each)
    for group in alike.values():
        yield replace(group[0], methods=tuple(name for each in group for name in each.methods))


def settings_in(section: type[Section], prefix: str = "") -> Iterator[Setting]:
    """The keys of a section; `prefix` stands before each."""
    meanings = section.meanings()
    for key, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        bounds = [
            f"{sign} {getattr(limit, name):g}"
            for limit in field.metadata
            for name, sign in _BOUNDS.items()
            if getattr(limit, name, None) is not None and abs(getattr(limit, name)) < 2**53
        ]
        takes = ", ".join([_takes(field.annotation), *bounds])
        default = None if default is PydanticUndefined else default
        yield Setting(f"{prefix}{key}", takes, default, meanings[key])


def _takes(annotation: Any) -> str:
    """What a value may be, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes(inner[0])
    if origin is Literal:
        return " | ".join(str(each) for each in inner)
    if origin in (Union, types.UnionType):
        return " | ".join(_takes(each) for each in inner if each is not type(None))
    if origin is dict:
        return f"table of {_takes(inner[1])}"
    if origin is tuple:
        of = _takes(inner[0])
        return f"list of {of}" if " | " not in of else f"list of ({of})"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


# Idle settings: another setting decides that they are never read

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
_IDLE_DEFAULTS = flattened(
    {"data": DataConfig().model_dump(mode="json"), "runtime": RuntimeConfig().model_dump(mode="json")}
)


def idle(config: Config) -> list[str]:
    """The settings that somebody gave another value than their preset, or the default, and that change nothing."""
    flat, usual = _flat(config), dict(_IDLE_DEFAULTS)
    if config.preset in presets.names():
        usual |= flattened(presets.load(str(config.preset), config.profile or presets.PAPER).config)
    return [
        sentence
        for key in _READ_UNDER
        if flat[key] != usual[key] and (sentence := _why_idle(key, config)) is not None
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
        needs = "Watcher 'collapse' needs counts by class of the test part."
        found.append(f"{needs} Add test to evaluation.parts.")
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
        if key in _READ_UNDER and (sentence := _why_idle(key, config)) is not None:
            raise ConfigError(f"{sentence} Leave it out, or change that.")


def _flat(config: Config) -> Raw:
    """The settings, also those that a session leaves out."""
    return _IDLE_DEFAULTS | flattened(config.to_json())


def _why_idle(key: str, config: Config) -> str | None:
    """The sentence that a key is never read; None if it is read."""
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
