"""The sections of a configuration: frozen, complete, and strict about keys and values; and ranges for tuning."""

import ast
import functools
import inspect
import math
import operator
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import Raw, parsed

# Ranges of hyper-parameters


@dataclass(frozen=True)
class Log:
    """Numbers from low to high, as likely in each factor: a learning rate."""

    low: float
    high: float


@dataclass(frozen=True)
class Linear:
    """Numbers from low to high, all as likely: a weight from 0 to 1."""

    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """Some values."""

    options: tuple[Any, ...]


Range = Log | Linear | Choice
Space = Mapping[str, Range]
"""Ranges by the keys of a section."""


def range_of(text: str) -> tuple[str, Range]:
    """'training.lr=log:0.001:0.1', 'method.mu=linear:0:1', 'training.clip=1,5,10' as a key and a range.

    Raises ConfigError.
    """
    key, equals, given = (each.strip() for each in text.partition("="))
    kind, *ends = given.split(":")
    if not equals or not key or not given:
        raise ConfigError(f"'{text}' is not a range. An example: training.lr=log:0.001:0.1.")
    if kind in ("log", "linear"):
        try:
            low, high = map(float, ends)
        except ValueError:
            raise ConfigError(f"'{text}' needs two numbers, as training.lr=log:0.001:0.1.") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high and (kind == "linear" or low > 0)):
            raise ConfigError(f"'{text}': the first number is below the second, and above 0 for log.")
        return key, Log(low, high) if kind == "log" else Linear(low, high)
    options = tuple(parsed(each.strip()) for each in given.split(","))
    if len(options) < 2:
        raise ConfigError(f"'{text}' has one value. Set it with an assignment, or name several values.")
    return key, Choice(options)


def range_text(range: Range) -> str:
    """A range in a cell: 'log 0.001 … 0.1', '1 | 5 | 10'."""
    match range:
        case Log(low, high):
            return f"log {low:g} … {high:g}"
        case Linear(low, high):
            return f"{low:g} … {high:g}"
        case Choice(options):
            return " | ".join("none" if each is None else str(each) for each in options)


def range_as_json(range: Range) -> dict[str, Any]:
    """A range for programs: its kind, and its ends or options."""
    return {"kind": type(range).__name__.lower(), **asdict(range)}


Limits = Mapping[str, float]
"""What a setting's field allows, by the names of pydantic: gt, ge, lt, le."""


def is_at_boundary(range: Range, value: Any, limits: Limits = MappingProxyType({})) -> bool:
    """Whether a value is in the outer 5 % of a range, or first or last of ordered choices, and may lie beyond."""
    match range:
        case Choice(options):
            numbers = [each for each in options if isinstance(each, int | float)]
            if len(numbers) < 3 or value not in (min(numbers), max(numbers)):
                return False
            whole = all(isinstance(each, int) for each in numbers)
            step = 1 if whole else (max(numbers) - min(numbers)) / 20
            return _allows(limits, value - step if value == min(numbers) else value + step)
        case Log(low, high):
            share, below, above = math.log(value / low) / math.log(high / low), low / 1.05, high * 1.05
        case Linear(low, high):
            step = (high - low) / 20
            share, below, above = (value - low) / (high - low), low - step, high + step
    return (share <= 0.05 and _allows(limits, below)) or (share >= 0.95 and _allows(limits, above))


def _allows(limits: Limits, value: float) -> bool:
    holds = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
    return all(holds[name](value, limit) for name, limit in limits.items())


# Sections

MANY = 1000
"""Above this many clients, work that grows with their number needs a setting to cover all clients."""
SAMPLED = 100
"""The maximum number of compared clients: a matrix of 100 clients has 10,000 numbers per layer."""
CLASS_CELLS = 2_000
"""The most clients × classes whose counts a record has by default: 27 KB for each part."""
PARTS = ("test", "eval")
"""The parts of a client's data on which accuracy, loss, F1, and the user's own metrics are measured."""


