"""The configuration of one run: frozen, complete, and strict about keys and values.

A configuration is read from nested mappings (a preset, a TOML file, `--set` overrides) and refuses what it
does not know, naming the nearest key it does know. It needs no torch until the method's own section is read.
"""

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from simulator.errors import ConfigError

Raw = dict[str, Any]


class Section(BaseModel):
    """A frozen part of the configuration in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(Section):
    """Which images there are and how they are divided over the clients."""

    dataset: str = Field(
        "digits", description="a name from `htfl-sim datasets`, a folder of class folders, or an .npz"
    )
    partition: Literal["pathological", "dirichlet", "iid"] = "pathological"
    classes_per_client: int = Field(2, ge=1, description="pathological: how many classes each client holds")
    alpha: float = Field(0.5, gt=0, description="dirichlet: concentration of the classes' shares")
    quantity: Literal["varied", "equal"] = Field(
        "varied", description="pathological, iid: sizes of the shares"
    )
    min_samples: int = Field(10, ge=1, description="dirichlet: the fewest samples a client may hold")
    split: str = Field(
        "8:1:1", description="train:test, train:eval:test, or 'global' for the data set's own test set"
    )
    limit: int | None = Field(None, ge=1, description="use only this many images, drawn at random")
    size: int | None = Field(
        None, ge=1, description="side in pixels to which images are scaled, square; default: as they are"
    )
    rgb: bool = Field(False, description="give grey images three equal channels")
    seed: int | None = Field(None, ge=0, lt=2**63, description="of the partition; default: the run's seed")

    @field_validator("split")
    @classmethod
    def _split_has_no_empty_part(cls, split: str) -> str:
        if split != "global":
            split_shares(split)
        return split


class FederationConfig(Section):
    """The clients: how many, how many of them take part in a round, and which models they hold."""

    clients: int = Field(10, ge=1)
    participation: float = Field(1.0, gt=0, le=1, description="fraction C of the clients sampled each round")
    group: str | tuple[str, ...] = Field(
        "htm5", description="a model group, or a list of models; client i gets i mod X"
    )
    pretrained: bool | str = Field(
        False, description="published initial weights: true for the hub's, or a .safetensors file or folder"
    )

    @property
    def participants(self) -> int:
        """Clients sampled each round: N·C to the nearest whole number."""
        return math.floor(self.clients * self.participation + 0.5)

    @model_validator(mode="after")
    def _somebody_participates(self) -> "FederationConfig":
        if self.participants == 0:
            raise ValueError(
                f"participation {self.participation:g} of {self.clients} clients selects nobody; "
                f"use at least {0.5 / self.clients:g}"
            )
        return self


class TrainingConfig(Section):
    """Local training, unless a method's phase says otherwise. The optimiser starts afresh each round."""

    epochs: int = Field(1, ge=1, description="local epochs E")
    batch_size: int = Field(64, ge=1)
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = Field(0.01, gt=0, description="learning rate η")
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    on_divergence: Literal["continue", "stop"] = Field(
        "continue", description="after a round in which a client diverged: go on with the others, or stop"
    )

    @model_validator(mode="after")
    def _momentum_is_sgds(self) -> "TrainingConfig":
        if self.optimizer == "adam" and self.momentum:
            raise ValueError("momentum belongs to optimizer 'sgd'; remove it or change the optimizer")
        return self


class EvaluationConfig(Section):
    """Who is evaluated at the end of a round, and with which model."""

    clients: Literal["all", "participants"] | Annotated[int, Field(ge=1)] = "all"
    model: Literal["local", "aggregated"] = Field(
        "local", description="the model local training left, or the one the client would receive next"
    )
    batch_size: int = Field(1024, ge=1)


class WireConfig(Section):
    """What can happen to an uplink on its way; nothing unless said. Each draw has its own keyed stream."""

    noise: float = Field(
        0.0,
        ge=0,
        description="standard deviation of Gaussian noise, relative to the update's own (InCo Fig. 7)",
    )
    drop: float = Field(0.0, ge=0, lt=1, description="probability that a participant's uplink is lost")


class RuntimeConfig(Section):
    """Where and how wide the run computes. `workers` never changes a result; the others may."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: int | None = Field(
        None, ge=1, description="clients trained at a time; default: the machine's cores"
    )
    threads_per_client: int = Field(1, ge=1)


class CheckpointConfig(Section):
    """How often the state is written and how much of the past is kept."""

    every: int = Field(1, ge=1, description="rounds between checkpoints")
    keep_last: int = Field(3, ge=1)
    keep_every: int | None = Field(None, ge=1, description="also keep every Nth round")
    keep_best: bool = Field(True, description="also keep the round of the best mean accuracy")


class CkaConfig(Section):
    """How alike clients' models are, layer by layer: linear CKA between all pairs, on one keyed probe batch."""

    every: int = Field(0, ge=0, description="measure every so many rounds; 0: only when asked")
    probe: int = Field(256, ge=4, description="images in the probe batch")
    layers: Literal["all"] | tuple[str, ...] = Field("all", description="which, by name, as 'stage3'")
    debiased: bool = Field(False, description="the unbiased estimate of HSIC, for small probes")


class MethodConfig(Section):
    """Base of the methods' own sections; each method adds its paper's symbols."""

    name: str