class Section(BaseModel):
    """A frozen part of the configuration in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each key means: the `description` of its field, or the text under it."""
        texts = texts_of(cls)
        return {key: each.description or texts.get(key, "") for key, each in cls.model_fields.items()}


def changed(section: Section, keys: Iterable[str]) -> list[str]:
    """The keys whose values are not the defaults."""
    return [key for key in keys if getattr(section, key) != type(section).model_fields[key].default]


def refuse_others(section: Section, choice: str, readers: Mapping[str, tuple[str, ...]]) -> None:
    """Raise ValueError for a key that is set and that the value of `choice` does not read. `readers` do, by key."""
    chosen = getattr(section, choice)
    for key in changed(section, readers):
        if chosen not in readers[key]:
            names = " or ".join(f"'{each}'" for each in readers[key])
            raise ValueError(f"{key} belongs to {choice} {names}, and this is '{chosen}'; remove it")


@functools.cache
def texts_of(section: type[Section]) -> dict[str, str]:
    """The text under each key of a section, in one line. It is read from the source when somebody asks."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__):
        found |= own_texts(each) if issubclass(each, Section) else {}
    return found


def own_texts(kind: type) -> dict[str, str]:
    """The text under each key in the source of a class, in one line, without those of its bases."""
    found: dict[str, str] = {}
    # A class of a notebook's cell has no source. One inside a function may have one that does not stand alone.
    with suppress(OSError, TypeError, SyntaxError):
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
        for key, text in pairwise(body):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[id] = " ".join(said.split())
    return found


class SeedsConfig(Section):
    """The seeds of a run's three parts. Each is `seed` by default."""

    data: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of the partition and of the split into train, eval, and test. Default: seed."""
    init: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of the initial weights of clients and server. Default: seed."""
    training: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of all other draws, such as participants, batches, augmentation, and the wire. Default: seed."""


class ModelsConfig(Section):
    """How models are built, where an architecture leaves a choice."""

    stem: Literal["imagenet", "cifar"] | None = None
    """First layers of ResNets and similar models: 7×7/2 with pooling (imagenet), or 3×3 (cifar). Default: 3×3 up to
    64 pixels."""
    features: int | None = Field(None, ge=1)
    """Width K to which the features of every model are pooled, before a new head. Default: each model has its own."""


class EvaluationConfig(Section):
    """Who is evaluated at the end of a round, and with which model."""

    clients: Literal["all", "participants"] | Annotated[int, Field(ge=1)] = "all"
    """Clients to evaluate: all, the round's participants, or this many drawn each round."""
    model: Literal["local", "aggregated"] | None = None
    """Model to evaluate: after local training, or the one that the client would receive next. Default: the method's
    choice."""
    parts: tuple[Literal["test", "eval"], ...] | None = None
    """Parts of the split to record accuracy, loss, and F1 for. Default: all that the split has."""
    initial: Literal["all", "skip"] | None = Field(
        None,
        description="Evaluate clients that have never taken part once, or skip them and record null. Default: "
        f"all, for up to {MANY:,} clients.",
    )
    metrics_for: Literal["all", "changed"] | None = Field(
        None,
        description="Clients whose metrics each ledger record holds: all, or only those that changed in "
        f"the round. Default: all, for up to {MANY:,} clients.",
    )
    classes: bool | None = Field(
        None,
        description="Record each client's samples and correct answers by class. Default: yes, for up to "
        f"{CLASS_CELLS:,} clients × classes.",
    )
    metrics: tuple[str, ...] = ()
    """Metrics beside accuracy, loss, and F1: balanced_accuracy, auroc, auprc, or your own files."""
    batch_size: int = Field(1024, ge=1)
    """Number of samples in an evaluation step."""

    @model_validator(mode="after")
    def _metrics_are_of_some_part(self) -> "EvaluationConfig":
        if self.metrics and self.parts == ():
            raise ValueError(
                "metrics are of the parts that are recorded; name some, or leave the metrics out"
            )
        if self.classes and self.parts == ():
            raise ValueError(
                "classes are counted on the parts that are recorded; name some in evaluation.parts, or set "
                "evaluation.classes=false"
            )
        if len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"metrics {list(self.metrics)} names one twice")
        return self

    @field_validator("parts")
    @classmethod
    def _parts_are_different(cls, parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if parts and len(set(parts)) < len(parts):
            raise ValueError(f"{list(parts)} names a part twice")
        return parts


class WireConfig(Section):
    """What can happen to an uplink on its way; nothing unless said. Each draw has its own keyed stream."""

    noise: float = Field(0.0, ge=0)
    """Standard deviation of Gaussian noise on an update, relative to the update's own (InCo Fig. 7)."""
    drop: float = Field(0.0, ge=0, lt=1)
    """Probability that a participant's uplink is lost."""


RUNNERS = ("parallel", "ray", "sequential", "stacked")
"""The names of the runners, which `simulator.runners` registers."""


class RuntimeConfig(Section):
    """Where and how wide the run computes.

    The numbers of workers, `cache`, `address` and `gpus_per_point` never change a result; the others may.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on. auto: a GPU if there is one."""
    workers: int | None = Field(None, ge=1)
    """Number of clients trained at a time. Default: the machine's cores."""
    threads_per_client: int = Field(1, ge=1)
    """Number of torch threads per worker."""
    runner: str = "parallel"
    """Runner that computes clients: parallel, sequential, stacked (clients of one architecture together), or ray."""
    address: str = "local"
    """Ray cluster: local starts one on this machine. auto or ray://HOST:PORT connects to a running one."""
    inner: str = "sequential"
    """Runner inside each Ray actor: sequential, parallel, or stacked."""
    workers_per_actor: int = Field(2, ge=1)
    """Number of clients that a Ray actor computes at a time, for runtime.inner 'parallel'."""
    gpus_per_point: float = Field(1.0, gt=0, le=1)
    """Share of a GPU for each point of a study on Ray. 0.25 puts four points on each GPU."""
    stack: int = Field(16, ge=1)
    """Largest number of clients trained together, for runner 'stacked'. Another number changes last digits."""
    cache: int = Field(512 * 2**20, ge=0)
    """Bytes of client states to keep in memory. Other states are read or drawn when needed."""


class CheckpointConfig(Section):
    """How often the state is written and how much of the past is kept."""

    every: int = Field(1, ge=1)
    """Number of rounds between checkpoints."""
    keep_last: int = Field(3, ge=1)
    """Number of newest checkpoints to keep."""
    keep_every: int | None = Field(None, ge=1)
    """Also keep every Nth round."""
    keep_best: bool = True
    """Also keep the round with the best mean accuracy."""


class CkaConfig(Section):
    """How alike clients' models are, layer by layer: linear CKA between all pairs, on one keyed probe batch."""

    every: int | None = Field(None, ge=0)
    """Number of rounds between CKA measurements. 0: only when you ask. Default: after round 1, and then every tenth
    round, or more rarely where that would take more than 2 % of training."""
    probe: int = Field(256, ge=4)
    """Number of samples in the probe batch."""
    layers: Literal["all"] | tuple[str, ...] = "all"
    """Layers to compare: all, or a list of names such as 'stage3'."""
    debiased: bool = False
    """Use the unbiased estimate of HSIC, for small probe batches."""
    model: Literal["local", "aggregated"] | None = None
    """Model whose layers are compared, local or aggregated. Default: the one that is evaluated."""
    untrained: bool = False
    """Include clients that have never taken part, with their initial models."""
    clients: int = Field(SAMPLED, ge=2)
    """Largest number of clients to compare. Larger federations draw this many once for the run."""


class MethodConfig(Section):
    """Base class of the methods' own sections. Each method adds its paper's symbols."""

    space: ClassVar[Space] = {}
    """The hyper-parameters that `htfl-sim tune` searches, with their ranges. A keyword of the class sets it."""

    name: str
    """Name of the method, from `htfl-sim methods`."""

    def __init_subclass__(cls, space: Space | None = None, **given: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**given)
        if space is not None:
            cls.space = space

    def begun(self, rounds: int) -> Self:
        """The section with the values that are fixed when the method begins; an extension of the rounds keeps them."""
        return self


def _whole(epochs: float) -> int | float:
    """A whole number of epochs as an integer, so that it is written without a point."""
    return int(epochs) if epochs == int(epochs) else epochs


Epochs = Annotated[float, AfterValidator(_whole), PlainSerializer(_whole)]
"""A number of epochs, which may be a fraction."""


def refuse_two_lengths(given: Mapping[str, Any]) -> None:
    """Raise ValueError if a section has both epochs and steps."""
    if given.get("epochs") is not None and given.get("steps") is not None:
        raise ValueError(
            f"epochs = {given['epochs']} and steps = {given['steps']} are two lengths of one training; "
            "remove one of them"
        )


class TrainingConfig(Section):
    """Local training, unless a method's phase says otherwise. The optimizer starts afresh each round."""

    space: ClassVar[Space] = {
        "lr": Log(0.001, 0.3),
        "clip": Choice((None, 1.0, 10.0)),
        "momentum": Choice((0.0, 0.5, 0.9)),
        "batch_size": Choice((16, 32, 64, 128)),
        "epochs": Choice((1, 2, 5)),
    }
    """What `htfl-sim tune` searches for every method."""

    epochs: Epochs | None = Field(1, gt=0)
    """Number of local epochs E. A fraction is that share of an epoch's batches, rounded to whole steps, but at
    least one."""
    steps: int | None = Field(None, ge=1)
    """Number of local steps of a client in a round, in place of epochs."""
    batch_size: int = Field(64, ge=1)
    """Number of samples in a training step."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Optimizer. adamw decays weights separately from the gradient."""
    lr: float = Field(0.01, gt=0)
    """Learning rate η."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """How η changes from round to round. Phases of a method that set their own rate keep it."""
    lr_min: float | None = Field(None, ge=0)
    """Rate at the last round, for schedule 'cosine'. Default: 0."""
    lr_step: int | None = Field(None, ge=1)
    """Number of rounds between two changes of the rate, for schedule 'step'."""
    lr_decay: float = Field(0.1, gt=0, lt=1)
    """Factor on the rate at each change, for schedule 'step'."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum factor, for optimizer 'sgd'."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay: this times the weights is added to the gradient, or to the step for adamw."""
    augment: tuple[Literal["flip", "crop", "resized_crop", "cutout", "erase"], ...] = ()
    """Random changes to training images, in this order."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm of a step, over all trained parameters. Default: no clipping."""
    class_weights: Literal["balanced"] | None = None
    """Weights of classes in the training loss: balanced gives each class of a client the same weight in
    all. Default: each sample counts the same."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Precision of matrix products and convolutions in training. tf32 needs CUDA."""
    on_divergence: Literal["continue", "stop"] = "continue"
    """What to do after a round in which a client diverged: continue with the others, or stop."""

    @model_validator(mode="before")
    @classmethod
    def _has_one_length(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        refuse_two_lengths(given)
        epochs = None if given.get("steps") is not None else given.get("epochs")
        return {**given, "epochs": 1 if epochs is None and given.get("steps") is None else epochs}

    @model_validator(mode="after")
    def _settings_fit_together(self) -> "TrainingConfig":
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError("momentum belongs to optimizer 'sgd'; remove it or change the optimizer")
        if self.schedule == "step" and self.lr_step is None:
            raise ValueError("schedule 'step' needs lr_step, the rounds between two steps")
        for key, schedule in (("lr_min", "cosine"), ("lr_step", "step")):
            if getattr(self, key) is not None and self.schedule != schedule:
                raise ValueError(f"{key} belongs to schedule '{schedule}'; set that, or remove it")
        if self.lr_min is not None and self.lr_min > self.lr:
            raise ValueError(f"lr_min = {self.lr_min:g} is above lr = {self.lr:g}")
        return self


class UnseenConfig(Section):
    """When unseen clients are measured, and how long they train before: see `federation.unseen`."""

    every: int | None = Field(None, ge=1)
    """Number of rounds between measurements of unseen clients. Default: only after the last round."""
    epochs: Epochs | None = Field(None, gt=0)
    """Epochs in which an unseen client adapts. Phases that set their own number keep it. Default: training.epochs
    or training.steps."""
    steps: int | None = Field(None, ge=1)
    """Training steps in which an unseen client adapts, in place of epochs."""

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            refuse_two_lengths(given)
        return given


RANDOM, AVAILABLE, UTILITY = "random", "available", "utility"
STRATEGIES = (RANDOM, AVAILABLE, UTILITY)
"""The strategies of htfl-sim. Other names are those of users' files."""
PAPERS = {UTILITY: "Oort"}
"""What strategies are called in papers."""
OF_SPEED = ("speed_penalty", "preferred")
"""The options that need seconds, and so a clock."""
_OF_UTILITY = ("exploration", "exploration_decay", "exploration_min", *OF_SPEED, "cutoff")


class SelectionConfig(Section):
    """How the participants of a round are selected. Without this section, at random."""

    strategy: str = Field(RANDOM, min_length=1)
    """Selection of participants: random, available (clients that stay available first), utility (large losses and
    fast clients first, like Oort), or a Python file of your own."""
    exploration: float = Field(0.9, ge=0, le=1)
    """Share of never selected clients in round 1, for strategy 'utility'."""
    exploration_decay: float = Field(0.98, gt=0, le=1)
    """Factor on that share per round, for strategy 'utility'."""
    exploration_min: float = Field(0.3, ge=0, le=1)
    """Smallest share of never selected clients, for strategy 'utility'."""
    speed_penalty: float = Field(2.0, ge=0)
    """Exponent α of the penalty (T / t)^α on clients that take t > T seconds, for strategy 'utility'."""
    preferred: float = Field(0.3, gt=0, le=1)
    """Quantile of the clients' last seconds that is the preferred duration T, for strategy 'utility'."""
    cutoff: float = Field(0.05, gt=0, le=1)
    """Clients of at least this share of the last selected client's utility take part in the draw, for strategy
    'utility'. 1: the clients of the largest utility."""

    @property
    def is_own(self) -> bool:
        """Whether a user's file selects."""
        return self.strategy not in STRATEGIES

    @model_validator(mode="after")
    def _options_belong_to_utility(self) -> "SelectionConfig":
        refuse_others(self, "strategy", dict.fromkeys(_OF_UTILITY, (UTILITY,)))
        return self


Watcher = Literal["falling", "divergence", "plateau", "collapse", "losing"]
WATCHERS: tuple[Watcher, ...] = get_args(Watcher)
ALL = "all"
"""All watchers, on the command line."""
_ACTIONS = ("log", "pause", "stop")


class WatchConfig(Section):
    """Which watchers look at the record of every round. Without this section, none does."""

    watchers: tuple[Watcher, ...] = ()
    """Watchers that look at the record of every round."""
    pause: tuple[Watcher, ...] = ()
    """Watchers that pause the run if they notice something."""
    stop: tuple[Watcher, ...] = ()
    """Watchers that stop the run, with a checkpoint and exit code 10."""
    falling_rounds: int = Field(5, ge=1)
    """Rounds in a row in which mean test accuracy falls, for watcher 'falling'."""
    divergence_factor: float = Field(3.0, gt=1)
    """Multiple of the lowest mean training loss above which the loss has exploded, for watcher 'divergence'."""
    plateau_rounds: int = Field(20, ge=1)
    """Rounds without a better mean test accuracy, for watcher 'plateau'."""
    plateau_gain: float = Field(0.005, ge=0, lt=1)
    """Gain in mean test accuracy (0 to 1) above which a round is better, for watcher 'plateau'."""
    collapse_share: float = Field(0.9, gt=0.5, le=1)
    """Share of a client's test samples for which it answers one class, for watcher 'collapse'."""
    losing_rounds: int = Field(5, ge=1)
    """Rounds below the first evaluation, or evaluations in which accuracy falls, for watcher 'losing'."""

    @field_validator("watchers", "pause", "stop")
    @classmethod
    def _in_one_order(cls, named: tuple[Watcher, ...]) -> tuple[Watcher, ...]:
        return tuple(each for each in WATCHERS if each in named)

    @model_validator(mode="after")
    def _settings_belong_to_watchers(self) -> "WatchConfig":
        for key in ("pause", "stop"):
            for name in getattr(self, key):
                if name not in self.watchers:
                    raise ValueError(f"{key} names '{name}', which does not watch; add it to watch.watchers")
        if both := next((name for name in self.pause if name in self.stop), None):
            raise ValueError(f"'{both}' is in watch.pause and in watch.stop; keep one")
        for key, field in type(self).model_fields.items():
            name = key.partition("_")[0]
            if name in WATCHERS and name not in self.watchers and getattr(self, key) != field.default:
                raise ValueError(
                    f"{key} is for watcher '{name}', which is off; add it to watch.watchers, or set watch={{}} "
                    "before the other settings"
                )
        return self

    def action(self, watcher: str) -> Literal["log", "pause", "stop"]:
        """What happens if this watcher notices something."""
        return "stop" if watcher in self.stop else "pause" if watcher in self.pause else "log"


EVERY = WatchConfig(watchers=WATCHERS)
"""All watchers with their defaults."""


def unknown_runner(name: str, known: Sequence[str] = RUNNERS) -> ConfigError:
    """The error for a runner that there is not."""
    return ConfigError(f"unknown runner '{name}'.{nearest(name, known)} There are {', '.join(known)}.")


def unknown_strategy(name: str) -> ConfigError:
    """The error for a strategy of selection that there is not."""
    file = f"{name.removesuffix('.py')}.py"
    own = (
        f" Add `selection={file}`."
        if Path(file).is_file()
        else " For your own, name its file: `selection=mypick.py`."
    )
    return ConfigError(
        f"selection.strategy names '{name}', which is neither a strategy ({', '.join(STRATEGIES)}) nor a loaded "
        f"file.{nearest(name, STRATEGIES, PAPERS) or own}"
    )


def section_of(words: Iterable[str]) -> Raw:
    """The section for the words of `watch`: 'all', 'plateau', 'plateau:rounds=20,action=stop'. Raises ConfigError."""
    found: Raw = {}
    for word in words:
        name, _, options = word.partition(":")
        if name not in (*WATCHERS, ALL):
            hint = nearest(name, (*WATCHERS, ALL)) or f" Known: {', '.join((*WATCHERS, ALL))}."
            raise ConfigError(f"`watch`: there is no watcher '{name}'.{hint}")
        named = WATCHERS if name == ALL else (name,)
        found["watchers"] = [*found.get("watchers", []), *named]
        for option in filter(None, options.split(",")):
            key, equals, value = option.partition("=")
            if key == "action" and value in _ACTIONS:
                if value != "log":
                    found[value] = [*found.get(value, []), *named]
            elif equals and f"{name}_{key}" in WatchConfig.model_fields:
                found[f"{name}_{key}"] = parsed(value)
            else:
                raise ConfigError(f"`watch`: '{option}' is no option of '{name}'. Use {_usage(name)}.")
    return found


def _usage(name: str) -> str:
    keys = (key.removeprefix(f"{name}_") for key in WatchConfig.model_fields if key.startswith(f"{name}_"))
    return " or ".join([*(f"{key}=VALUE" for key in keys), "action=pause or action=stop"])