def _read_method(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    from simulator import methods

    name = section.get("name")
    if not isinstance(name, str):
        raise ConfigError("the [method] section has no name; see `htfl-sim methods`.")
    return methods.get(name).Config.model_validate(section)


class Config(Section):
    """A whole run. Everything that decides its result is in here, with the data's fingerprint beside it."""

    preset: str | None = Field(None, description="the preset it was made from, for the record")
    seed: int = Field(0, ge=0, lt=2**63)
    rounds: int = Field(20, ge=1, description="communication rounds T")
    method: Annotated[SerializeAsAny[MethodConfig], BeforeValidator(_read_method)]
    data: DataConfig = DataConfig()
    federation: FederationConfig = FederationConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    wire: WireConfig = WireConfig()
    cka: CkaConfig = CkaConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @model_validator(mode="after")
    def _evaluates_no_more_than_there_are(self) -> "Config":
        if isinstance(self.evaluation.clients, int) and self.evaluation.clients > self.federation.clients:
            raise ValueError(
                f"evaluation.clients draws {self.evaluation.clients} of {self.federation.clients} clients"
            )
        return self

    def to_json(self) -> Raw:
        """The complete configuration as plain JSON values; `Config.read` takes it back."""
        return self.model_dump(mode="json")

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Config":
        """Validate nested plain values. Raises ConfigError with the first fault, where it is and what to do."""
        try:
            return cls.model_validate(raw)
        except ValidationError as invalid:
            raise ConfigError(_first_fault(invalid, raw)) from invalid


def split_shares(split: str) -> tuple[float, ...]:
    """The shares of a split such as '8:1:1', adding up to 1. Raises ValueError for one with an empty part."""
    try:
        parts = [float(part) for part in split.split(":")]
    except ValueError:
        parts = []
    if len(parts) not in (2, 3):
        raise ValueError(f"'{split}' is no split; use 'train:test', 'train:eval:test' (as 8:1:1) or 'global'")
    if not all(part > 0 and math.isfinite(part) for part in parts):
        raise ValueError(f"'{split}' leaves a part empty; every part must be above zero")
    return tuple(part / sum(parts) for part in parts)


def read_toml(path: Path) -> Raw:
    """A configuration file as nested mappings. Raises ConfigError when it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise ConfigError(f"cannot read {path}: {unreadable.strerror}.") from unreadable
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{path} is not valid TOML: {invalid}.") from invalid


def with_overrides(raw: Mapping[str, Any], assignments: Iterable[str]) -> Raw:
    """`raw` with dotted assignments such as 'training.epochs=10' applied; values are TOML, bare words are strings.

    Raises ConfigError for one that is not `key=value`.
    """
    result = _copy(raw)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        path = key.strip().split(".")
        if not equals or not all(path):
            raise ConfigError(f"'{assignment}' is not key=value; for example: --set training.epochs=10.")
        section = result
        for part in path[:-1]:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise ConfigError(f"'{key}' names a key inside '{part}', which is a value and has none.")
        section[path[-1]] = _toml_value(text.strip())
    return result


def with_method(raw: Mapping[str, Any], name: str) -> Raw:
    """`raw` with another method; the hyper-parameters of the one it replaces do not carry over."""
    result = _copy(raw)
    if result.get("method", {}).get("name") != name:
        result["method"] = {"name": name}
    return result


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Raw:
    """`base` with `patch` laid over it, section by section."""
    result = _copy(base)
    for key, value in patch.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = _copy(value) if isinstance(value, Mapping) else value
    return result


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that ends an error message: ' did you mean …?', or nothing when nothing is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def _copy(raw: Mapping[str, Any]) -> Raw:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in raw.items()}


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _first_fault(invalid: ValidationError, raw: Mapping[str, Any]) -> str:
    errors = invalid.errors(include_url=False)
    fault = errors[0]
    location = [str(part) for part in fault["loc"]]
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        message = f"unknown key '{key}'.{_nearest_key(location, raw)}"
    elif fault["type"] == "missing":
        message = f"'{key}' is missing."
    elif fault["type"] == "value_error":
        message = f"{key or 'configuration'}: {fault['ctx']['error']}."
    else:
        message = f"'{key}' = {fault['input']!r}: {fault['msg'][0].lower()}{fault['msg'][1:]}."
    return message + (f" ({len(errors) - 1} more)" if len(errors) > 1 else "")


def _nearest_key(location: list[str], raw: Mapping[str, Any]) -> str:
    """Look for the key among its section's fields, then among every section's."""
    *sections, key = location
    known = {field: _fields(info.annotation) for field, info in Config.model_fields.items()}
    known["method"] = _method_fields(raw)
    siblings = list(known) if not sections else known.get(sections[0], [])
    if hint := nearest(key, siblings):
        return hint.replace(
            f"'{hint.split(chr(39))[1]}'", f"'{'.'.join([*sections, hint.split(chr(39))[1]])}'"
        )
    everywhere = {f"{section}.{field}": field for section, fields in known.items() for field in fields}
    for dotted, field in everywhere.items():
        if field == key:
            return f" Did you mean '{dotted}'?"
    return f" Known here: {', '.join(sorted(siblings))}." if siblings else ""


def _fields(annotation: Any) -> list[str]:
    return (
        list(annotation.model_fields)
        if isinstance(annotation, type) and issubclass(annotation, Section)
        else []
    )


def _method_fields(raw: Mapping[str, Any]) -> list[str]:
    from simulator import methods

    section = raw.get("method")
    name = section.get("name") if isinstance(section, Mapping) else None
    return list(methods.get(name).Config.model_fields) if isinstance(name, str) else []
